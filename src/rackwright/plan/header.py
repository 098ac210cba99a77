"""Which plan this is and what it was derived from."""

from __future__ import annotations

from rackwright.plan.base import Section


class Header(Section):
    """Attributes:
    name: of the workload.
    workload_digest: SHA-256 of the canonical workload.
    catalog_digest: SHA-256 over the catalog entries that were read.
    generated_by: program and version.
    """

    name: str
    workload_digest: str
    catalog_digest: str
    generated_by: str
