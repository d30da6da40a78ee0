"""Apart: what is taken for public is not the confidential table.

A public table to grow on or to start from, a code list, public counts or totals cost nothing and are used exactly. If one of
them were the confidential file, exact facts of single persons would be released for free.

*Privacy.* Compares fingerprints, before anything is charged, and quotes no value. Whoever holds the whole table already
learns from the refusal that it is this one, and nobody else learns anything. A copy that was changed is another file: that it
is public is the steward's word.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dipsmith.errors import UsageError
from dipsmith.methods.catalogue import given_public
from dipsmith.methods.method import Method
from dipsmith.privacy.ledger import Ledger
from dipsmith.schema import Schema
from dipsmith.sources import Source
from dipsmith.sources.fingerprint import fingerprints


@dataclass(frozen=True)
class PublicInput:
    """Something that is used as public: its name, what tells it from others, and whether its cost is charged."""

    what: str
    marks: frozenset[str]
    paid: bool = False


def require_apart(
    schema: Schema, private: Sequence[Source | None], ledger: Ledger | None, method: Method | None = None
) -> None:
    """Refuse a schema that was read from confidential files, or a method that was given some as its public table."""
    tried = getattr(method, "candidates", None)
    methods = [] if method is None else [method, *(tried if isinstance(tried, tuple) else ())]
    tables = [table for table in map(given_public, methods) if table is not None]
    named = [PublicInput(name, frozenset([digest])) for name, digest in schema.named_files]
    given = [PublicInput(table.what, table.source, table.cost is not None) for table in tables]
    require_public([*named, *given], private, ledger)


def require_public(given: Iterable[PublicInput], private: Sequence[Source | None], ledger: Ledger | None) -> None:
    """Refuse what is the confidential table or one of its files, or what the ledger was charged for as confidential."""
    marked = [one for one in given if one.marks]
    own = frozenset[str]().union(*(fingerprints(rows) for rows in private if rows is not None and marked))
    for one in marked:
        if one.marks & own:
            raise UsageError(
                f"{one.what} is taken for public, but is the confidential one itself, or a file of it; give a public one, or "
                "leave it out"
            )
        known = () if ledger is None or one.paid else ledger.charged_for(one.marks)
        if known:
            raise UsageError(
                f"{one.what} is taken for public, but the ledger was charged for it as the confidential table '{known[0]}'; "
                "give a public one, or for a table beside the confidential one its cost (--public-epsilon, cost=)"
            )
