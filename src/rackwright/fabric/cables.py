"""The cable map (one line a cable, as a label printer and a cabling crew take it) and each rack's ports."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator

from rackwright.errors import InputErrors
from rackwright.fabric.leaves import Setting, Settings, unreadable
from rackwright.fabric.topology import Cable, Topology

CABLES = "cables.csv"
HEADER = ("cable", "kind", "rail", "rate_gbps", "length_m", "a", "a_port", "a_rack", "b", "b_port")
PORTS = ("node", "rail", "interface", "hca", "address", "gateway", "switch", "switch_port", "cable")


def cable_map(fabric: Topology) -> str:
    """``a`` is a host or a leaf, ``b`` the switch above it."""
    return _table(HEADER, (_row(cable) for cable in fabric.cables))


def _row(cable: Cable) -> tuple[str, ...]:
    values = (
        cable.name, cable.kind, cable.rail, cable.rate_gbps, cable.length_m, cable.a, cable.a_port,
        cable.a_rack, cable.b, cable.b_port,
    )  # fmt: skip
    return tuple(map(str, values))


def port_tables(fabric: Topology) -> Iterator[tuple[str, str]]:
    """Path and text of each rack's table: every fabric port of its nodes and what it leads to."""
    for rack in dict.fromkeys(host.rack for host in fabric.hosts):
        rows = [
            (
                host.node, str(link.rail.index), link.rail.netdev, link.rail.hca, link.address, link.gateway,
                link.switch, link.switch_port, link.cable if link.switch else "",
            )
            for host in fabric.hosts
            if host.rack == rack
            for link in host.links
        ]  # fmt: skip
        yield f"racks/{rack}.ports.csv", _table(PORTS, rows)


def _table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return stream.getvalue()


def read_rows(text: str, source: str, header: tuple[str, ...]) -> list[tuple[int, dict[str, str]]]:
    """Line number and fields of each row.

    Raises:
        InputErrors: it is no table of ``header``, or rows have another number of fields.
    """
    try:
        rows = list(csv.reader(io.StringIO(text), strict=True))
    except csv.Error as error:
        raise unreadable(source, "CSV", str(error)) from None
    if not rows or tuple(rows[0]) != header:
        raise unreadable(f"{source}:1", f"a table of {','.join(header)}", ",".join(rows[0]) if rows else "")
    wrong: list[InputErrors] = [
        unreadable(f"{source}:{n}", f"a row of {len(header)} fields", f"{len(row)}")
        for n, row in enumerate(rows[1:], 2)
        if len(row) != len(header)
    ]
    if wrong:
        raise InputErrors([p for error in wrong for p in error.problems])
    return [(n, dict(zip(header, row, strict=True))) for n, row in enumerate(rows[1:], 2)]


def settings(text: str, source: str, header: tuple[str, ...], key: str) -> Settings:
    """Every field by the row's ``key``; a row that stands twice is a setting of its own."""
    found: Settings = {}
    for line, row in read_rows(text, source, header):
        name = f"{row['node']}.{row[key]}" if "node" in row else row[key]
        for column, value in row.items():
            path = f"{name}.{column}"
            while path in found:
                path += " (again)"
            found[path] = Setting(value, line)
    return found
