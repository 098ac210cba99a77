"""Which price list a workload is costed by: the named one, its country's, the nearest, or the last resort."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rackwright.catalog import Catalog, Prices, find, unknown_entry
from rackwright.catalog.price_entries import Currency, Region
from rackwright.errors import Problem, listing, nearest
from rackwright.workload import Workload

LAST_RESORT = "cn"
"""The list for a country that no list is for or near to; a caution of the plan says so."""


@dataclass(frozen=True)
class Pricing:
    """``why``: how the list was found. ``fits``: it is the country's own, or was named."""

    prices: Prices
    why: str
    fits: bool
    region: str | None

    @property
    def currency(self) -> Currency:
        return self.prices.currency

    @property
    def place(self) -> Region | None:
        return self.prices.regions.get(self.region) if self.region is not None else None


def pricing(workload: Workload, catalog: Catalog) -> Pricing:
    """The price list of ``workload``. A name that is none was refused before: see ``problems``."""
    site = workload.site
    named = find(catalog.prices, site.prices) if site.prices is not None else None
    if named is not None:
        return Pricing(named, f"named by site.prices: {named.id}", True, site.region)
    for prices in catalog.prices.values():
        if site.country in (prices.country, *prices.countries):
            return Pricing(prices, f"the list of site.country {site.country}", True, site.region)
    for prices in catalog.prices.values():
        if site.country in prices.near:
            return Pricing(prices, f"the nearest list to site.country {site.country}", False, site.region)
    last = catalog.prices[LAST_RESORT]
    return Pricing(last, f"no list for site.country {site.country}; {last.id} instead", False, site.region)


def problems(workload: Workload, catalog: Catalog) -> Iterator[Problem]:
    """Names under ``site`` that the price lists do not have."""
    site = workload.site
    if site.prices is not None and find(catalog.prices, site.prices) is None:
        yield unknown_entry(catalog.prices, site.prices, "site.prices", "prices")
        return
    regions = pricing(workload, catalog).prices.regions
    if site.region is not None and site.region not in regions:
        list_id = pricing(workload, catalog).prices.id
        yield Problem(
            "site.region",
            f"must be one of the price list {list_id}: {listing(sorted(regions))}"
            f"{nearest(site.region, regions)}",
            f'"{site.region}"',
            "the price of energy depends on it",
            "write one of those, or name another list under site.prices",
        )
