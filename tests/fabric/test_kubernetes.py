"""The cluster's objects of the same NICs: valid, and in agreement with the switches."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from rackwright.crds import load_schemas
from rackwright.fabric import checking
from tests.fabric.plans import few, plan, rendered, small
from tests.golden import REPOSITORY, SHARED, assert_golden

GOLDEN = REPOSITORY / "tests" / "golden" / "fabric" / "kubernetes"


def infiniband() -> dict[str, str]:
    return rendered(few(plan("hgx-h200-8-ib", "infiniband"), 2))[1]


@pytest.mark.parametrize("way", ["sriov", "macvlan"])
def test_golden_over_ethernet(way: str) -> None:
    assert_golden(GOLDEN / f"{way}.yaml", rendered(small())[1][f"kubernetes/{way}.yaml"])


def test_infiniband_has_virtual_functions_with_guids_and_ipoib() -> None:
    files = infiniband()
    kinds = {
        way: {d["kind"] for d in yaml.safe_load_all(files[f"kubernetes/{way}.yaml"])}
        for way in ("sriov", "ipoib")
    }
    assert kinds["ipoib"] == {"IPoIBNetwork"}
    assert kinds["sriov"] == {"SriovNetworkPoolConfig", "SriovNetworkNodePolicy", "SriovIBNetwork"}
    assert "kubernetes/macvlan.yaml" not in files


def test_every_object_is_valid() -> None:
    if not (SHARED / "crds").is_dir():
        pytest.skip("no real schemas beside the checkout")
    schemas = load_schemas(SHARED / "crds")
    seen = set()
    for files in (rendered(small())[1], infiniband()):
        for path, text in files.items():
            if path.startswith("kubernetes/"):
                for content in yaml.safe_load_all(text):
                    assert schemas.violations(content) == [], (path, content["metadata"]["name"])
                    seen.add(content["kind"])
    assert len(seen) == 6


TEMPLATE = """\
apiVersion: configuration.net.nvidia.com/v1alpha1
kind: NicConfigurationTemplate
metadata: {name: h200-nics}
spec:
  template:
    roceOptimized:
      qos: {trust: dscp, pfc: "0,0,0,1,0,0,0,0", tos: 104, ecn: {enabled: true, priority: 3}}
---
apiVersion: nv-ipam.nvidia.com/v1alpha1
kind: CIDRPool
metadata: {name: rail-0}
spec:
  cidr: 10.240.0.0/18
  staticAllocations:
  - {nodeName: h200-01, prefix: 10.240.0.0/31, gateway: 10.240.0.0}
  - {nodeName: h200-02, prefix: 10.240.0.2/31, gateway: 10.240.0.2}
"""


@pytest.mark.parametrize(
    ("find", "replace", "where"),
    [
        ("tos: 104", "tos: 96", "qos.tos"),
        ("0,0,0,1,", "0,0,1,0,", "qos.pfc"),
        ("priority: 3", "priority: 4", "qos.ecn.priority"),
        ("10.240.0.0/18", "10.240.0.0/19", "CIDRPool rail-0 spec.cidr"),
        ("gateway: 10.240.0.2", "gateway: 10.240.0.3", "staticAllocations h200-02"),
    ],
)
def test_an_operators_object_that_differs_from_the_switches(find: str, replace: str, where: str) -> None:
    of = small()
    _, files = rendered(of)
    good = checking.check(of, {**files, "30-fabric/nics.yaml": TEMPLATE})
    assert (good.problems, good.checked["kubernetes"]) == ([], 3)
    bad = checking.check(of, {**files, "30-fabric/nics.yaml": TEMPLATE.replace(find, replace, 1)})
    assert [where in p.where for p in bad.problems] == [True]


def test_what_the_stack_renders_agrees_with_the_switches(tmp_path: Path) -> None:
    from rackwright.plan import load_plan
    from stacks.rendering import render

    of = load_plan(REPOSITORY / "inventory" / "roce-100k" / "plan.yaml")
    render(of, tmp_path)
    objects = {p.name: p.read_text() for p in sorted((tmp_path / "30-fabric").glob("*.yaml"))}
    result = checking.check(of, objects)
    assert result.problems == []
    assert result.checked == {"kubernetes": 9}  # a NIC template, and the addresses of eight rails
