"""What it costs, and what would cost less."""

from __future__ import annotations

from rackwright.sizing import economics
from rackwright.sizing.cautions.base import GUIDE, Finding, Rule, Sized, many

API_UNTIL = 5_000
"""Daily users under which the guide advises an API."""
STAFF_FROM = 500_000
DOMAIN_FROM = 100_000
PAYS_BACK = (18, 24)
"""Months in which the guide says that 8 × H200 pay back."""


def api_first(s: Sized) -> Finding | None:
    """Few users cost little by an API."""
    users, c = s.workload.users, s.costing
    api = next((o for o in c.offers if o.kind == "api"), None)
    if users.dau >= API_UNTIL or api is None:
        return None
    unit, own = c.at.currency, c.own_month(c.users)
    least = economics.break_even_users(c.own_month, lambda n: c.other_month(api, n))
    pays = f", or from {least:,} daily users" if least is not None else "; by cost alone it never does"
    return (
        "info",
        f"By {api.name} this load costs about {api.month:,.0f} {unit} a month, and {own:,.0f} {unit} on "
        f"these machines: own hardware pays where data must stay{pays}. The guide says from "
        f"{API_UNTIL:,} daily users, and elsewhere from 200.",
        api.source,
        GUIDE + ", API baseline",
    )


def rent_before_buying(s: Sized) -> Finding | None:
    """Small teams rent what a team of their size cannot fill."""
    machine = s.stand.machine
    if s.workload.users.dau >= API_UNTIL or s.stand.gpus < 8 or s.stand.accelerator.memory_class != "hbm":
        return None
    return (
        "warn",
        f"{many(s.workload.users.dau, 'daily user')} do not fill {machine.name}: individuals and small teams "
        "rent such machines, and train in the cloud while they infer on site.",
        "plan",
        GUIDE + ", team choices",
    )


def rental_costs_less(s: Sized) -> Finding | None:
    """Over the life of the machines somebody else's cost less."""
    c = s.costing
    nodes, months = c.fleet.nodes(c.users), c.at.depreciation_months
    rentals = [o for o in c.offers if o.kind != "api"]
    if not rentals:
        return None
    cheapest = min(rentals, key=lambda o: (c.other_month(o, c.users), o.name))
    month = economics.break_even_month(c.at, nodes, c.other_month(cheapest, c.users))
    if month is not None and month <= months:
        return None
    when = f"only in month {month}" if month is not None else "never"
    return (
        "info",
        f"Owning pays against {cheapest.name} {when}, after the {months} months in which the machines are "
        f"written off. The guide's {PAYS_BACK[0]}–{PAYS_BACK[1]} months do not follow from its own figures, "
        "which give 43–52 on demand and 64–77 reserved.",
        cheapest.source + ("" if cheapest.verified else " (unverified)"),
        GUIDE + ", rental",
    )


def domain_too_large(s: Sized) -> Finding | None:
    """One NVLink domain of 72 pays above a hundred thousand users."""
    if s.stand.machine.nodes == 1 or s.workload.users.dau >= DOMAIN_FROM:
        return None
    return (
        "warn",
        f"{s.stand.machine.name} pays above {DOMAIN_FROM:,} daily users only.",
        "guide",
        GUIDE + ", cost",
    )


def staff_dominates(s: Sized) -> Finding | None:
    """At half a million users people are a large part of what is paid every month."""
    c = s.costing
    month = economics.monthly(c.at, c.fleet.nodes(c.users))
    if s.workload.users.dau < STAFF_FROM or month.running == 0:
        return None
    return (
        "info",
        f"{c.at.people:g} people cost {month.staff:,.0f} {c.at.currency} a month, "
        f"{month.staff / month.running * 100:.0f} % of what is paid besides the machines; the guide asks for "
        "ten and more, 1–2M CNY a month.",
        "price list",
        GUIDE + ", cost: staff dominates over 500,000 daily users",
    )


def prices_of_another_country(s: Sized) -> Finding | None:
    """The price list is not the site's own."""
    priced = s.costing.pricing
    if priced.fits:
        return None
    return (
        "warn",
        f"Costs are by {priced.why}, in {priced.currency}: taxes, tariffs and tax on imports of "
        f"{s.workload.site.country} are not in it. Name a list under site.prices, or give one of your own.",
        "price lists of the catalog",
        priced.prices.name,
    )


def prices_assumed(s: Sized) -> Finding | None:
    """Part of the capital is no quoted price."""
    prices = s.costing.pricing.prices
    price = prices.machines[s.stand.machine.id]
    if price.verified and (s.fabric is None or prices.fabric_per_node.verified):
        return None
    what = "the machine" if not price.verified else "the fabric's share a node"
    return (
        "info",
        f"The price of {what} is assumed; ask for a quotation.",
        "assumed",
        price.source if not price.verified else prices.fabric_per_node.source,
    )


RULES: tuple[Rule, ...] = (
    rent_before_buying,
    domain_too_large,
    prices_of_another_country,
    api_first,
    rental_costs_less,
    staff_dominates,
    prices_assumed,
)
