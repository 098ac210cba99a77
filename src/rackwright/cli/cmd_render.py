"""Write every Kubernetes object of a plan, or every file of its hosts, offline, for review or GitOps."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rackwright.errors import listing

if TYPE_CHECKING:
    from rackwright.plan import Plan
    from stacks.hosts.rendering import RenderedHosts
    from stacks.manifests import Manifest
    from stacks.rendering import Rendered


@click.command(
    name="render",
    help=__doc__,
    epilog="FILE is a plan, or a workload, which is sized first. Exit status: 0 good, 1 an object breaks its "
    "schema or a rule, 2 bad input.",
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Directory to write: new, empty, or of an earlier render.",
)
@click.option(
    "--crds",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="CustomResourceDefinitions to validate against.",
)
@click.option(
    "--joined", metavar="NODE", multiple=True, help="A node that has joined; the others are staged."
)
@click.option("--force", is_flag=True, help="Write over rendered files that were edited by hand.")
def command(file: Path, output: Path, crds: Path | None, joined: tuple[str, ...], force: bool) -> None:
    from rackwright.cli.messages import visible
    from rackwright.crds import load_schemas
    from rackwright.plan.sites import on_hosts
    from stacks.rendering import render

    plan = _plan(file)
    if on_hosts(plan.sites):
        from stacks.hosts.rendering import render_hosts

        written = render_hosts(plan, output, force=force)
        click.echo(visible(_hosts_report(written, output)))
        return
    schemas = load_schemas(crds) if crds else None
    rendered = render(plan, output, joined=joined, schemas=schemas, force=force)
    click.echo(visible(_report(rendered, output, validating=crds is not None)))
    sys.exit(1 if rendered.failed else 0)


def _plan(file: Path) -> Plan:
    """The plan itself, or the one that the workload gives."""
    from rackwright.plan import plan_from_document
    from rackwright.workload import load_workload
    from rackwright.yamlio import load_yaml

    document = load_yaml(file, next_command=f"rackwright size WORKLOAD.yaml -o {file}")
    data = document.data if isinstance(document.data, dict) else {}
    if "header" in data or str(data.get("schema")).startswith("rackwright/plan/"):
        return plan_from_document(document)
    from rackwright.catalog import load_catalog
    from rackwright.cli.messages import located
    from rackwright.errors import RackwrightError
    from rackwright.sizing.joint import plan_of

    asked = load_workload(file)
    try:
        return plan_of(asked, load_catalog())
    except RackwrightError as error:
        raise located(error, document) from None


def _hosts_report(rendered: RenderedHosts, output: Path) -> str:
    lines = [
        f"{host.host:<16}{len(host.files):>3} files  {', '.join(replica.name for replica in host.replicas)}"
        for host in rendered.hosts
    ]
    lines += ["", *(str(finding) for finding in rendered.findings)]
    lines += [
        f"{output}/{name}: was edited by hand; the edits are overwritten." for name in rendered.overwritten
    ]
    first = rendered.hosts[0]
    keys = " and ".join(first.key_variables)
    lines += [
        f"{output}: written. Next: pulumi up, or on each HOST as root:",
        f"  copy {output}/HOST to {first.root}/releases/NAME, with {keys} in its secrets.env (mode 0600)",
        f"  sh {first.root}/releases/NAME/host.sh check NAME",
        f"  sh {first.root}/releases/NAME/host.sh activate NAME",
    ]
    return "\n".join(lines)


def _report(rendered: Rendered, output: Path, *, validating: bool) -> str:
    parts = [_table(rendered), _counts(rendered, validating=validating)]
    if rendered.findings:
        parts.append("\n".join(str(finding) for finding in _distinct(rendered)))
    parts.append(_next(rendered, output))
    return "\n\n".join(parts)


def _table(rendered: Rendered) -> str:
    """Objects by phase and kind."""
    lines = []
    for phase in dict.fromkeys(m.phase for m in rendered.manifests):
        found = [m for m in rendered.manifests if m.phase == phase]
        lines.append(f"{phase:<14}{len(found):>4}  {_kinds(found)}")
    return "\n".join(lines)


def _kinds(found: Iterable[Manifest]) -> str:
    """``Service, CIDRPool ×2``."""
    kinds = Counter(manifest.kind for manifest in found)
    return ", ".join(f"{kind} ×{count}" if count > 1 else kind for kind, count in kinds.items())


def _counts(rendered: Rendered, *, validating: bool) -> str:
    schema_findings = sum(finding.rule == "schema" for finding in rendered.findings)
    errors = sum(f.severity == "error" for f in rendered.findings) - schema_findings
    warnings = sum(f.severity == "warn" for f in rendered.findings)
    lines = [
        f"objects        {len(rendered.manifests)}: {len(rendered.built_in)} of built-in kinds, "
        f"{len(rendered.validated) + len(rendered.unvalidated)} custom resources",
        f"validated      {len(rendered.validated)} custom resources against their schema, "
        f"{schema_findings} violations",
        f"not validated  {len(rendered.unvalidated)} custom resources"
        + (" of kinds without a schema" if validating and rendered.unvalidated else "")
        + ("" if validating else " (no schemas given: --crds DIR)"),
    ]
    if rendered.unvalidated:
        lines[-1] += f": {_kinds(rendered.unvalidated)}"
    lines.append(f"rules          {errors} violations, {warnings} warnings")
    if rendered.staged:
        lines.append(f"staged nodes   {len(rendered.staged)}: {listing(list(rendered.staged), 6)}")
    return "\n".join(lines)


def _distinct(rendered: Rendered) -> list[object]:
    """One line a finding; the same problem in several containers is shown once with its count."""
    groups = Counter((f.rule, f.severity, f.problem.rule, f.problem.found) for f in rendered.findings)
    shown: dict[tuple[str, ...], object] = {}
    for finding in rendered.findings:
        key = (finding.rule, finding.severity, finding.problem.rule, finding.problem.found)
        if key not in shown:
            more = groups[key] - 1
            shown[key] = f"{finding}\n    also  {more} more of the same" if more else finding
    return list(shown.values())


def _next(rendered: Rendered, output: Path) -> str:
    if not rendered.written:
        return (
            f"{output}: nothing was written, since secrets stand in clear in {len(rendered.exposed)} places "
            "(above).\nNext: replace each secret, take it out of the workload or plan, and render again."
        )
    lines = [
        f"{output}/{name}: was edited by hand; the edits are overwritten." for name in rendered.overwritten
    ]
    lines.append(f"{output}: written. Next:")
    if any(m.purpose == "release" for m in rendered.manifests):
        lines.append(f"  install the operators' charts as {output}/helm/*.yaml say")
    lines += [f"  make the Secret {secret}" for secret in rendered.secrets]
    if any(m.purpose == "node" for m in rendered.manifests):
        lines.append("  for each node once it has joined:")
        apply = f"kubectl apply --server-side -f {output}/nodes/NODE.yaml"
        lines.append(f"    {apply} --field-manager=rackwright --force-conflicts")
    lines.append(f"  kubectl apply --server-side -k {output}   (or point Argo CD or Flux at it)")
    return "\n".join(lines)
