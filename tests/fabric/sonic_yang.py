"""A config_db.json as data of SONiC's own YANG models, validated by libyang's yanglint.

The models are not part of this repository: RACKWRIGHT_SONIC_YANG names a directory that holds both
``yang-models`` and ``yang-templates`` of a sonic-buildimage checkout (or all files of the two together).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import jinja2

VARIABLE = "RACKWRIGHT_SONIC_YANG"

LISTS: dict[str, tuple[str, tuple[tuple[str, tuple[str, ...]], ...]]] = {
    "PORT": ("sonic-port", (("PORT_LIST", ("name",)),)),
    "INTERFACE": (
        "sonic-interface",
        (("INTERFACE_LIST", ("name",)), ("INTERFACE_IPPREFIX_LIST", ("name", "ip-prefix"))),
    ),
    "LOOPBACK_INTERFACE": (
        "sonic-loopback-interface",
        (("LOOPBACK_INTERFACE_LIST", ("name",)), ("LOOPBACK_INTERFACE_IPPREFIX_LIST", ("name", "ip-prefix"))),
    ),
    "PORT_QOS_MAP": ("sonic-port-qos-map", (("PORT_QOS_MAP_LIST", ("ifname",)),)),
    "WRED_PROFILE": ("sonic-wred-profile", (("WRED_PROFILE_LIST", ("name",)),)),
    "SCHEDULER": ("sonic-scheduler", (("SCHEDULER_LIST", ("name",)),)),
    "QUEUE": ("sonic-queue", (("QUEUE_LIST", ("ifname", "qindex")),)),
    "BUFFER_POOL": ("sonic-buffer-pool", (("BUFFER_POOL_LIST", ("name",)),)),
    "BUFFER_PROFILE": ("sonic-buffer-profile", (("BUFFER_PROFILE_LIST", ("name",)),)),
    "BUFFER_PG": ("sonic-buffer-pg", (("BUFFER_PG_LIST", ("port", "pg_num")),)),
    "BUFFER_QUEUE": ("sonic-buffer-queue", (("BUFFER_QUEUE_LIST", ("port", "qindex")),)),
    "PFC_WD": ("sonic-pfcwd", (("PFC_WD_LIST", ("ifname",)),)),
    "BGP_GLOBALS": ("sonic-bgp-global", (("BGP_GLOBALS_LIST", ("vrf_name",)),)),
    "BGP_GLOBALS_AF": ("sonic-bgp-global", (("BGP_GLOBALS_AF_LIST", ("vrf_name", "afi_safi")),)),
    "BGP_NEIGHBOR": ("sonic-bgp-neighbor", (("BGP_NEIGHBOR_LIST", ("vrf_name", "neighbor")),)),
    "BGP_NEIGHBOR_AF": (
        "sonic-bgp-neighbor",
        (("BGP_NEIGHBOR_AF_LIST", ("vrf_name", "neighbor", "afi_safi")),),
    ),
    "ROUTE_REDISTRIBUTE": (
        "sonic-route-common",
        (("ROUTE_REDISTRIBUTE_LIST", ("vrf_name", "src_protocol", "dst_protocol", "addr_family")),),
    ),
}
"""Table: its module, and its lists with the names of the parts of a key."""

MAPS: dict[str, tuple[str, str, str]] = {
    "DSCP_TO_TC_MAP": ("sonic-dscp-tc-map", "dscp", "tc"),
    "TC_TO_QUEUE_MAP": ("sonic-tc-queue-map", "tc", "qindex"),
    "TC_TO_PRIORITY_GROUP_MAP": ("sonic-tc-priority-group-map", "tc", "pg"),
    "MAP_PFC_PRIORITY_TO_QUEUE": ("sonic-pfc-priority-queue-map", "pfc_priority", "qindex"),
    "PFC_PRIORITY_TO_PRIORITY_GROUP_MAP": ("sonic-pfc-priority-priority-group-map", "pfc_priority", "pg"),
    "CABLE_LENGTH": ("sonic-cable-length", "port", "length"),
}
SINGLE = {"DEVICE_METADATA": "sonic-device_metadata", "LLDP": "sonic-lldp"}


def missing() -> str | None:
    """Why validation cannot run here, or None."""
    if not os.environ.get(VARIABLE):
        return f"{VARIABLE} names no checkout of SONiC's YANG models"
    if shutil.which("yanglint") is None:
        return "yanglint is not installed (Debian: libyang2-tools)"
    return None


def models(directory: Path) -> Path:
    """All modules in one directory, templates filled in as SONiC's build does for Python."""
    source = Path(os.environ[VARIABLE])
    directory.mkdir(exist_ok=True)
    for path in source.rglob("*.yang"):
        shutil.copy2(path, directory / path.name)
    for path in source.rglob("*.yang.j2"):
        text = jinja2.Template(path.read_text(encoding="utf-8")).render(yang_model_type="py")
        (directory / path.name.removesuffix(".j2")).write_text(text, encoding="utf-8")
    return directory


def data(tables: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The tables as RFC 7951 data."""
    out: dict[str, Any] = {}
    for table, rows in tables.items():
        if table in SINGLE:
            module, content = SINGLE[table], {k: dict(v) for k, v in rows.items()}
        elif table in MAPS:
            module, key, value = MAPS[table]
            content = {
                f"{table}_LIST": [
                    {"name": name, table: [{key: k, value: v} for k, v in pairs.items()]}
                    for name, pairs in rows.items()
                ]
            }
        else:
            module, lists = LISTS[table]
            content = {}
            for row, fields in rows.items():
                parts = row.split("|")
                name, keys = next((n, k) for n, k in lists if len(k) == len(parts))
                content.setdefault(name, []).append({**dict(zip(keys, parts, strict=True)), **fields})
        out.setdefault(f"{module}:{module}", {})[table] = content
    return out


def xml(tables: Mapping[str, Mapping[str, Any]], models_in: Path) -> str:
    """The same as XML, in which every value is text, as it is in config_db."""
    out = []
    for qualified, content in data(tables).items():
        module = qualified.partition(":")[0]
        text = (models_in / f"{module}.yang").read_text(encoding="utf-8")
        found = re.search(r'namespace\s+"([^"]+)"', text)
        assert found is not None, module
        out.append(f'<{module} xmlns="{found[1]}">{"".join(_elements(content))}</{module}>')
    return "\n".join(out)


def _elements(node: Mapping[str, Any]) -> Iterator[str]:
    for key, value in node.items():
        for item in value if isinstance(value, list) else [value]:
            inner = "".join(_elements(item)) if isinstance(item, dict) else escape(str(item))
            yield f"<{key}>{inner}</{key}>"


def validate(config: str, directory: Path) -> str:
    """What yanglint complains of; empty where the configuration is valid."""
    place = models(directory / "yang")
    tables = json.loads(config)
    used = {SINGLE.get(t) or (MAPS.get(t) or LISTS.get(t, ("",)))[0] for t in tables}
    written = directory / "data.xml"
    written.write_text(xml(tables, place), encoding="utf-8")
    done = subprocess.run(
        ["yanglint", "-i", "-p", str(place), "-t", "config",
         *(str(place / f"{m}.yang") for m in sorted(used)),
         str(written)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    said = [
        line for line in (done.stdout + done.stderr).splitlines() if "err" in line or "YANGLINT[E]" in line
    ]
    return "\n".join(said) if said or done.returncode == 0 else done.stderr
