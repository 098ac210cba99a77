"""List and show hardware, models, engines and prices; add a model from its own files."""

from __future__ import annotations

from pathlib import Path

import click

from rackwright.files import say, write_whole

KINDS = (
    "accelerator", "machine", "cabinet", "model", "engine", "prices", "platform", "scenario", "switch",
    "calibration", "partitioning", "provisioner",
)  # fmt: skip


@click.group(name="catalog", help=__doc__)
@click.option(
    "--catalog",
    "directories",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A directory of your own entries, beside ours; as rackwright --catalog and RACKWRIGHT_CATALOG.",
)
def command(directories: tuple[Path, ...]) -> None:
    from rackwright.catalog import using

    click.get_current_context().with_resource(using(directories))


@command.command(name="list", help="One line an entry: of one kind, or of all.")
@click.argument("kind", type=click.Choice(KINDS), required=False)
def list_(kind: str | None) -> None:
    from rackwright.catalog import load_catalog
    from rackwright.catalog.show import table

    catalog = load_catalog()
    blocks = [
        [f"{name}s" if name != "prices" else name, *table(name, catalog.kinds[name], catalog)]
        if kind is None
        else list(table(name, catalog.kinds[name], catalog))
        for name in KINDS
        if kind in (None, name)
    ]
    say("\n\n".join("\n".join(block) for block in blocks))


@command.command(name="show", help="One entry by id or alias, with the source of every number.")
@click.argument("name")
@click.option("--yaml", "as_yaml", is_flag=True, help="The entry's file, to copy and change.")
def show(name: str, as_yaml: bool) -> None:
    from rackwright.catalog import load_catalog, named
    from rackwright.catalog.show import entry_lines

    catalog = load_catalog()
    entries = named(catalog, name)
    if as_yaml:
        say("---\n".join(catalog.texts[entry.id] for entry in entries), newline=False)
        return
    say("\n\n".join("\n".join(entry_lines(entry, catalog)) for entry in entries))


@command.command(
    name="add-model",
    help="An entry from FILE: a Hugging Face config.json, a GGUF or safetensors file, a safetensors index, "
    "or a directory with them. Nothing is downloaded.",
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="Write the entry here.")
@click.option("--hf-id", default="", help="OWNER/NAME that the engine is to load; the directory's name else.")
@click.option("--id", "own_id", default="", help="The entry's id; made of the name else.")
@click.option("--replaces", is_flag=True, help="It stands in place of the entry of the same id.")
def add_model(file: Path, output: Path | None, hf_id: str, own_id: str, replaces: bool) -> None:
    from shlex import quote

    from rackwright.catalog import load_catalog
    from rackwright.catalog.adding.model import described, model_entry
    from rackwright.catalog.show import number

    name, data, text = model_entry(file, load_catalog(), hf_id=hf_id, own_id=own_id, replaces=replaces)
    if output is None:
        say(text, newline=False)
        return
    write_whole(output, text)
    model = described(data)
    weights = model.quantisations[model.default_quantisation]
    say(
        f"{output}: written\n"
        f"  {model.total.value:,.2f} × 10⁹ parameters, {model.active.value:,.2f} active; "
        f"{number(weights.loaded.value)} GB in {model.default_quantisation}; "
        f"{model.kv_bytes_per_token(16):,} bytes of 16-bit KV cache a token\n"
        f"next  review it, then: rackwright --catalog {quote(str(output.parent))} catalog show {quote(name)}"
    )
