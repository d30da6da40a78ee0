"""Which method to use, from public facts alone: attributes, domain sizes, rows, budget, relation.

Every method may say how well it suits a table (`suits`), from how it spends; the best of them is suggested.
"""

from __future__ import annotations

from dataclasses import dataclass

from dipsmith.errors import UnsupportedError
from dipsmith.methods.catalogue import METHODS
from dipsmith.methods.outlook import Suitability
from dipsmith.privacy.budget import Budget
from dipsmith.schema import Schema

ASSUMED_ROWS = 10_000


@dataclass(frozen=True)
class Suggestion:
    """A method's name and the reason in one sentence."""

    method: str
    reason: str


def suggest(schema: Schema, budget: Budget, rows: int | None = None, *, analyses: bool = False) -> Suggestion:
    """The method to try first; with `analyses`, of whole rows, one that measures what planned regressions need.

    >>> from dipsmith.privacy.budget import PureDP
    >>> from dipsmith.schema import Attribute, Categories, Unit
    >>> sex = Attribute("sex", "string", Categories.of("FM", other="M"))
    >>> suggest(Schema("t", (sex,), Unit(), "replace"), PureDP(1), 1000).method
    'flat'
    """
    n = ASSUMED_ROWS if rows is None else max(rows, 1)
    found: list[tuple[Suitability, str]] = []
    for name, method in METHODS.items():
        able = schema.neighbours in getattr(method, "relations", ())
        able = able and (schema.members is None or getattr(method, "makes_members", False))
        suits = getattr(method, "suits", None) if able else None
        suitability = None if suits is None else suits(schema, budget, n)
        if suitability is not None and (
            not analyses or schema.neighbours == "label" or hasattr(method, "for_analyses")
        ):
            found.append((suitability, name))
    if not found:
        told = " and takes planned analyses into account" if analyses else ""
        raise UnsupportedError(f"no installed method suits neighbours '{schema.neighbours}'{told}")
    best, name = max(found, key=lambda pair: pair[0].rank)
    assumed = f" (assuming {n:,} rows; give --rows)" if rows is None and schema.neighbours != "label" else ""
    return Suggestion(name, best.reason + assumed)
