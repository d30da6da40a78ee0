"""Events: what was asked of private rows, and what each question cost.

An event is a frozen record of one access to private rows. It never changes its meaning: a field may
be added with a default that says what older records meant, none is renamed or reused, because
ledgers keep events for good. An event holds public facts only — a partition's name and size, a
mechanism and its parameters — and nothing that depends on private rows beyond what the curator
released by then.

An event lives in a *block*: a path such as ``year=1996/tree 1`` that says in which part of a run,
and of the rows, it happened (`block_of`); the empty path is the whole run.

The design follows the events of Google's dp_accounting library (`dp_event.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol, get_args
from urllib.parse import unquote

from dipsmith.errors import BudgetError, DamageError
from dipsmith.privacy.budget import Budget, PureDP, budget_from, budget_record, check_budget
from dipsmith.privacy.enclosure import exp_bounds
from dipsmith.privacy.gaussian_price import pure_price, variance_needed
from dipsmith.privacy.neighbours import BlocksRule, check_relation


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Noisy counts of every cell of a partition.

    Of the partition `cells` (its public name), which has `size` cells. `sensitivity` is Δ₁ and `scale` b for discrete Laplace
    noise (P(k) ∝ exp(−|k|/b)); Δ₂² and σ² for discrete Gaussian (P(k) ∝ exp(−k²/2σ²)). The noise must be large
    enough for `budget`, what it is charged, or the event is refused. `relation` is None for that of its block. `attributes`
    are the columns whose combinations the cells are; None for other partitions, and in records of versions before 0.2.

    >>> Measured(cells="age × sex", size=148, mechanism="discrete Laplace", sensitivity=Fraction(2),
    ...          scale=Fraction(2), budget=PureDP("0.5"))
    Traceback (most recent call last):
    dipsmith.errors.BudgetError: 'age × sex' was given noise that costs more than ε = 0.5: ...
    """

    cells: str
    size: int
    mechanism: str
    sensitivity: Fraction
    scale: Fraction
    budget: Budget
    block: str = ""
    relation: str | None = None
    attributes: tuple[str, ...] | None = None
    weighted: bool = False

    def __post_init__(self) -> None:
        _check_terms(self.budget, self.relation)
        if self.size < 1:
            raise BudgetError(f"'{self.cells}' has {self.size} cells: expected at least one")
        if self.sensitivity <= 0 or self.scale <= 0:
            raise BudgetError(f"'{self.cells}' needs a sensitivity and a scale of noise above 0")
        if self.noise_cost > self.budget.exact:
            raise BudgetError(
                f"'{self.cells}' was given noise that costs more than {self.budget}: "
                f"{self.mechanism} of scale {float(self.scale):g} at sensitivity {float(self.sensitivity):g}"
            )

    @property
    def noise_cost(self) -> Fraction:
        """What the noise costs in the budget's currency, whatever was charged."""
        return noise_cost(self.mechanism, self.sensitivity, self.scale, self.budget)

    def require_gaussian(self) -> None:
        """Refuse noise that tells more than normal noise of its ρ does."""
        require_gaussian(self.cells, self.mechanism, self.sensitivity, self.scale, self.budget)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """One candidate chosen by its score on private rows.

    `sensitivity` is by how much one unit can change a score; `budget` is ε, or the ρ that the choice is charged (for the
    exponential mechanism πε²/16; in runs until version 0.1 ε²/8).
    """

    candidates: int
    score: str
    mechanism: str
    sensitivity: Fraction
    budget: Budget
    block: str = ""
    relation: str | None = None

    def __post_init__(self) -> None:
        _check_terms(self.budget, self.relation)
        if self.mechanism not in ("permute-and-flip", "exponential mechanism"):
            raise BudgetError(f"mechanism '{self.mechanism}' has no known price for choices")
        if self.candidates < 1 or self.sensitivity <= 0:
            raise BudgetError(f"choice by '{self.score}' needs a candidate and a sensitivity above 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitioned:
    """The rows were divided into disjoint blocks by an attribute; together they cost `budget`.

    Events of the block with label v carry the block `block_of(block, attribute, v)`. The accountant
    composes them by `rule` (`dipsmith.privacy.neighbours.blocks_rule`) and refuses what exceeds
    `budget`.
    """

    attribute: str
    rule: BlocksRule
    budget: Budget
    block: str = ""
    relation: str | None = None

    def __post_init__(self) -> None:
        _check_terms(self.budget, self.relation)
        if self.rule not in ("maximum", "two-dearest", "sum"):
            raise BudgetError(f"rule '{self.rule}' is unknown: expected maximum, two-dearest or sum")


@dataclass(frozen=True, slots=True, kw_only=True)
class Supplied:
    """A table given beside the private one; `budget` is what it cost if it was made from private rows."""

    what: str
    budget: Budget | None = None
    block: str = ""
    relation: str | None = None

    def __post_init__(self) -> None:
        if self.budget is not None:
            _check_terms(self.budget, self.relation)


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """A person looked at exact figures of private rows. Not charged, but counted and shown on cards."""

    what: str
    by: str
    block: str = ""
    relation: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeated:
    """One outcome kept of a secret random number of runs, by a score that is part of each outcome.

    How many runs there were is in no event. Each was ε₀-DP, and the best one costs (2 + η)·ε₀
    (`dipsmith.privacy.repetition`).

    Each run drew among so many `candidates`; `eta` and `gamma` are the law of the number of runs. `budget` is
    (2 + η)·ε₀ or more; ε₀ is the largest that it covers.
    """

    candidates: int
    score: str
    eta: Fraction
    gamma: Fraction
    budget: Budget
    block: str = ""
    relation: str | None = None

    def __post_init__(self) -> None:
        _check_terms(self.budget, self.relation)
        if not isinstance(self.budget, PureDP):
            raise BudgetError("the best of several runs has a price in pure ε only, not in ρ: use PureDP")
        if self.candidates < 1 or not (self.eta > -1 and 0 < self.gamma < 1):
            raise BudgetError(f"a selection by '{self.score}' needs a candidate, η > −1 and 0 < γ < 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovered:
    """Values of columns that occur often: those whose noisy count reaches a public `threshold`, with that count.

    Of `columns` columns together; a unit brings at most `rows` new values to each. `sensitivity` and `scale` as of
    `Measured`, over all columns. A value that one unit alone brings is told with probability `delta`/`parts` at most, which
    the event proves of its noise and threshold, or is refused (``docs/proofs/learn.md``).
    """

    what: str
    columns: int
    rows: int
    mechanism: str
    sensitivity: Fraction
    scale: Fraction
    threshold: int
    delta: Fraction
    parts: int
    budget: Budget
    block: str = ""
    relation: str | None = None

    def __post_init__(self) -> None:
        _check_terms(self.budget, self.relation)
        if self.columns < 1 or self.rows < 1 or self.sensitivity <= 0 or self.scale <= 0 or self.delta <= 0:
            raise BudgetError(f"'{self.what}' needs columns, rows, a sensitivity, a scale of noise and a δ above 0")
        if noise_cost(self.mechanism, self.sensitivity, self.scale, self.budget) > self.budget.exact:
            raise BudgetError(f"'{self.what}' was given noise that costs more than {self.budget}")
        chance = tail_bound(self.mechanism, self.scale, self.threshold - self.rows)
        if self.parts < 1 or self.columns * self.rows * chance * self.parts > self.delta:
            raise BudgetError(
                f"'{self.what}' has a threshold of {self.threshold}, too low for δ = {float(self.delta):g}"
            )

    def require_gaussian(self) -> None:
        """Refuse noise that tells more than normal noise of its ρ does."""
        require_gaussian(self.what, self.mechanism, self.sensitivity, self.scale, self.budget)


def require_gaussian(what: str, mechanism: str, sensitivity: Fraction, scale: Fraction, budget: Budget) -> None:
    """Refuse noise that tells more than normal noise of its ρ does."""
    if mechanism == "discrete Laplace":
        enough = pure_price(sensitivity / scale) <= budget.exact
    else:
        enough = scale >= variance_needed(sensitivity / (2 * budget.exact))
    if not enough:
        raise BudgetError(f"'{what}' was given noise that costs more than {budget}, were it normal noise")


def noise_cost(mechanism: str, sensitivity: Fraction, scale: Fraction, budget: Budget) -> Fraction:
    """What noise on counts costs in a budget's currency: b and Δ₁, or σ² and Δ₂²."""
    if mechanism == "discrete Laplace":
        epsilon = sensitivity / scale
        return epsilon if isinstance(budget, PureDP) else epsilon * epsilon / 2
    if mechanism == "discrete Gaussian":
        if isinstance(budget, PureDP):
            raise BudgetError("discrete Gaussian noise is never pure ε-DP: give it a ρ (ZCDP)")
        return sensitivity / (2 * scale)
    raise BudgetError(f"mechanism '{mechanism}' has no known price for counts")


def tail_bound(mechanism: str, scale: Fraction, distance: int) -> Fraction:
    """More than the probability that noise is `distance` or more: exp(−t/b), or exp(−t²/2σ²), rounded up.

    >>> float(tail_bound("discrete Laplace", Fraction(2), 20)) < 4.6e-5
    True
    """
    if distance <= 0:
        return Fraction(1)
    exponent = distance / scale if mechanism == "discrete Laplace" else Fraction(distance**2, 2) / scale
    return Fraction(exp_bounds(exponent, 2000)[1], 1 << 2000)


Event = Measured | Chosen | Partitioned | Supplied | Repeated | Looked | Discovered

_KINDS: Mapping[str, type[Event]] = {kind.__name__.lower(): kind for kind in get_args(Event)}
"""By the name that ledgers have for them."""


class Journal(Protocol):
    """Where a curator records its events durably: a ledger's reservation."""

    def record(self, *events: Event) -> None:
        """Append the events; they must be durable when this returns."""


class Rehearsal:
    """A journal kept in memory, for rows that need no protection."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def record(self, *events: Event) -> None:
        """Remember the events."""
        self.events.extend(events)


def block_of(block: str, attribute: str, label: str) -> str:
    """The path of one block of a partition; a slash within a name, or `=` in the attribute's, is escaped.

    >>> block_of("", "year", "1996"), block_of("year=1996", "unit", "N/A")
    ('year=1996', 'year=1996/unit=N%2FA')
    """
    return "/".join(p for p in (block, f"{_escape(attribute, '%/=')}={_escape(label)}") if p)


def path_inside(block: str, name: str) -> str:
    """The path of a named part of a block.

    >>> path_inside("year=1996", "tree 1"), path_inside("", "tree 1"), path_inside("year=1996", "")
    ('year=1996/tree 1', 'tree 1', 'year=1996')
    """
    return "/".join(p for p in (block, _escape(name)) if p)


def labels_of_block(block: str) -> dict[str, str]:
    """The label of each attribute that a block's rows share, as `block_of` put them into its path.

    >>> labels_of_block("year=1996/unit=N%2FA/tree 1")
    {'year': '1996', 'unit': 'N/A'}
    """
    parts = (part.partition("=") for part in block.split("/"))
    return {unquote(name): unquote(label) for name, equals, label in parts if equals}


def event_record(event: Event) -> dict[str, Any]:
    """The event as plain JSON values, with fractions as text and budgets in units of 1e-12.

    >>> event_record(Looked(what="comparison", by="ann"))
    {'event': 'looked', 'what': 'comparison', 'by': 'ann', 'block': '', 'relation': None}
    """
    fields = {name: _plain(getattr(event, name)) for name in event.__slots__}
    # Not written, as in older ledgers: their bytes and hashes stay.
    if fields.get("attributes", ()) is None:
        del fields["attributes"]
    if fields.get("weighted") is False:
        del fields["weighted"]
    return {"event": type(event).__name__.lower(), **fields}


def event_from(record: Mapping[str, Any]) -> Event:
    """The event back from `event_record`; refuses what no event can be."""
    fields = dict(record)
    cls = _KINDS.get(fields.pop("event", ""))
    if cls is None:
        raise DamageError(f"event '{record.get('event')}' is unknown: of a newer dipsmith, or edited")
    try:
        if fields.get("budget") is not None:
            fields["budget"] = budget_from(fields["budget"])
        for name in ("sensitivity", "scale", "eta", "gamma", "delta"):
            if name in fields:
                fields[name] = Fraction(fields[name])
        if fields.get("attributes") is not None:
            fields["attributes"] = tuple(fields["attributes"])
        return cls(**fields)
    except (TypeError, ValueError, AttributeError, ZeroDivisionError) as error:
        raise DamageError(f"event '{record.get('event')}' has fields that do not fit: {error}") from None


def _escape(name: str, unsafe: str = "%/") -> str:
    return "".join(f"%{ord(c):02X}" if c in unsafe else c for c in name)


def _plain(value: object) -> object:
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, Budget):
        return budget_record(value)
    return list(value) if isinstance(value, tuple) else value


def _check_terms(budget: object, relation: str | None) -> None:
    check_budget(budget)
    if relation is not None:
        check_relation(relation)
