"""``nvidia-imex-ctl -N``: the nodes of a memory-exchange domain and how they are.

Nodes:
Node #0   - 10.0.0.1        - READY                - Version: 570.148.08
Domain State: UP
"""

from __future__ import annotations

import re

from checks.parsers._core import Facts, Reading, parser
from checks.parsers._errors import nothing_read

_NODE = re.compile(
    r"^\s*\*?\s*Node #(\d{1,5})\s*\*?\s*-\s*(\S+)\s*-\s*([A-Z][A-Z_ ]*?)\s*-\s*Version:\s*(\S*)\s*$"
)
_DOMAIN = re.compile(r"^Domain State:\s*([A-Z][A-Z_ ]*?)\s*$", re.M)

_MATRIX = re.compile(r"^\s*Nodes From\\To\s+((?:\d+\s*?)+)$", re.M)


def _sniff(text: str) -> int:
    return 95 if re.search(r"^\s*\*?\s*Node #\d+\s.*Version:", text, re.M) else 0


@parser("imex-nodes", "nvidia-imex-ctl", ("nvidia-imex-ctl -N",), _sniff)
def parse_imex_nodes(text: str) -> Reading:
    reading = Reading({"nodes": None, "domain_state": None})
    nodes: list[Facts] = []
    for line in text.split("\n"):
        if match := _NODE.match(line):
            number, address, state, version = match.groups()
            nodes.append({"index": int(number), "address": address, "state": state, "version": version})
        elif re.match(r"^\s*\*?\s*Node #", line):
            reading.unknown(line)
    if not nodes:
        if reading.understood:
            nothing_read(reading, text, "nvidia-imex-ctl -N")
        return reading
    if [node["index"] for node in nodes] != list(range(len(nodes))):
        reading.truncated(f"nodes {', '.join(str(n['index']) for n in nodes)}: some are missing")
    matrix = _MATRIX.search(text)
    if matrix is not None and len(matrix.group(1).split()) != len(nodes):
        reading.truncated(f"{len(nodes)} nodes, {len(matrix.group(1).split())} in the table of connections")
    domain = _DOMAIN.search(text)
    if domain is None:
        reading.truncated("the state of the domain is missing")
    else:
        reading.facts["domain_state"] = domain.group(1)
    reading.facts["nodes"] = nodes
    return reading
