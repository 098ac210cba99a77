"""The ``rackwright`` command: a thin layer that finds its commands by file name.

``cmd_<name>.py`` exposes ``command``; its docstring's first line is the help. Modules are imported when their
command runs, so that listing them stays quick.
"""

from __future__ import annotations

import ast
import gc
import importlib
import sys
from pathlib import Path

import click

from rackwright import __version__
from rackwright.cli.messages import visible
from rackwright.errors import Problem, RackwrightError, nearest


class Commands(click.Group):
    """A group whose commands are the ``cmd_*.py`` files beside this one."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(
            p.stem.removeprefix("cmd_").replace("_", "-") for p in Path(__file__).parent.glob("cmd_*.py")
        )

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        command = importlib.import_module(f"rackwright.cli.cmd_{cmd_name.replace('-', '_')}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if args and not args[0].startswith("-") and args[0] not in known:
            raise click.UsageError(f'there is no command "{args[0]}"{nearest(args[0], known)}', ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, _first_line(name)) for name in self.list_commands(ctx)])


def _first_line(name: str) -> str:
    """First line of a command module's docstring, read without importing it."""
    source = Path(__file__).parent / f"cmd_{name.replace('-', '_')}.py"
    text = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0]


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="rackwright")
@click.option(
    "--catalog",
    "directories",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A directory of your own catalog entries, beside ours; also RACKWRIGHT_CATALOG.",
)
def group(directories: tuple[Path, ...]) -> None:
    """From users, model and SLO to a serving cluster that is proven ready: size, stand up, prove.

    Exit status: 0 good, 1 findings, 2 bad input or could not run.
    """
    if directories:
        from rackwright.catalog import using

        click.get_current_context().with_resource(using(directories))


_ENDS_SOON = (["render"], ["diff"], ["size"], ["check"], ["explain"])
"""Commands whose memory goes with the process: looking for garbage before took a sixth of their time."""

_LONG = (["preflight"], ["judge"])
"""Commands that read thousands of outputs, each let go of as a whole: garbage is looked for now and then."""


def main(args: list[str] | None = None) -> None:
    """Run the command line; what can be explained is a message on stderr, never a traceback."""
    _reach_checkout()
    if args is None and sys.argv[1:2] in _ENDS_SOON:
        gc.disable()
    elif args is None and sys.argv[1:2] in _LONG:
        gc.set_threshold(100_000, 20, 20)
    try:
        group.main(args=args, prog_name="rackwright", standalone_mode=True)
    except RackwrightError as error:
        click.echo(visible("\n".join(str(problem) for problem in error.problems)), err=True)
        sys.exit(error.exit_code)
    except ModuleNotFoundError as error:
        if (problem := _not_installed(error)) is None:
            raise
        click.echo(str(problem), err=True)
        sys.exit(2)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)


CHECKOUT = Path(__file__).resolve().parents[3]


def _reach_checkout() -> None:
    """``checks`` and ``stacks`` run from the checkout; an installed command does not have it on its path."""
    if (CHECKOUT / "checks" / "registry.py").is_file() and str(CHECKOUT) not in sys.path:
        sys.path.append(str(CHECKOUT))


def _not_installed(error: ModuleNotFoundError) -> Problem | None:
    name = (error.name or "").partition(".")[0]
    extras = {"pulumi": "stacks", "pulumi_kubernetes": "stacks", "paramiko": "checks", "pytest": "checks"}
    if name in ("checks", "stacks"):
        return Problem(
            f"package {name}",
            "must be in the checkout that the command runs from",
            f"no {CHECKOUT / name}",
            "only the model is installed; programs, checks and templates run from a checkout",
            "clone the repository and use its environment: make demo",
        )
    if name in extras:
        return Problem(
            f"package {name}",
            "must be installed for this command",
            "nothing",
            "",
            f"pip install '.[{extras[name]}]'",
        )
    return None
