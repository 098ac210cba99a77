"""Templates: they loop and print. Everything they show is decided before, in a view model."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import jinja2.bccache

from rackwright.errors import CannotRun, Problem, nearest

TEMPLATES = Path(__file__).resolve().parents[2] / "templates"


def render(template: str, view: Mapping[str, Any]) -> str:
    """The text of ``template`` (a path below ``templates/``) for ``view``.

    Raises:
        CannotRun: no such template, it is malformed, or it asks for a value that the view does not hold.
    """
    try:
        return environment().get_template(template).render(view)
    except jinja2.TemplateNotFound as error:
        raise CannotRun(_not_found(str(error.name or template))) from None
    except jinja2.TemplateSyntaxError as error:
        raise CannotRun(
            _broken(
                f"{error.name or template}:{error.lineno}", "must be a valid template", str(error.message)
            )
        ) from None
    except jinja2.UndefinedError as error:
        raise CannotRun(
            _broken(
                _place(template, error), "must ask only for values that its view holds", str(error.message)
            )
        ) from None


def template_names() -> list[str]:
    """Every template, in order of its path."""
    return environment().list_templates(extensions=["j2"])


class _Compiled(jinja2.bccache.FileSystemBytecodeCache):
    """Compiled templates beside their sources, as Python keeps its own, where it can write there."""

    def dump_bytecode(self, bucket: jinja2.bccache.Bucket) -> None:
        with contextlib.suppress(OSError):
            Path(self.directory).mkdir(exist_ok=True)
            super().dump_bytecode(bucket)


@cache
def environment() -> jinja2.Environment:
    """The one environment: a missing value is an error, and HTML is escaped.

    Raises:
        CannotRun: the repository's ``templates/`` is not there.
    """
    if not TEMPLATES.is_dir():
        raise CannotRun(
            Problem(
                str(TEMPLATES),
                "must be the templates folder of a checkout",
                "no such folder",
                "reports, runbooks and configurations are rendered from it; an installed package has none",
                "run rackwright from a checkout: pip install -e .",
            )
        )
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES, encoding="utf-8"),
        bytecode_cache=None if sys.dont_write_bytecode else _Compiled(str(TEMPLATES / "__pycache__")),
        undefined=jinja2.StrictUndefined,
        autoescape=jinja2.select_autoescape(["html", "html.j2"], default_for_string=False),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _not_found(name: str) -> Problem:
    return Problem(
        f"templates/{name}",
        "must be a template" + nearest(name, template_names()),
        "no such file",
        "nothing can be rendered without it",
        "git status templates/",
    )


def _broken(where: str, rule: str, found: str) -> Problem:
    return Problem(
        f"templates/{where}",
        rule,
        found,
        "a half-rendered file would be worse than none",
        "mend the template",
    )


def _place(template: str, error: jinja2.UndefinedError) -> str:
    """``template:line`` of the innermost template frame of the traceback."""
    place, trace = template, error.__traceback__
    root = str(TEMPLATES)
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if file.startswith(root):
            place = f"{Path(file).relative_to(TEMPLATES).as_posix()}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place
