"""A public table that is given beside the private one, and what the steward says of it."""

from __future__ import annotations

from dipsmith.privacy.budget import ZCDP, Budget
from dipsmith.schema import Codes


class PublicTable:
    """A public table to grow trees on or to start from, encoded by the private table's schema.

    `codes` must have every column that trees may ask. `cost` is what the table cost in privacy, if it was made from the
    private rows: charged again to every run that uses it, since both are released. `what` names it on the card; `source` are
    the fingerprints of the rows that were given, where they are known.
    """

    def __init__(
        self,
        codes: Codes,
        cost: Budget | None = None,
        what: str = "a public table",
        source: frozenset[str] = frozenset(),
    ) -> None:
        # No dataclass: `asdict` of a method must not take its rows for parameters.
        self.codes, self.cost, self.what, self.source = codes, cost, what, source

    def within(self, attribute: str, code: int) -> PublicTable:
        """Its own rows of one label; a table without the attribute stands for every label alike."""
        if attribute not in self.codes.columns:
            return self
        return PublicTable(self.codes.take(self.codes[attribute] == code), self.cost, self.what, self.source)

    def __deepcopy__(self, memo: object) -> PublicTable:
        return self

    def __repr__(self) -> str:
        return f"PublicTable({self.what}, {len(self.codes):,} rows)"


def supply_statement(what: str, cost: Budget | None) -> str:
    """What the steward says of something supplied.

    >>> supply_statement("the census", None)
    'the census cost nothing: no private row went into it'
    >>> supply_statement("the pilot", ZCDP("0.01"))
    'the pilot cost ρ = 0.01, as normal noise would'
    """
    if cost is None:
        return f"{what} cost nothing: no private row went into it"
    # ρ-zCDP alone does not bound every test as a Gaussian ρ does.
    return f"{what} cost {cost}" + (", as normal noise would" if isinstance(cost, ZCDP) else "")
