"""Switch configurations of every operating system: golden outputs, and what the formats' own tools say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rackwright.errors import InputErrors
from rackwright.fabric.switches import OS
from tests.fabric import sonic_yang
from tests.fabric.plans import plan, rendered, small
from tests.golden import REPOSITORY, assert_golden

GOLDEN = REPOSITORY / "tests" / "golden" / "fabric"


@pytest.mark.parametrize("system", sorted(OS))
@pytest.mark.parametrize("switch", ["leaf-g1-r0", "spine-1"])
def test_golden(system: str, switch: str) -> None:
    _, files = rendered(small(system))
    file = OS[system].file
    assert_golden(GOLDEN / system / switch / file, files[f"switches/{switch}/{file}"])


@pytest.mark.parametrize("system", sorted(OS))
def test_a_leaf_says_what_the_profile_says(system: str) -> None:
    fabric, files = rendered(small(system))
    file = OS[system].file
    view = OS[system].view(files[f"switches/leaf-g1-r1/{file}"], file)
    assert (view.hostname, view.asn) == ("leaf-g1-r1", 4_200_000_002)
    first = fabric.switch_named["leaf-g1-r1"].ports[0].name
    port = view.ports[first]
    assert (port.pfc, port.mtu, port.up, port.address) == ((3,), 9214, True, "10.240.64.0/31")
    assert [port.priorities[d] for d in (0, 8, 24, 26, 31, 46, 48, 63)] == [0, 1, 3, 3, 3, 5, 6, 7]
    ecn = port.ecn[3]
    assert (ecn.minimum, ecn.maximum, ecn.percent, ecn.on) == (
        fabric.qos.ecn_min_bytes,
        fabric.qos.ecn_max_bytes,
        20,
        True,
    )
    uplink = view.ports[fabric.switch_named["leaf-g1-r1"].ports[-1].name]
    assert (uplink.peer_asn, uplink.address) == (4_200_000_000, None)


def test_sonic_by_its_own_models(tmp_path: Path) -> None:
    if reason := sonic_yang.missing():
        pytest.skip(reason)
    _, files = rendered(small())
    for switch in ("leaf-g1-r0", "spine-1"):
        text = files[f"switches/{switch}/config_db.json"]
        assert sonic_yang.validate(text, tmp_path) == ""
    # The models do judge: a priority that does not exist and a map that is not there are refused.
    wrong = text.replace('"pfc_enable": "3"', '"pfc_enable": "8"', 1)
    assert "pfc_enable" in sonic_yang.validate(wrong, tmp_path)
    dangling = text.replace('"dscp_to_tc_map": "ROCE"', '"dscp_to_tc_map": "NONE"', 1)
    assert "dscp_to_tc_map" in sonic_yang.validate(dangling, tmp_path)


def test_sonic_ports_have_the_lanes_of_the_platform() -> None:
    _, files = rendered(small())
    ports = json.loads(files["switches/leaf-g1-r0/config_db.json"])["PORT"]
    assert ports["Ethernet8"]["lanes"] == "9,10,11,12,13,14,15,16"
    assert ports["Ethernet8"]["alias"] == "Ethernet2/1"
    assert ports["Ethernet16"]["admin_status"] == "down"  # two nodes: the third port has no cable


def test_an_unknown_system_is_refused_with_those_there_are() -> None:
    with pytest.raises(InputErrors) as caught:
        plan(switch_os="sonik")
    message = str(caught.value)
    assert "fabric.switch_os" in message and '"sonik"' in message and 'did you mean "sonic"' in message
    assert all(system in message for system in OS)
