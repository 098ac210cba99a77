"""What the hardware costs to buy and to power. Rent, staff and financing are not in it."""

from __future__ import annotations

from rackwright.catalog import Machine, Prices
from rackwright.plan.cost import Cost, Money


def cost(machine: Machine, prices: Prices, nodes: int, *, fabric: bool) -> Cost:
    """Capital and monthly power of ``nodes`` machines.

    capex = nodes × (machine + share of the fabric).
    power a month = nodes × (idle + utilisation × (full load − idle)) × hours × price of a kWh.
    """
    each = prices.machines[machine.id].value + (prices.fabric_per_node.value if fabric else 0.0)
    share = prices.utilisation.value
    mean_w = machine.idle.value + share * (machine.full_load.value - machine.idle.value)
    energy = nodes * mean_w / 1000 * prices.hours_month.value
    return Cost(
        capex=Money(amount=round(nodes * each), currency="CNY"),
        power_month=Money(amount=round(energy * prices.electricity.value), currency="CNY"),
        currency_rate_cny_per_usd=prices.cny_per_usd.value,
        full_load_w=nodes * machine.full_load.value,
        electricity_per_kwh=Money(amount=prices.electricity.value, currency="CNY"),
        basis=(
            f"{nodes} × {machine.name}{' with its share of the fabric' if fabric else ''}; power at "
            f"{share * 100:.0f} % between idle and full load, {prices.hours_month.value:.0f} h a month; "
            "without rent, staff and financing"
        ),
    )
