"""Budgets: how much privacy loss a run may cause, counted exactly.

A budget is `PureDP` (ε) or `ZCDP` (ρ), two currencies that never mix silently. Amounts are integers
in units of 1e-12, so that adding, splitting and comparing them is exact: no sum of parts ever
exceeds the whole by a rounding error. What is *given* is rounded down (a budget is never larger than
what was stated); what is *charged* is rounded up (`dipsmith.privacy.accountant`).

Between ρ and (ε, δ) goes the optimised conversion of Canonne, Kamath and Steinke, "The Discrete
Gaussian for Differential Privacy" (NeurIPS 2020), Proposition 12 and Corollary 13: ρ-zCDP implies
(ε, δ)-DP for every order α > 1 with

    δ = exp((α − 1)(αρ − ε)) / (α − 1) · (1 − 1/α)^α.

Every α gives a valid statement, so the search for the best one may be approximate; the value at the
α found is computed in 60-digit arithmetic and rounded to the safe side.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Context, Decimal, InvalidOperation, localcontext
from fractions import Fraction
from functools import total_ordering
from numbers import Integral
from typing import ClassVar, Literal, Self

from dipsmith.errors import BudgetError

Amount = int | str | Decimal | Fraction | float
Currency = Literal["epsilon", "rho"]

UNITS = 10**12
"""Units in an ε or ρ of 1."""

LARGEST = 10**9
"""The largest ε or ρ that is accepted; anything near it protects nobody."""

_DIGITS = Context(prec=60)
_SLACK = Decimal("1e-40")


@total_ordering
@dataclass(frozen=True, slots=True, init=False, repr=False)
class _Amount:
    """What ε and ρ have in common: exact arithmetic in units of 1e-12, within one currency."""

    units: int
    currency: ClassVar[Currency]
    symbol: ClassVar[str]

    def __init__(self, amount: Amount) -> None:
        object.__setattr__(self, "units", _units(amount, self.symbol))

    @classmethod
    def of_units(cls, units: int) -> Self:
        """A budget of so many units of 1e-12."""
        if type(units) is not int or not 0 < units <= LARGEST * UNITS:
            raise BudgetError(f"{cls.symbol} is counted in whole units of 1e-12 above 0, got {_shown(units)}")
        return cls(Fraction(units, UNITS))

    @property
    def exact(self) -> Fraction:
        """The amount without rounding."""
        return Fraction(self.units, UNITS)

    def split(self, parts: int | Sequence[Amount]) -> list[Self]:
        """Parts that sum exactly to the whole, equal or in proportion to weights; the last takes the rest."""
        if isinstance(parts, int | Integral):
            if isinstance(parts, bool) or int(parts) < 1:
                raise BudgetError(f"a budget is split into 1 part or more, got {parts}")
            weights = [Fraction(1)] * int(parts)
        else:
            weights = [_number(w, "a weight")[0] for w in parts]
            if not weights or min(weights) <= 0:
                raise BudgetError("weights must be numbers above 0, at least one of them")
        total = sum(weights)
        units = [math.floor(self.units * w / total) for w in weights[:-1]]
        units.append(self.units - sum(units))
        if min(units) < 1:
            raise BudgetError(f"{self} is too small for {len(weights)} parts of at least 1e-12 each")
        return [self.of_units(u) for u in units]

    def __add__(self, other: Self) -> Self:
        return self.of_units(self.units + self._same_currency(other))

    def __sub__(self, other: Self) -> Self:
        if self._same_currency(other) >= self.units:
            raise BudgetError(f"{other} taken from {self} leaves nothing")
        return self.of_units(self.units - other.units)

    def __lt__(self, other: Self) -> bool:
        return self.units < self._same_currency(other)

    def _same_currency(self, other: Self) -> int:
        if type(self) is not type(other):
            raise BudgetError(f"{self} and {other} are different currencies: keep a run in ε or in ρ")
        return other.units

    def __str__(self) -> str:
        return f"{self.symbol} = {decimal_text(self.units)}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}('{decimal_text(self.units)}')"


@dataclass(frozen=True, slots=True, init=False, repr=False)
class PureDP(_Amount):
    """Pure differential privacy: ε, exact to 12 decimals.

    Accepts int, float, str, Decimal and Fraction. A float is read as the shortest decimal that
    denotes it, so `PureDP(0.1)` is exactly one tenth; one with more than 12 decimals is rounded down.
    Exact input (anything else) with more than 12 decimals is refused.

    >>> PureDP(0.1) + PureDP("0.2") == PureDP(0.3)
    True
    >>> print(PureDP(0.75))
    ε = 0.75
    >>> [str(part) for part in PureDP(1).split(3)]
    ['ε = 0.333333333333', 'ε = 0.333333333333', 'ε = 0.333333333334']
    """

    currency: ClassVar[Literal["epsilon"]] = "epsilon"
    symbol: ClassVar[str] = "ε"

    def __init__(self, epsilon: Amount) -> None:
        _Amount.__init__(self, epsilon)

    @property
    def epsilon(self) -> float:
        """The nearest float to ε."""
        return float(self.exact)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class ZCDP(_Amount):
    """Zero-concentrated differential privacy (Bun and Steinke 2016): ρ, exact to 12 decimals.

    Takes the same input as `PureDP`. `stated` is the (ε, δ) it was derived from, for display only; None when ρ
    itself was given.

    >>> print(ZCDP.from_approx(1, 1e-9))
    ρ = 0.01497 (ε = 1, δ = 1e-09)
    """

    stated: tuple[float, float] | None = field(compare=False)
    currency: ClassVar[Literal["rho"]] = "rho"
    symbol: ClassVar[str] = "ρ"

    def __init__(self, rho: Amount) -> None:
        _Amount.__init__(self, rho)
        object.__setattr__(self, "stated", None)

    @classmethod
    def from_approx(cls, epsilon: Amount, delta: Amount) -> ZCDP:
        """The largest ρ, rounded down, that implies (ε, δ)-differential privacy."""
        budget = cls(approx_to_zcdp(epsilon, delta))
        object.__setattr__(budget, "stated", (float(PureDP(epsilon).exact), float(_delta(delta))))
        return budget

    @property
    def rho(self) -> float:
        """The nearest float to ρ."""
        return float(self.exact)

    def __str__(self) -> str:
        if self.stated is None:
            return _Amount.__str__(self)
        epsilon, delta = self.stated
        return f"ρ = {self.rho:.4g} (ε = {epsilon:g}, δ = {delta:g})"

    def __repr__(self) -> str:
        if self.stated is None:
            return _Amount.__repr__(self)
        return f"ZCDP.from_approx({self.stated[0]!r}, {self.stated[1]!r})"


Budget = PureDP | ZCDP


def of_units(currency: str, units: int) -> Budget:
    """A budget of so many units of 1e-12 in the named currency."""
    if currency not in ("epsilon", "rho"):
        raise BudgetError(f"currency '{currency}' is unknown: expected 'epsilon' or 'rho'")
    return (PureDP if currency == "epsilon" else ZCDP).of_units(units)


def budget_record(budget: Budget) -> dict[str, int]:
    """The budget as it is written in a ledger: its currency and units."""
    return {budget.currency: budget.units}


def budget_from(record: Mapping[str, int]) -> Budget:
    """The budget back from `budget_record`."""
    ((currency, units),) = record.items()
    return of_units(currency, units)


def check_budget(budget: object) -> None:
    """Refuse what is no budget, such as a bare number."""
    if not isinstance(budget, Budget):
        raise BudgetError(f"a budget is PureDP(ε) or ZCDP(ρ), got {type(budget).__name__}")


def decimal_text(units: int) -> str:
    """Units of 1e-12 as a decimal number, exactly.

    >>> decimal_text(750_000_000_000), decimal_text(0), decimal_text(1)
    ('0.75', '0', '0.000000000001')
    """
    whole, part = divmod(units, UNITS)
    return f"{whole}.{part:012d}".rstrip("0").rstrip(".")


def zcdp_to_approx(rho: ZCDP | Amount, delta: Amount) -> float:
    """The smallest ε, rounded up, such that ρ-zCDP implies (ε, δ)-differential privacy.

    >>> zcdp_to_approx(0.01498, 1e-9) > 1 > zcdp_to_approx(0.01497, 1e-9)
    True
    """
    amount = rho if isinstance(rho, ZCDP) else ZCDP(rho)
    r, d = float(amount.exact), _delta(delta)
    log = -math.log(d)
    best = _minimise(lambda t: (1 + math.exp(t)) * r + _tail(t, log))
    with localcontext(_DIGITS):
        order = 1 + Decimal(math.exp(best))
        epsilon = order * _decimal(amount.exact) + _exact_tail(order, d) + _SLACK
    return 0.0 if epsilon <= 0 else math.nextafter(float(epsilon), math.inf)


def approx_to_zcdp(epsilon: Amount, delta: Amount) -> Fraction:
    """The largest ρ, rounded down to 1e-12, that implies (ε, δ)-differential privacy.

    >>> round(float(approx_to_zcdp(1, 1e-9)), 5)
    0.01497
    """
    budget, d = PureDP(epsilon), _delta(delta)
    e, log = float(budget.exact), -math.log(d)
    best = _minimise(lambda t: (_tail(t, log) - e) / (1 + math.exp(t)))
    with localcontext(_DIGITS):
        order = 1 + Decimal(math.exp(best))
        rho = (_decimal(budget.exact) - _exact_tail(order, d)) / order - _SLACK
        units = math.floor(rho * UNITS)
    if units < 1:
        raise BudgetError(f"ε = {e:g} with δ = {float(d):g} allows less than ρ = 1e-12: raise ε or δ, or use pure ε")
    return Fraction(units, UNITS)


def _tail(t: float, log_one_over_delta: float) -> float:
    """What ε(α) adds to αρ at α = 1 + exp(t): log(1 − 1/α) + (log(1/δ) − log α)/(α − 1)."""
    log_order = math.log1p(math.exp(t))
    return t - log_order + (log_one_over_delta - log_order) / math.exp(t)


def _exact_tail(order: Decimal, delta: Fraction) -> Decimal:
    log_order = order.ln()
    return (order - 1).ln() - log_order + (-_decimal(delta).ln() - log_order) / (order - 1)


def _minimise(loss: Callable[[float], float]) -> float:
    """Golden-section search over log(α − 1).

    log δ is convex in α, hence ε(α) at fixed δ, and −ρ(α), are quasi-convex: one valley.
    """
    low, high, ratio = -40.0, 40.0, (math.sqrt(5) - 1) / 2
    a, b = high - ratio * (high - low), low + ratio * (high - low)
    at_a, at_b = loss(a), loss(b)
    for _ in range(90):
        if at_a <= at_b:
            high, b, at_b = b, a, at_a
            a = high - ratio * (high - low)
            at_a = loss(a)
        else:
            low, a, at_a = a, b, at_b
            b = low + ratio * (high - low)
            at_b = loss(b)
    return (low + high) / 2


def _decimal(exact: Fraction) -> Decimal:
    return Decimal(exact.numerator) / Decimal(exact.denominator)


def _delta(delta: Amount) -> Fraction:
    exact, _ = _number(delta, "δ")
    if not Fraction(1, 10**300) <= exact < 1:
        raise BudgetError(f"δ must lie between 1e-300 and 1, for example 1e-9, got {_shown(delta)}")
    return exact


def _units(amount: Amount, symbol: str) -> int:
    exact, rounded = _number(amount, symbol)
    if exact <= 0:
        raise BudgetError(f"{symbol} must be a finite number above 0, got {_shown(amount)}")
    if exact > LARGEST:
        raise BudgetError(f"{symbol} must be at most {LARGEST:,}, got {_shown(amount)}")
    scaled = exact * UNITS
    if scaled < 1:
        raise BudgetError(f"{symbol} must be at least 1e-12, got {_shown(amount)}")
    if scaled.denominator != 1 and not rounded:
        raise BudgetError(f"{symbol} has at most 12 decimals, got {_shown(amount)}: round it")
    return math.floor(scaled)


def _number(amount: Amount, symbol: str) -> tuple[Fraction, bool]:
    """The amount as a fraction, and whether it may be rounded (only a float may)."""
    if isinstance(amount, bool):
        raise BudgetError(f"{symbol} must be a number, got {amount}")
    if isinstance(amount, Integral):
        return Fraction(int(amount)), False
    if isinstance(amount, Fraction):
        return amount, False
    if not isinstance(amount, str | Decimal | float):
        raise BudgetError(f"{symbol} must be a number, got a value of type {type(amount).__name__}")
    text = float.__repr__(amount) if isinstance(amount, float) else str(amount).strip()
    try:
        if isinstance(amount, str) and re.fullmatch(r"\d{1,30}/\d{1,30}", text):
            return Fraction(text), False
        decimal = amount if isinstance(amount, Decimal) else Decimal(text)
    except (InvalidOperation, ZeroDivisionError):
        raise BudgetError(f"{symbol} must be a number, got {_shown(amount)}") from None
    if not decimal.is_finite():
        raise BudgetError(f"{symbol} must be a finite number above 0, got {_shown(amount)}")
    # An exponent such as 1e999999999 would be written out digit by digit.
    if decimal and not -400 < decimal.adjusted() < 400:
        raise BudgetError(f"{symbol} must lie between 1e-12 and {LARGEST:,}, got {_shown(amount)}")
    return Fraction(decimal), isinstance(amount, float)


def _shown(amount: object) -> str:
    text = str(amount)
    return text if len(text) <= 40 else text[:37] + "..."
