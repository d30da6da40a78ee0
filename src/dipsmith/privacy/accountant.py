"""The accountant: adds up what events cost, and refuses what exceeds a budget.

- Sequential composition: costs on the same rows add (Dwork et al. 2006; Bun and Steinke 2016,
  Lemma 1.7).
- Parallel composition: events in disjoint blocks compose by `Partitioned.rule`.
- The best of a secret number of ε₀-DP runs costs (2 + η)·ε₀ (`dipsmith.privacy.repetition`).
- One currency: a ρ is Gaussian (`dipsmith.privacy.gaussian_price`), under which pure ε-DP costs at most πε²/4 and the
  exponential mechanism πε²/16. From ρ there is no way back to pure ε.
- Runs that were charged until version 0.1 are added up as they were: ρ was zero-concentrated, with ε²/2 (Bun and
  Steinke 2016) and ε²/8 (Cesar and Rogers 2021).
- Charges are rounded up to units of 1e-12.
- What fails with a probability δ (`Discovered`) adds up in δ besides (``docs/proofs/learn.md``).

Proofs: ``docs/proofs/accounting.md``. The accountant type-checks, dry-runs, and only then applies an
event, as Google's dp_accounting does; an event it cannot price is refused by name.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil

from dipsmith.errors import BudgetError
from dipsmith.privacy.budget import UNITS, Budget, Currency, of_units
from dipsmith.privacy.events import (
    Chosen,
    Discovered,
    Event,
    Looked,
    Measured,
    Partitioned,
    Repeated,
    Supplied,
    block_of,
)
from dipsmith.privacy.gaussian_price import Pricing, pure_price, range_price
from dipsmith.privacy.neighbours import BlocksRule, check_relation


def convert(budget: Budget, currency: Currency, pricing: Pricing = "gaussian") -> int:
    """What a budget costs in a currency, in units of 1e-12, rounded up.

    >>> from dipsmith.privacy.budget import PureDP
    >>> convert(PureDP("0.1"), "epsilon"), convert(PureDP("0.1"), "rho"), convert(PureDP("0.1"), "rho", "zcdp")
    (100000000000, 7853982301, 5000000000)
    """
    if budget.currency == currency:
        return budget.units
    if currency == "rho":
        return ceil((budget.exact**2 / 2 if pricing == "zcdp" else pure_price(budget.exact)) * UNITS)
    raise BudgetError(f"{budget} has no price in pure ε: grant and run in ρ (ZCDP) instead")


def cost(event: Event, currency: Currency, pricing: Pricing = "gaussian") -> int:
    """What one event costs by itself in a currency, in units of 1e-12, rounded up; refuses noise too small for it."""
    if isinstance(event, Looked):
        return 0
    if not isinstance(event, Measured | Chosen | Partitioned | Supplied | Repeated | Discovered):
        raise BudgetError(f"{type(event).__name__} is not an event with a known price")
    budget = event.budget
    if budget is None:
        return 0
    exponential = isinstance(event, Chosen) and event.mechanism == "exponential mechanism"
    if exponential and currency == "rho" and budget.currency == "epsilon":
        return ceil((budget.exact**2 / 8 if pricing == "zcdp" else range_price(budget.exact)) * UNITS)
    if isinstance(event, Measured | Discovered) and budget.currency == "rho" and pricing == "gaussian":
        event.require_gaussian()
    return convert(budget, currency, pricing)


def block_shares(rule: BlocksRule, budget: Budget, blocks: int) -> list[Budget]:
    """What each of the blocks of a partition may spend, so that together they cost `budget`.

    >>> from dipsmith.privacy.budget import PureDP
    >>> [str(block_shares(rule, PureDP(1), 4)[0]) for rule in ("maximum", "two-dearest", "sum")]
    ['ε = 1', 'ε = 0.5', 'ε = 0.25']
    """
    if rule == "sum":
        return list(budget.split(blocks))
    return [budget if rule == "maximum" else budget.split(2)[0]] * blocks


def total(events: Iterable[Event], currency: Currency, relation: str) -> int:
    """What a list of events costs together, in units of 1e-12: in the order they happened, all under one relation."""
    scope = _Scope(currency, (check_relation(relation),), "gaussian")
    for event in events:
        scope.apply(event)
    return scope.spent


class Accountant:
    """A running total of events under one relation that never exceeds its budget.

    >>> from fractions import Fraction
    >>> from dipsmith.privacy.budget import PureDP
    >>> accountant = Accountant(PureDP(1), "add-remove")
    >>> counts = Measured(cells="age", size=74, mechanism="discrete Laplace", sensitivity=Fraction(1),
    ...                   scale=Fraction(5, 3), budget=PureDP("0.6"))
    >>> accountant.record(counts)
    >>> print(accountant.remaining)
    ε = 0.4
    >>> accountant.record(counts)
    Traceback (most recent call last):
    dipsmith.errors.BudgetError: 'age' asks for ε = 0.6, but ε = 0.4 of ε = 1 is left
    """

    def __init__(
        self, budget: Budget, relation: str, pricing: Pricing = "gaussian", delta: Fraction = Fraction(0)
    ) -> None:
        self.budget, self.delta = budget, delta
        self.relation = check_relation(relation)
        self._scope = _Scope(budget.currency, (self.relation,), pricing, limit=budget.units)
        self._events: list[Event] = []

    @property
    def events(self) -> tuple[Event, ...]:
        """Everything recorded so far, in order."""
        return tuple(self._events)

    @property
    def spent_units(self) -> int:
        """What was spent so far, in units of 1e-12."""
        return self._scope.spent

    @property
    def remaining(self) -> Budget | None:
        """What is left, None when nothing is."""
        left = self.budget.units - self.spent_units
        return of_units(self.budget.currency, left) if left else None

    def record(self, *events: Event) -> None:
        """Charge all the events, or refuse and charge none of them."""
        delta = sum(event.delta for event in (*self._events, *events) if isinstance(event, Discovered))
        if delta > self.delta:
            raise BudgetError(f"the events ask for δ = {float(delta):g}, but δ = {float(self.delta):g} was reserved")
        scope = self._scope if len(events) == 1 else deepcopy(self._scope)
        for event in events:
            scope.apply(event)
        self._scope = scope
        self._events.extend(events)


class Purse:
    """What a curator may still spend: a budget that is taken from until nothing is left."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self._spent = 0

    @property
    def remaining(self) -> Budget | None:
        """What is left to spend, None when nothing is."""
        left = self.budget.units - self._spent
        return type(self.budget).of_units(left) if left > 0 else None

    def take(self, budget: Budget) -> None:
        """Take an amount out; refuses another currency, and more than is left."""
        if type(budget) is not type(self.budget):
            raise BudgetError(f"asked for {budget} of a curator with {self.budget}: one currency per run")
        if self._spent + budget.units > self.budget.units:
            left = self.remaining or "nothing"
            raise BudgetError(f"asked for {budget}, but only {left} of {self.budget} is left")
        self._spent += budget.units


@dataclass
class _Scope:
    """Rows on which costs add up: the whole run, or one block of a partition.

    `moving` marks a block that a row may leave and enter, inside which a row may change as well.
    """

    currency: Currency
    relations: tuple[str, ...]
    pricing: Pricing
    limit: int | None = None
    spent: int = 0
    moving: bool = False
    partitions: dict[str, _Partition] = field(default_factory=dict)

    def apply(self, event: Event) -> None:
        """Charge one event here or in the block it belongs to; refuse without changing anything."""
        for prefix, partition in self.partitions.items():
            if event.block.startswith(prefix):
                partition.block(event.block[len(prefix) :].split("/", 1)[0]).apply(event)
                return
        if event.relation is not None and event.relation not in self.relations:
            raise BudgetError(
                f"an event under neighbours '{event.relation}' cannot be added to events under "
                f"'{self.relations[0]}': their budgets mean different things"
            )
        charge = self._charge(event)
        if self.limit is not None and self.spent + charge > self.limit:
            raise self._refusal(event, charge, self.limit)
        if isinstance(event, Partitioned):
            self._open(event)
        self.spent += charge

    def _charge(self, event: Event) -> int:
        charge = cost(event, self.currency, self.pricing)
        if not self.moving or self.currency == "epsilon":
            return charge
        # A change within the block is charged as two moves. For ρ that is right for Gaussian counts
        # (orthogonal changes: 2ρ); anything else costs 4ρ by group privacy.
        gaussian = isinstance(event, Measured) and event.mechanism == "discrete Gaussian"
        divided = isinstance(event, Partitioned) and event.budget.currency == "rho"
        return charge if gaussian or divided else 2 * charge

    def _open(self, event: Partitioned) -> None:
        if event.rule == "maximum" and self.relations[0] == "replace":
            raise BudgetError(
                f"blocks of '{event.attribute}' cannot compose by their maximum under 'replace': "
                "a unit may leave one block and enter another"
            )
        prefix = block_of(event.block, event.attribute, "")
        known = self.partitions.setdefault(prefix, _Partition(event, self.relations, self.pricing, self.moving))
        known.extend(event)

    def _refusal(self, event: Event, charge: int, limit: int) -> BudgetError:
        name = next(getattr(event, n) for n in ("cells", "score", "attribute", "what") if hasattr(event, n))
        left = limit - self.spent
        rest = str(of_units(self.currency, left)) if left > 0 else "nothing"
        whole = of_units(self.currency, limit)
        where = f" in block '{event.block}'" if event.block else ""
        asked = of_units(self.currency, charge)
        return BudgetError(f"'{name}' asks for {asked}{where}, but {rest} of {whole} is left")


class _Partition:
    """The disjoint blocks of one partition, and the rule that composes them.

    The parent scope pays the partition's whole budget when it is opened, so that a block only has to
    stay within what the rule allows it.
    """

    def __init__(self, opening: Partitioned, relations: tuple[str, ...], pricing: Pricing, moving: bool) -> None:
        self.rule, self.pricing = opening.rule, pricing
        self.currency: Currency = opening.budget.currency
        self.units = 0
        self.moving = moving or opening.rule == "two-dearest"
        if opening.rule == "two-dearest":
            relations = ("add-remove",)
        elif opening.rule == "sum" and relations == ("label",):
            relations = ("label", "replace")
        self.relations = relations
        self.blocks: dict[str, _Scope] = {}

    def extend(self, opening: Partitioned) -> None:
        """Open the same blocks, possibly again: what they may cost together grows."""
        if opening.rule != self.rule or opening.budget.currency != self.currency:
            raise BudgetError(f"blocks of '{opening.attribute}' were opened by another rule or currency")
        self.units += opening.budget.units

    def block(self, label: str) -> _Scope:
        """The block's scope, with the limit that it has at this moment."""
        scope = self.blocks.setdefault(label, _Scope(self.currency, self.relations, self.pricing, moving=self.moving))
        if self.rule == "maximum":
            scope.limit = self.units
        elif self.rule == "two-dearest":
            # Half rather than "the two dearest blocks add up to the budget": a row may also change
            # within the dearest block, which it then both leaves and enters.
            scope.limit = self.units // 2
        else:
            scope.limit = self.units - sum(b.spent for k, b in self.blocks.items() if k != label)
        return scope
