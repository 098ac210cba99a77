"""Services that share nodes and accelerators: what a slice is, how cards are divided, what each pays."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import yaml

from rackwright import sharing_files
from rackwright.catalog import load_catalog
from rackwright.errors import Infeasible, InputErrors
from rackwright.plan import NotApplicable, Plan, link_problems
from rackwright.report.sizing import pages
from rackwright.sizing import search, sharing
from rackwright.sizing.check import check
from rackwright.sizing.joint import plan_of, units_of
from rackwright.workload import Workload

from .build import workload

CATALOG = load_catalog()
H200 = CATALOG.accelerators["h200-sxm"]
DIVIDED = CATALOG.partitioning_of(H200)
assert DIVIDED is not None
PROFILES = {profile.name: profile for profile in DIVIDED.profiles}
ASSIST: dict[str, Any] = {
    "name": "assist",
    "users": {"dau": 5000},
    "model": {"id": "qwen3-8b", "quantisation": "fp8", "context": "8 ki tokens"},
}
SORT: dict[str, Any] = {
    "name": "sort",
    "users": {"dau": 2000},
    "model": {"id": "qwen3-4b", "quantisation": "fp8", "context": "8 ki tokens"},
}


def tenants(mode: str = "mig", *also: dict[str, Any], **changes: Any) -> Workload:
    base: dict[str, Any] = {
        "name": "tenants",
        "users": {"dau": 6000},
        "model": {"id": "qwen3-32b", "quantisation": "fp8", "context": "16 ki tokens"},
        "tenancy__mode": mode,
        "also": list(also),
    }
    return workload(**{**base, **changes})


@pytest.fixture(scope="module")
def mig() -> Plan:
    return plan_of(tenants("mig", ASSIST, SORT, hardware__spares=1), CATALOG)


def test_whole_accelerators_are_the_vendors() -> None:
    """On MI300X pods ask for amd.com/gpu, and the plan's places are counted in it."""
    digest = {"image_digest": "sha256:" + "2" * 64}
    small = {**ASSIST, "engine": "vllm-rocm", "overrides": digest}
    asked = tenants(
        "gpus",
        small,
        engine="vllm-rocm",
        hardware__machine="mi300x-8",
        slo__tpot_p50="90 ms",
        overrides=digest,
    )
    plan = plan_of(asked, CATALOG)
    assert plan.tenancy is not None
    assert {place.resource for place in plan.tenancy.places} == {"amd.com/gpu"}
    assert list(link_problems(plan)) == []


def test_a_slice_has_its_share_of_the_card() -> None:
    """1g.18gb of H200: 16 GiB, an eighth of 4,800 GB/s, 16 of 132 SMs of 1,979 TFLOPS, no NVLink."""
    piece = sharing.slice_of(H200, DIVIDED, PROFILES["1g.18gb"])
    assert (piece.memory_gib, piece.bandwidth.value) == (16.0, 600.0)
    assert piece.fp8 is not None
    assert round(piece.fp8.value, 2) == round(1979 * 16 / 132, 2) == 239.88
    assert (piece.nvlink, piece.interconnect) == (None, None)


def test_a_client_of_mps_has_an_even_share() -> None:
    """Of 143,771 MiB a quarter in whole MiB; 25 % of threads; for three clients 33 %, not a third."""
    assert sharing.client_of(H200, 4).memory.value == 35942
    assert sharing.client_of(H200, 4).bf16.value == 989 * 0.25
    assert sharing.client_of(H200, 3).bf16.value == pytest.approx(989 * 0.33)


@pytest.mark.parametrize(
    ("names", "fit"),
    [
        (["1g.18gb"] * 7, True),
        (["1g.18gb"] * 8, False),
        (["3g.71gb", "3g.71gb"], True),
        (["3g.71gb", "3g.71gb", "1g.18gb"], False),  # two of 3 take all eight memory slices
        (["4g.71gb", "3g.71gb"], True),
        (["4g.71gb", "4g.71gb"], False),
        (["3g.71gb", "2g.35gb", "1g.18gb", "1g.18gb"], True),  # as NVIDIA's "balanced"
        (["2g.35gb"] * 3 + ["1g.18gb"], True),
        (["1g.35gb"] * 4, True),
        (["7g.141gb", "1g.18gb"], False),
    ],
)
def test_instances_fit_where_they_can_be_placed(names: list[str], *, fit: bool) -> None:
    assert sharing.fits([PROFILES[name] for name in names]) is fit


def test_cards_are_divided_for_the_fewest_nodes() -> None:
    """20 replicas of 3g and 60 of 1g on nodes of 8 cards: 3g + 3 × 1g is 3 nodes; one 1g each would be 8."""
    chosen = {"a": PROFILES["3g.71gb"], "b": PROFILES["1g.18gb"]}
    assert sharing.geometry({"a": 20, "b": 60}, chosen, 8) == {"a": 1, "b": 3}
    assert sharing.geometry({"a": 3, "b": 3}, chosen, 8) == {"a": 1, "b": 1}
    both = {"a": PROFILES["4g.71gb"], "b": PROFILES["4g.71gb"]}
    assert sharing.geometry({"a": 1, "b": 1}, both, 8) is None


def test_places_of_whole_cards_are_alike_on_every_node() -> None:
    """9 replicas of 2 cards and 3 of 4: four nodes would hold 3 × 2 + 4 each, of 8; five hold 2 × 2 + 4."""
    assert sharing.places({"a": 9, "b": 3}, {"a": 2, "b": 4}, 8) == {"a": 2, "b": 1}
    assert sharing.places({"a": 1, "b": 1}, {"a": 8, "b": 4}, 8) is None


def test_the_smallest_profile_in_which_each_service_stands(mig: Plan) -> None:
    assert mig.tenancy is not None
    assert [(s.profile, s.per_gpu, s.memory_mib) for s in mig.tenancy.slices] == [
        ("3g.71gb", 1, 71168),
        ("1g.18gb", 2, 16384),
    ]
    assert mig.tenancy.config == "1g.18gb-x2_3g.71gb-x1"
    assert [(p.deployment, p.per_node, p.resource) for p in mig.tenancy.places] == [
        ("qwen3-32b", 8, "nvidia.com/mig-3g.71gb"),
        ("qwen3-8b", 8, "nvidia.com/mig-1g.18gb"),
        ("qwen3-4b", 8, "nvidia.com/mig-1g.18gb"),
    ]


def test_one_pool_holds_all_services(mig: Plan) -> None:
    replicas = [d.layout.replicas for d in mig.deployments]
    serving = max(math.ceil(count / 8) for count in replicas)
    (pool,) = mig.pools
    assert (len(pool.nodes), pool.spares) == (serving + 1, 1)
    assert {d.pool for d in mig.deployments} == {pool.name}
    assert [d.memory.total_gib for d in mig.deployments] == [69.5, 16.0, 16.0]
    assert {s.max_replicas for s in mig.scaling} == {len(pool.nodes) * 8 - d.rollout.max_surge
                                                    for d in mig.deployments}  # fmt: skip
    assert (list(link_problems(mig)), check(mig, CATALOG)) == ([], [])


def test_machines_are_paid_once_and_by_what_each_takes(mig: Plan) -> None:
    """Of 4 + 1 + 1 memory slices in use the first service pays four sixths."""
    assert mig.cost is not None
    assert mig.shares is not None
    price = 3_850_000
    assert mig.cost.capex.amount == price * len(mig.pools[0].nodes)
    assert [round(s.cost.capex.amount / mig.cost.capex.amount, 4) for s in mig.shares] == [
        0.6667,
        0.1667,
        0.1667,
    ]
    assert sum(rack.planned_full_load_w for rack in mig.racks()) == 10_200 * len(mig.pools[0].nodes)


def test_hosts_must_show_the_division(mig: Plan) -> None:
    wants = mig.expectations["h200"]
    assert wants.gpu.mig == ("1g.18gb", "1g.18gb", "3g.71gb")
    assert wants.gpu.mps is False
    assert isinstance(wants.nvlink.topology, NotApplicable)
    assert isinstance(wants.gpu.diag_level, NotApplicable)
    weights = sum(d.weights.bytes for d in mig.deployments)
    assert wants.storage.headroom_bytes == 2 * weights
    assert mig.platform is not None
    assert mig.platform.mig_strategy == "mixed"
    assert mig.pools[0].labels["nvidia.com/mig.config"] == "1g.18gb-x2_3g.71gb-x1"


def test_what_the_mig_manager_reads(mig: Plan) -> None:
    assert mig.tenancy is not None
    configs = yaml.safe_load(sharing_files.mig_parted(mig.tenancy))["mig-configs"]
    assert configs["all-disabled"] == [{"devices": "all", "mig-enabled": False}]
    assert configs[mig.tenancy.config] == [
        {"devices": "all", "mig-enabled": True, "mig-devices": {"3g.71gb": 1, "1g.18gb": 2}}
    ]


def test_no_alert_on_what_a_divided_card_does_not_report(mig: Plan) -> None:
    assert mig.observability is not None
    assert "GpuUnderused" not in {rule.alert for rule in mig.observability.node_rules}


def test_one_service_may_fill_the_cards_alone() -> None:
    plan = plan_of(tenants("mig", tenancy__profiles={"tenants": "3g.71gb"}), CATALOG)
    assert plan.tenancy is not None
    assert plan.tenancy.slices[0].per_gpu == 2
    assert plan.shares is None
    assert check(plan, CATALOG) == []


def test_whole_cards_several_services_on_a_node() -> None:
    plan = plan_of(tenants("gpus", ASSIST), CATALOG)
    assert plan.tenancy is not None
    taken = sum(p.per_node * p.each for p in plan.tenancy.places)
    assert taken <= 8
    assert plan.tenancy.slices == ()
    assert len(plan.pools) == 1
    assert plan.expectations["h200"].gpu.mig is False
    assert check(plan, CATALOG) == []


def test_a_model_that_does_not_fit_its_slice_is_told_the_one_that_it_fits() -> None:
    with pytest.raises(Infeasible) as error:
        plan_of(tenants("mig", ASSIST, tenancy__profiles={"tenants": "2g.35gb"}), CATALOG)
    (problem,) = error.value.problems
    assert problem.where == "tenancy.profiles.tenants"
    assert problem.found.startswith("2g.35gb: ")
    assert problem.next == "set it to 3g.71gb, in which it stands"


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"hardware__machine": "l40s-8"}, "tenancy.mode"),
        ({"hardware__machine": "hgx-b200-8-ib"}, "tenancy.mode"),
        ({"hardware__machine": None}, "hardware.machine"),
        ({"site__target": "hosts"}, "tenancy"),
        ({"engine": "auto"}, "engine"),
        ({"overrides__tensor_parallel": 2}, "overrides.tensor_parallel"),
        ({"overrides__pipeline_parallel": 2}, "overrides.pipeline_parallel"),
        ({"tenancy__profiles": {"tenants": "3g.70gb"}}, "tenancy.profiles.tenants"),
        ({"tenancy__profiles": {"nobody": "3g.71gb"}}, "tenancy.profiles.nobody"),
        ({"tenancy__clients": 2}, "tenancy.clients"),
        ({"tenancy__mode": "mps", "tenancy__clients": 2}, "tenancy.trusted"),
        ({"tenancy__mode": "mps", "tenancy__trusted": True}, "tenancy.clients"),
        (
            {"tenancy__mode": "mps", "tenancy__clients": 2, "tenancy__trusted": True, "engine": "sglang"},
            "engine",
        ),
        ({"also": [{**ASSIST, "machine": "hgx-h100-8"}]}, "also[0].machine"),
        ({"also": [{**ASSIST, "spares": 1}]}, "also[0].spares"),
    ],
)
def test_ways_of_sharing_that_cannot_be(changes: dict[str, Any], where: str) -> None:
    with pytest.raises(InputErrors) as error:
        plan_of(tenants(**changes), CATALOG)
    assert where in {problem.where for problem in error.value.problems}


@pytest.fixture(scope="module")
def mps() -> Plan:
    shares = {"tenancy__clients": 4, "tenancy__trusted": True}
    small = {"id": "qwen3-14b", "quantisation": "fp8", "context": "8 ki tokens"}
    return plan_of(tenants("mps", ASSIST, model=small, **shares), CATALOG)


def test_a_client_of_mps_is_told_its_part_of_a_card_that_it_sees_whole(mps: Plan) -> None:
    """0.88 of 35,942 MiB is 0.22 of the 143,771 that every client is shown; the cache is fixed in bytes."""
    for deployment in mps.deployments:
        flags = dict(a.lstrip("-").split("=") for a in deployment.engine.roles[0].args if "=" in a)
        share = deployment.memory.utilization * 35942 / 143771
        assert float(flags["gpu-memory-utilization"]) == math.floor(share * 1000) / 1000
        assert abs(int(flags["kv-cache-memory-bytes"]) - deployment.memory.kv_gib * 2**30) < 2**30 / 100
        assert (deployment.resources.resource, deployment.resources.shm_gib) == ("nvidia.com/gpu.shared", 0)


def test_hosts_of_mps_run_its_daemon(mps: Plan) -> None:
    gpu = mps.expectations["h200"].gpu
    assert (gpu.mig, gpu.mps, gpu.compute_mode) == (False, True, "Exclusive_Process")
    assert mps.pools[0].labels["nvidia.com/device-plugin.config"] == "mps-x4"
    assert mps.tenancy is not None
    assert yaml.safe_load(sharing_files.device_plugin(mps.tenancy))["sharing"] == {
        "mps": {"renameByDefault": True, "resources": [{"name": "nvidia.com/gpu", "replicas": 4}]}
    }
    assert "mps-one-fault" in {caution.id for caution in mps.cautions}
    assert check(mps, CATALOG) == []


def test_a_page_a_service_that_meets_the_plans_figures(mig: Plan, tmp_path: Path) -> None:
    found = pages(mig, CATALOG, tmp_path / "r.html")
    assert [place.name for place in found] == ["r.html", "r-assist.html", "r-sort.html"]
    for text, deployment in zip(found.values(), mig.deployments, strict=True):
        assert f"{deployment.estimate.output_tok_s:,.0f}" in text


def test_a_search_does_not_compare_shares_with_whole_machines() -> None:
    with pytest.raises(InputErrors) as error:
        search.search(tenants("mig", hardware__machine=None), CATALOG)
    assert [problem.where for problem in error.value.problems] == ["tenancy"]


def test_figures_that_moved_are_told_by_what_a_replica_takes(mig: Plan) -> None:
    """A plan of other figures is compared with its slices sized again, not with whole cards."""
    units = units_of(mig.workload, CATALOG)
    assert [unit.resource for unit in units if unit] == [
        "nvidia.com/mig-3g.71gb",
        "nvidia.com/mig-1g.18gb",
        "nvidia.com/mig-1g.18gb",
    ]
    assert units_of(workload(), CATALOG) == (None,)
