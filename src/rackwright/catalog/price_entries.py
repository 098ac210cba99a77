"""What things cost: to buy, to rent, by API; electricity by region; space and staff.

Every amount says its currency. Rates of exchange stand in the same file; nothing is converted silently.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from rackwright.catalog.figures import Count, Date, Entry, Figure, Frozen, Hours, Share, checked

Currency = Literal["CNY", "USD", "EUR"]
CURRENCIES: tuple[Currency, ...] = ("CNY", "USD", "EUR")
CountryCode = Annotated[str, Field(pattern=r"^[A-Z]{2}$")]


def _per(denominator: str) -> AfterValidator:
    units = tuple(f"{currency}{denominator}" for currency in CURRENCIES)

    def check(figure: Figure) -> Figure:
        if figure.unit not in units:
            raise ValueError(f"must be in one of {', '.join(units)}: a price says its currency")
        return checked(figure)

    return AfterValidator(check)


Money = Annotated[Figure, _per("")]
MoneyPerHour = Annotated[Figure, _per("/h")]
MoneyPerMonth = Annotated[Figure, _per("/month")]
MoneyPerKilowattHour = Annotated[Figure, _per("/kWh")]
MoneyPerKilowattMonth = Annotated[Figure, _per("/kW/month")]
MoneyPerMillionTokens = Annotated[Figure, _per("/1e6 tokens")]


class PricePoint(Frozen):
    """An amount to pay once. ``low``, ``high``: the range asked for."""

    value: Annotated[float, Field(ge=0)]
    unit: Currency
    source: Annotated[str, Field(min_length=4)]
    verified: bool
    note: str = ""
    date: Date | None = None
    low: float | None = None
    high: float | None = None


class Rental(Frozen):
    """A machine by the hour. ``machine``: the entry that it is like; ``price`` is for the whole of it.

    ``commitment_months``: 0 for on-demand and spot.
    """

    machine: str
    provider: str
    term: Literal["on-demand", "reserved", "spot"]
    commitment_months: Annotated[int, Field(ge=0, le=120)] = 0
    price: MoneyPerHour


class ApiPrice(Frozen):
    """A model by the token. ``model``: an entry of the catalog, or empty for the market's usual level.

    ``blended``: where input and output are not told apart.
    """

    provider: str
    model: str = ""
    blended: MoneyPerMillionTokens | None = None
    input: MoneyPerMillionTokens | None = None
    output: MoneyPerMillionTokens | None = None
    cached_input: MoneyPerMillionTokens | None = None


class Region(Frozen):
    """Electricity of a region. ``pue``: facility power over IT power. ``carbon``: of the grid."""

    name: str
    electricity: MoneyPerKilowattHour
    pue: Count | None = None


class Staff(Frozen):
    """``person_month``: all costs of one engineer. ``people_from_users``: people by least daily users."""

    person_month: MoneyPerMonth
    people_from_users: dict[int, float] = Field(default_factory=dict)
    source: str
    verified: bool


class Prices(Entry):
    """What things cost in one country. ``fabric_per_node``: switches, optics and cables, shared out.

    ``machines``, ``accelerators``, ``cabinets``: to buy, by entry. ``electricity``: of the usual region.
    ``colocation``: space, cooling and feed by rated power, without the energy. ``api``: level of the market.
    ``countries``: ISO codes that the list is for; ``near``: those without a list that it is the nearest for.
    """

    kind: Literal["prices"]
    country: str
    countries: tuple[CountryCode, ...] = ()
    near: tuple[CountryCode, ...] = ()
    machines: dict[str, PricePoint]
    accelerators: dict[str, PricePoint] = Field(default_factory=dict)
    cabinets: dict[str, PricePoint] = Field(default_factory=dict)
    fabric_per_node: PricePoint
    electricity: MoneyPerKilowattHour
    regions: dict[str, Region] = Field(default_factory=dict)
    pue: Count | None = None
    rentals: tuple[Rental, ...] = ()
    apis: tuple[ApiPrice, ...] = ()
    colocation: MoneyPerKilowattMonth | None = None
    staff: Staff | None = None
    depreciation_months: Count | None = None
    utilisation: Share
    hours_month: Hours
    cny_per_usd: Annotated[Figure, AfterValidator(checked)]
    eur_per_usd: Annotated[Figure, AfterValidator(checked)] | None = None

    @property
    def currency(self) -> Currency:
        """The currency that costs by this list are told in: that of its energy."""
        return next(c for c in CURRENCIES if c == self.electricity.unit.partition("/")[0])
