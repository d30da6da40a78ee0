"""Checks of a method's parameters, each written once: what was got, and what was expected."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Protocol

from dipsmith.errors import UsageError


class HasName(Protocol):
    """Anything with a name: a method."""

    @property
    def name(self) -> str:
        """How messages call it."""


def require_shares(method: HasName, *names: str) -> None:
    """Raise unless these parameters are positive shares of a budget that leave something over."""
    shares = [getattr(method, name) for name in names]
    if not (all(share > 0 for share in shares) and sum(shares) < 1):
        found = " and ".join(f"{name} is {share}" for name, share in zip(names, shares, strict=True))
        wanted = "positive shares below 1 in sum" if len(names) > 1 else "a share between 0 and 1"
        raise UsageError(f"{method.name}: {found}, expected {wanted}")


def require_least(method: HasName, least: int, *names: str) -> None:
    """Raise unless these parameters are at least so large; None stands for a default."""
    for name in names:
        value = getattr(method, name)
        if value is not None and (isinstance(value, bool) or not value >= least):
            raise UsageError(f"{method.name}: {name} is {value}, expected {least} or more")


def require_one_of(method: HasName, name: str, options: Collection[str]) -> None:
    """Raise unless a parameter is one of the options."""
    if getattr(method, name) not in options:
        listed = " or ".join(f"'{option}'" for option in options)
        raise UsageError(f"{method.name}: {name} is '{getattr(method, name)}', expected {listed}")


def freeze_names(method: HasName, *names: str) -> None:
    """Make these parameters tuples of column names; one name stands for itself, None for a default."""
    for name in names:
        value = getattr(method, name)
        if value is not None:
            object.__setattr__(method, name, (value,) if isinstance(value, str) else tuple(value))


def as_groups(groups: Iterable[str | Iterable[str]]) -> tuple[tuple[str, ...], ...]:
    """Groups of column names as tuples; one name is a group of its own."""
    return tuple((group,) if isinstance(group, str) else tuple(group) for group in groups)
