"""Pools whose nodes are made: every provider's objects, from a workload to files."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from rackwright.admission import admitted
from rackwright.catalog import load_catalog
from rackwright.crds import load_schemas
from rackwright.errors import InputErrors
from rackwright.plan import Plan
from rackwright.sizing.joint import plan_of
from rackwright.verdict import Result, Results, Severity, Status
from stacks.comparison import compare
from stacks.manifests import dump
from stacks.rendering import render, staged_nodes
from tests.golden import REPOSITORY, SHARED, assert_golden
from tests.sizing.build import workload
from tests.stacks.objects import manifests, objects, one, registrations

CATALOG = load_catalog()
GOLDEN = REPOSITORY / "tests" / "golden" / "pools"


def host(number: int) -> dict[str, Any]:
    return {
        "bmc": f"redfish-virtualmedia://10.1.0.{number}/redfish/v1/Systems/1",
        "mac": f"02:00:00:00:00:{number:02x}",
    }


ASKED: dict[str, dict[str, Any]] = {
    "karpenter-aws": {
        "instance": "p5en.48xlarge",
        "rdma": True,
        "image_driver": True,
        "inputs": {
            "role": "KarpenterNodeRole-t",
            "discovery": "t",
            "ami": "al2023@v20260810",
            "capacity": "reserved",
            "reservation": "cr-0123456789abcdef0",
            "zone": "us-east-1a",
        },
    },
    "metal3": {
        "image_driver": True,
        "credentials": "bmc",
        "root": {"model": "SAMSUNG MZ1L2960", "min_gb": 900},
        "hosts": [host(n) for n in range(1, 5)],
        "inputs": {
            "cluster": "rack1",
            "namespace": "capi",
            "version": "v1.35.2",
            "image": "http://10.0.0.5/ubuntu-24.04.raw",
            "image_sha256": "c" * 64,
        },
    },
    "gke": {
        "tier": "cold",
        "instance": "a3-ultragpu-8g",
        "image_driver": True,
        "inputs": {"cluster": "c", "namespace": "n", "location": "us-central1", "zone": "us-central1-a"},
    },
    "aks": {
        "tier": "cold",
        "instance": "Standard_ND96isr_H200_v5",
        "image_driver": True,
        "inputs": {"cluster": "c", "namespace": "n", "azure_name": "h200"},
    },
    "coreweave": {"instance": "gd-8xh200ib-i128", "image_driver": True},
}
WITHOUT_SCHEMA = {
    "metal3": {"BareMetalHost", "Metal3DataTemplate"},
    "gke": {"ContainerNodePool"},
    "aks": {"ManagedClustersAgentPool"},
    "coreweave": {"NodePool"},
}
"""Kinds that are printed as not validated."""
HARDWARE = {"machine": "hgx-h200-8", "driver_owner": "host"}


def made(by: str, spares: int = 1, **changes: Any) -> Plan:
    return plan_of(
        workload(hardware={**HARDWARE, "spares": spares}, provisioning={"by": by, **ASKED[by], **changes}),
        CATALOG,
    )


def problems(by: str, **changes: Any) -> list[str]:
    with pytest.raises(InputErrors) as caught:
        made(by, **changes)
    return [f"{p.where} · {p.rule} · {p.found}" for p in caught.value.problems]


def test_every_provider_of_the_catalog_is_tested() -> None:
    assert set(ASKED) == set(CATALOG.provisioners)


@pytest.mark.parametrize("by", sorted(ASKED))
def test_objects_are_as_reviewed(by: str) -> None:
    found = [m for m in manifests(made(by)) if m.phase == "node-pools" and m.purpose == "object"]
    assert_golden(GOLDEN / f"{by}.yaml", "---\n".join(dump(m.content) for m in found))


@pytest.mark.skipif(not (SHARED / "crds").is_dir(), reason="no real schemas beside the checkout")
@pytest.mark.parametrize(
    ("by", "tier"), [(by, tier) for by in sorted(ASKED) for tier in CATALOG.provisioners[by].tiers]
)
def test_objects_fit_their_schemas(by: str, tier: str, tmp_path: Path) -> None:
    rendered = render(made(by, tier=tier), tmp_path / "out", schemas=load_schemas(SHARED / "crds"))
    assert [str(f) for f in rendered.findings if f.severity == "error"] == []
    assert {m.kind for m in rendered.unvalidated} == WITHOUT_SCHEMA.get(by, set())


def test_p5en_has_its_own_interface_and_sixteen_for_rdma() -> None:
    cards = one(made("karpenter-aws"), "EC2NodeClass", "h200")["spec"]["networkInterfaces"]
    assert len(cards) == 17
    assert [c["interfaceType"] for c in cards].count("efa-only") == 16
    assert (cards[1]["networkCardIndex"], cards[1]["deviceIndex"]) == (0, 1)
    assert (cards[16]["networkCardIndex"], cards[16]["deviceIndex"]) == (15, 0)
    assert "networkInterfaces" not in one(made("karpenter-aws", rdma=False), "EC2NodeClass", "h200")["spec"]


def test_tiers_bound_the_nodes() -> None:
    """Three nodes of replicas and a spare, of 8 GPUs each."""
    hot = one(made("karpenter-aws"), "NodePool", "h200")["spec"]
    assert (hot["replicas"], hot["limits"]) == (4, {"nodes": "4"})
    plan = made("karpenter-aws", tier="cold")
    cold = one(plan, "NodePool", "h200")["spec"]
    assert ("replicas" in cold, cold["limits"]) == (False, {"nvidia.com/gpu": "32"})
    assert plan.pools[0].tier == "cold"
    assert (
        one(plan, "Deployment", "qwen3-235b-a22b")["spec"]["template"]["spec"]["nodeSelector"]
        == (cold["template"]["metadata"]["labels"])
    )


def test_spares_of_bare_metal_are_hosts_that_no_machine_takes() -> None:
    plan = made("metal3")
    assert one(plan, "MachineDeployment", "h200")["spec"]["replicas"] == 3
    assert sum(name.startswith("BareMetalHost") for name in objects(plan)) == 4


def test_credentials_are_a_secret_s_name() -> None:
    bmc = one(made("metal3"), "BareMetalHost", "h200-01")["spec"]["bmc"]
    assert bmc == {
        "address": "redfish-virtualmedia://10.1.0.1/redfish/v1/Systems/1",
        "credentialsName": "bmc",
    }


def test_whoever_renders_is_told_to_make_that_secret(tmp_path: Path) -> None:
    found = render(made("metal3"), tmp_path / "out").secrets
    assert [s for s in found if s.startswith("capi/")] == ["capi/bmc (keys username and password)"]


@pytest.mark.parametrize("by", sorted(ASKED))
def test_objects_that_hold_machines_are_protected_and_kept(by: str) -> None:
    templates = {"Metal3DataTemplate", "Metal3MachineTemplate", "KubeadmConfigTemplate"}
    (pool,) = made(by).provisioning or ()
    found = [r for r in registrations(made(by)) if r.inputs.get("kind") in {o.kind for o in pool.objects}]
    assert len(found) == len(pool.objects) > 0
    assert {str(r.inputs["kind"]) for r in found if not r.protect} == (templates if by == "metal3" else set())


def test_a_template_that_cannot_change_gets_another_name() -> None:
    """Cluster API refuses a changed template; a new one rolls the machines, one at a time."""
    inputs = {**ASKED["metal3"]["inputs"], "image_sha256": "d" * 64}
    names = []
    for plan in (made("metal3"), made("metal3", inputs=inputs), made("metal3", credentials="bmc2")):
        spec = one(plan, "MachineDeployment", "h200")["spec"]["template"]["spec"]
        name = spec["infrastructureRef"]["name"]
        assert one(plan, "Metal3MachineTemplate", name)["spec"]["template"]["spec"]["dataTemplate"] == {
            "name": name
        }
        assert spec["bootstrap"]["configRef"]["name"] == name
        names.append(name)
    assert names[0] != names[1]
    assert names[0] == names[2]


@pytest.mark.parametrize(
    ("by", "change", "why"),
    [
        (
            "karpenter-aws",
            {"ami": "al2023@v20260901"},
            ("EC2NodeClass spec.amiSelectorTerms[0].alias",),
        ),
        ("karpenter-aws", {}, ()),
        (
            "metal3",
            {"image_sha256": "d" * 64},
            (
                "MachineDeployment spec.template.spec.bootstrap.configRef.name",
                "MachineDeployment spec.template.spec.infrastructureRef.name",
            ),
        ),
    ],
)
def test_a_diff_says_which_machines_are_made_anew(by: str, change: dict[str, str], why: Any) -> None:
    found = compare(made(by), made(by, inputs={**ASKED[by]["inputs"], **change})).remade
    assert [(r.pool, r.nodes, r.why) for r in found] == ([("h200", 4, why)] if why else [])


def test_more_nodes_remake_none() -> None:
    assert compare(made("karpenter-aws"), made("karpenter-aws", spares=2)).remade == ()


def test_the_taint_of_preflight_is_never_the_program_s_to_take() -> None:
    """Setting a made node's list of taints would drop the one that waits."""
    nodes = [m for m in manifests(made("metal3")) if m.purpose == "node"]
    assert [m.name for m in nodes] == ["h200-01", "h200-02", "h200-03", "h200-04"]
    assert not any("spec" in m.content for m in nodes)
    join = next(o for o in objects(made("metal3")).values() if o["kind"] == "KubeadmConfigTemplate")["spec"][
        "template"
    ]["spec"]
    assert [t["key"] for t in join["joinConfiguration"]["nodeRegistration"]["taints"]] == [
        "nvidia.com/gpu",
        "rackwright.dev/preflight",
    ]


def test_agents_bear_the_taint_and_engines_do_not() -> None:
    plan = made("karpenter-aws")
    agents = one(plan, "ClusterPolicy", "cluster-policy")["spec"]["daemonsets"]["tolerations"]
    assert "rackwright.dev/preflight" in {t["key"] for t in agents}
    pod = one(plan, "Deployment", "qwen3-235b-a22b")["spec"]["template"]["spec"]
    assert {t["key"] for t in pod["tolerations"]} == {"nvidia.com/gpu"}


def test_nodes_that_a_provider_names_are_neither_patched_nor_staged() -> None:
    plan = made("karpenter-aws")
    assert not [m for m in manifests(plan) if m.purpose == "node"]
    assert staged_nodes(plan, ()) == ()


def test_pods_ask_by_the_size_of_the_instance() -> None:
    """96 threads, of which the engine's share stays below what the node has."""
    plan = made("aks")
    assert plan.pools[0].cpus_per_node == 96
    assert plan.deployments[0].resources.cpus < 96


@pytest.mark.parametrize(
    ("by", "changes", "said"),
    [
        ("karpenter-aws", {"instance": "p5en.48xlrage"}, 'did you mean "p5en.48xlarge"'),
        ("karpenter-aws", {"instance": "p5.48xlarge"}, "must have the accelerator that was sized"),
        ("karpenter-aws", {"image_driver": False}, "an image without driver"),
        ("coreweave", {"inputs": {"zone": "a"}}, "must be an input of coreweave"),
        ("metal3", {"spares": 2}, "must be the 5 nodes of the plan, 2 of them spare · 4 hosts"),
        ("metal3", {"tier": "cold"}, "must be hot with metal3"),
        ("metal3", {"credentials": None}, "provisioning.credentials · must be given"),
        ("metal3", {"hosts": [host(1), host(1)]}, "must have a mac each"),
        ("gke", {"hosts": [host(1)]}, "provisioning.hosts · must be left out with gke"),
        ("aws", {}, "must be a provisioner of the catalog"),
    ],
)
def test_what_cannot_be_made_is_refused(by: str, changes: dict[str, Any], said: str) -> None:
    asked = {**ASKED.get(by, ASKED["karpenter-aws"]), **{k: v for k, v in changes.items() if k != "spares"}}
    hardware = {**HARDWARE, "spares": changes.get("spares", 1)}
    with pytest.raises(InputErrors) as caught:
        plan_of(workload(hardware=hardware, provisioning={"by": by, **asked}), CATALOG)
    assert any(said in f"{p.where} · {p.rule} · {p.found}" for p in caught.value.problems)


NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)


def run(plan: Plan, **changes: Any) -> Results:
    hosts = tuple(n.name for n in plan.pools[0].nodes)
    good = tuple(
        Result(check="gpu-ecc", subject=h, pool="h200", severity=Severity.CRITICAL, status=Status.PASS)
        for h in hosts
    )
    started = (NOW - timedelta(hours=1)).isoformat()
    data: dict[str, Any] = {
        "plan": "t", "plan_digest": plan.digest, "hosts": hosts, "started": started, "results": good
    }  # fmt: skip
    return Results(**{**data, **changes})


def ended(plan: Plan, results: Results, **nodes: str) -> Any:
    names = {name.replace("_", "-"): node for name, node in nodes.items()}
    return admitted(plan, results, names, now=NOW, max_age_h=24)


def test_nodes_that_passed_are_let_in() -> None:
    plan = made("metal3")
    found = ended(plan, run(plan))
    assert found.commands[0] == ("kubectl taint node h200-01 rackwright.dev/preflight=pending:NoSchedule-")
    assert (len(found.commands), found.held) == (4, {})


@pytest.mark.parametrize("status", [Status.FAIL, Status.ERROR])
def test_a_node_with_a_finding_is_held_back(status: Status) -> None:
    plan = made("metal3")
    bad = Result(check="gpu-xid", subject="h200-02", severity=Severity.CRITICAL, status=status)
    found = ended(plan, run(plan, results=(*run(plan).results, bad)))
    assert found.held == {"h200-02": "blocked by gpu-xid"}
    assert not any("h200-02" in command for command in found.commands)


def test_a_finding_of_the_pool_holds_all_of_it() -> None:
    plan = made("metal3")
    bad = Result(
        check="same-driver", subject="h200", scope="pool", pool="h200", severity=Severity.MAJOR,
        status=Status.FAIL,
    )  # fmt: skip
    assert ended(plan, run(plan, results=(*run(plan).results, bad))).commands == ()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"unreachable": {"h200-03": "no route"}}, "it was not reached: no route"),
        ({"not_measured": {"h200-03": 7}}, "7 checks gave no result"),
        ({"left_out_hosts": ("h200-03",)}, "it was not part of the run"),
    ],
)
def test_a_node_that_was_not_measured_is_held_back(change: dict[str, Any], why: str) -> None:
    plan = made("metal3")
    found = ended(plan, run(plan, **change))
    assert (found.held, len(found.commands)) == ({"h200-03": why}, 3)


def test_results_without_a_verdict_admit_nobody() -> None:
    plan = made("metal3")
    assert set(ended(plan, run(plan, results=())).held.values()) == {"no check passed on it"}


@pytest.mark.parametrize(
    "change",
    [
        {"plan_digest": "0" * 64},
        {"complete": False},
        {"left_out_checks": ("gpu-ecc",)},
        {"started": ""},
        {"started": (NOW - timedelta(hours=25)).isoformat()},
        {"started": (NOW + timedelta(hours=1)).isoformat()},
    ],
)
def test_results_of_another_plan_or_time_or_of_a_part_admit_nobody(change: dict[str, Any]) -> None:
    plan = made("metal3")
    with pytest.raises(InputErrors):
        ended(plan, run(plan, **change))


def test_a_provider_s_node_is_let_in_by_the_name_that_is_given() -> None:
    plan = made("karpenter-aws")
    found = ended(plan, run(plan), h200_01="ip-10-0-1-2.ec2.internal")
    assert found.commands == (
        "kubectl taint node ip-10-0-1-2.ec2.internal rackwright.dev/preflight=pending:NoSchedule-",
    )
    assert found.held["h200-02"] == "its name in the cluster is not known: --node h200-02=NODE"
