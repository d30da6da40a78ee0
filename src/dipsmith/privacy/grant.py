"""A grant: so much may be spent on a dataset, by whose decision and what for.

It may state which columns are private, before the first spend or for a dataset that spent under a
ledger which did not note them; every later spend must agree.
"""

from __future__ import annotations

import getpass
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dipsmith.errors import UsageError
from dipsmith.privacy.budget import Budget, budget_from, budget_record, check_budget
from dipsmith.privacy.protection import column_set


@dataclass(frozen=True, slots=True)
class Grant:
    """An amount that somebody allowed to be spent on a dataset.

    `private` are the columns that it says are private under `label`; `signed` whether the ledger holds a signature for it.
    """

    budget: Budget
    stated: str
    by: str
    why: str
    time: str = ""
    private: tuple[str, ...] | None = None
    signed: bool = False


def grant_record(
    name: str, budget: Budget, by: str | None, why: str, private: Sequence[str] | None
) -> dict[str, Any]:
    """A grant as it is written in the ledger and signed; refuses what cannot be one."""
    check_budget(budget)
    record: dict[str, Any] = {
        "name": line(name, "the dataset's name"),
        "budget": budget_record(budget),
        "stated": str(budget),
        "by": who(by),
        "why": line(why, "why", empty=True),
    }
    if private is not None:
        record["private"] = [line(column, "a private column's name") for column in column_set(private)]
    return record


def grant_from(record: Mapping[str, Any], time: str) -> Grant:
    """The grant back from `grant_record`."""
    return Grant(
        budget_from(record["budget"]),
        record["stated"],
        record["by"],
        record["why"],
        time,
        column_set(record["private"]) if "private" in record else None,
        "signed" in record,
    )


def line(text: str, what: str, empty: bool = False) -> str:
    """A text itself, if it is one printable line."""
    if not (text or empty) or not (text.isprintable() and len(text) <= 1000):
        raise UsageError(f"{what} must be one line of at most 1000 printable characters")
    return text


def who(by: str | None) -> str:
    """Who acts: as stated, or the OS user."""
    if by is not None:
        return line(by, "by")
    try:
        return line(getpass.getuser(), "the user's name")
    except (KeyError, OSError, ImportError, UsageError):
        return f"uid {os.getuid()}" if hasattr(os, "getuid") else "unknown"
