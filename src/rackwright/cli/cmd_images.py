"""List the images that a plan's objects name, or the commands that copy them into the site's registry."""

from __future__ import annotations

from pathlib import Path
from shlex import quote

import click

from rackwright.errors import InputErrors, Problem
from rackwright.files import say

COPY = {
    "crane": "crane copy {source} {name}",
    "skopeo": "skopeo copy --all docker://{source} docker://{name}",
}


@click.command(
    name="images",
    help=__doc__,
    epilog="Images of operators that somebody else installs are their charts' and are not listed.",
)
@click.argument("plan_file", metavar="PLAN", type=click.Path(path_type=Path))
@click.option("--copy", type=click.Choice(sorted(COPY)), help="Print commands of this tool instead.")
def command(plan_file: Path, copy: str | None) -> None:
    from rackwright.images import images_of
    from rackwright.plan import load_plan

    plan = load_plan(plan_file)
    images = list(images_of(plan))
    if copy is None:
        for image in images:
            say(f"{image.name}  ({image.used_by})")
        return
    if plan.platform is None or plan.platform.registry is None:
        raise InputErrors(
            Problem(
                f"{plan_file} platform.registry",
                "must be there to copy images to",
                "nothing",
                "each image comes from its maker's registry",
                "name the site's in the workload: site.registry.mirror",
            )
        )
    for image in images:
        say(COPY[copy].format(source=quote(image.source), name=quote(image.name)))
