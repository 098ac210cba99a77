"""Size the guide's tiers, kinds of users and decision tree again, and say where they differ."""

from __future__ import annotations

import click

from rackwright.catalog import load_catalog
from rackwright.files import say
from rackwright.sizing.guide_answers import markdown, outcomes


@click.command(name="tiers", help=__doc__, epilog="Exit status: 0.")
@click.option("--markdown", "as_markdown", is_flag=True, help="As the page docs/tiers.md.")
def command(as_markdown: bool) -> None:
    catalog = load_catalog()
    if as_markdown:
        say("\n".join(markdown(catalog)))
        return
    for found in outcomes(catalog):
        plan = found.plan
        ours = f"{len(plan.pools[0].nodes)} × {plan.pools[0].machine}" if plan is not None else "none"
        say(f"{found.row.asked}: {found.verdict}\n  guide  {found.row.answer}\n  here   {ours}")
        for reason in found.reasons:
            say(click.wrap_text(reason, 110, "  why    ", " " * 9))
