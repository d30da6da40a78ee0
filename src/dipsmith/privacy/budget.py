"""Budgets: how much privacy loss a run may cause, counted exactly.

A budget is `PureDP` (ε) or `ZCDP` (ρ), two currencies that never mix silently. Amounts are integers
in units of 1e-12, so that adding, splitting and comparing them is exact: no sum of parts ever
exceeds the whole by a rounding error. What is *given* is rounded down (a budget is never larger than
what was stated); what is *charged* is rounded up (`dipsmith.privacy.accountant`).

A ρ is *Gaussian*: what is spent of it tells no more than normal noise with Δ²/(2σ²) = ρ does, in every test that
anyone can think of. That is stronger than ρ-zCDP, which it implies, and it makes the way from (ε, δ) to ρ and back
exact (`dipsmith.privacy.gaussian_profile`): what was granted as (ε, δ) is used whole.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import total_ordering
from numbers import Integral
from typing import ClassVar, Literal, Self

from dipsmith.errors import BudgetError
from dipsmith.privacy.gaussian_profile import largest_rho, smallest_epsilon

Amount = int | str | Decimal | Fraction | float
Currency = Literal["epsilon", "rho"]

UNITS = 10**12
"""Units in an ε or ρ of 1."""

LARGEST = 10**9
"""The largest ε or ρ that is accepted; anything near it protects nobody."""


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
            raise BudgetError(f"{cls.symbol} is counted in whole units of 1e-12 above 0, got {_abridge(units)}")
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
    """ρ, exact to 12 decimals: Gaussian differential privacy with μ² = 2ρ, and so zero-concentrated with ρ.

    (Dong, Roth and Su 2022; Bun and Steinke 2016.) Takes the same input as `PureDP`. `stated` is the (ε, δ) it was
    derived from, for display only; None when ρ itself was given.

    >>> print(ZCDP.from_approx(1, 1e-9))
    ρ = 0.01656 (ε = 1, δ = 1e-09)
    """

    stated: tuple[float, float] | None = field(compare=False)
    currency: ClassVar[Literal["rho"]] = "rho"
    symbol: ClassVar[str] = "ρ"

    def __init__(self, rho: Amount) -> None:
        _Amount.__init__(self, rho)
        object.__setattr__(self, "stated", None)

    @classmethod
    def from_approx(cls, epsilon: Amount, delta: Amount) -> ZCDP:
        """The largest ρ, rounded down, that implies (ε, δ)-differential privacy: no other budget of these is larger."""
        budget = cls(approx_to_rho(epsilon, delta))
        object.__setattr__(budget, "stated", (float(PureDP(epsilon).exact), float(exact_delta(delta))))
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


def option_of(budget: Budget) -> str:
    """A budget as the command line takes it."""
    return f"{'--epsilon' if budget.currency == 'epsilon' else '--rho'} {decimal_text(budget.units)}"


def of_units(currency: str, units: int) -> Budget:
    """A budget of so many units of 1e-12 in the named currency."""
    if currency not in ("epsilon", "rho"):
        raise BudgetError(f"currency '{currency}' is unknown: expected 'epsilon' or 'rho'")
    return (PureDP if currency == "epsilon" else ZCDP).of_units(units)


def budget_in(currency: str, amount: Amount) -> Budget:
    """An amount in the named currency."""
    return PureDP(amount) if currency == "epsilon" else ZCDP(amount)


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


def rho_to_approx(rho: ZCDP | Amount, delta: Amount) -> float:
    """The smallest ε, rounded up, such that ρ implies (ε, δ)-differential privacy.

    >>> rho_to_approx(0.01656, 1e-9) > 1 > rho_to_approx(0.01655, 1e-9)
    True
    """
    return smallest_epsilon((rho if isinstance(rho, ZCDP) else ZCDP(rho)).exact, exact_delta(delta))


def approx_to_rho(epsilon: Amount, delta: Amount) -> Fraction:
    """The largest ρ, rounded down to 1e-12, that implies (ε, δ)-differential privacy.

    >>> round(float(approx_to_rho(1, 1e-9)), 5)
    0.01656
    """
    budget, d = PureDP(epsilon), exact_delta(delta)
    units = largest_rho(budget.exact, d, UNITS)
    if units < 1:
        shown = f"ε = {float(budget.exact):g} with δ = {float(d):g}"
        raise BudgetError(f"{shown} allows less than ρ = 1e-12: raise ε or δ, or use pure ε")
    return Fraction(min(units, LARGEST * UNITS), UNITS)


def exact_delta(delta: Amount) -> Fraction:
    """δ without rounding; refused unless it lies between 1e-300 and 1."""
    exact, _ = _number(delta, "δ")
    if not Fraction(1, 10**300) <= exact < 1:
        raise BudgetError(f"δ must lie between 1e-300 and 1, for example 1e-9, got {_abridge(delta)}")
    return exact


def _units(amount: Amount, symbol: str) -> int:
    exact, rounded = _number(amount, symbol)
    if exact <= 0:
        raise BudgetError(f"{symbol} must be a finite number above 0, got {_abridge(amount)}")
    if exact > LARGEST:
        raise BudgetError(f"{symbol} must be at most {LARGEST:,}, got {_abridge(amount)}")
    scaled = exact * UNITS
    if scaled < 1:
        raise BudgetError(f"{symbol} must be at least 1e-12, got {_abridge(amount)}")
    if scaled.denominator != 1 and not rounded:
        raise BudgetError(f"{symbol} has at most 12 decimals, got {_abridge(amount)}: round it")
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
        raise BudgetError(f"{symbol} must be a number, got {_abridge(amount)}") from None
    if not decimal.is_finite():
        raise BudgetError(f"{symbol} must be a finite number above 0, got {_abridge(amount)}")
    # An exponent such as 1e999999999 would be written out digit by digit.
    if decimal and not -400 < decimal.adjusted() < 400:
        raise BudgetError(f"{symbol} must lie between 1e-12 and {LARGEST:,}, got {_abridge(amount)}")
    return Fraction(decimal), isinstance(amount, float)


def _abridge(amount: object) -> str:
    text = str(amount)
    return text if len(text) <= 40 else text[:37] + "..."
