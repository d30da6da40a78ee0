"""Columns of very many bins, compared in fewer ones: tables and classifiers grow with the square of what they hold.

A column of 100,000 whole numbers that nobody cut has 100,000 levels, of which a table of rows fills few. Its distribution,
associations and propensity scores are those of neighbouring values together; the values themselves are compared as they are
(`raw_values`).
"""

from __future__ import annotations

from dataclasses import replace

from dipsmith.schema import Attribute, Bins, Schema
from dipsmith.schema.bins import by_edges

MOST_COMPARED = 1_000
"""Bins of a column up to which each is compared."""
COARSE = 200
"""How many bins a column of more is compared in."""


def widen_bins(schema: Schema) -> tuple[Schema, tuple[str, ...]]:
    """The schema with such columns in fewer bins, and their names; the column that orders careers is left alone.

    >>> fields = [{"name": "code", "type": "integer", "minimum": 0, "maximum": 99_999}]
    >>> schema = Schema.from_dict({"name": "t", "unit": "row", "neighbours": "replace", "fields": fields})
    >>> widen_bins(schema)[0]["code"].labels[:2], widen_bins(schema)[1]
    (('0-499', '500-999'), ('code',))
    """
    made = {a.name: _widen(a, a.domain) for a in schema if isinstance(a.domain, Bins) and a.name != schema.unit.order}
    wide = {name: attribute for name, attribute in made.items() if attribute is not None}
    if not wide:
        return schema, ()
    attributes = tuple(wide.get(a.name, a) for a in schema)
    return replace(schema, attributes=attributes, rules=()), tuple(wide)


def _widen(attribute: Attribute, domain: Bins) -> Attribute | None:
    bins = len(domain.labels)
    if bins <= MOST_COMPARED:
        return None
    at = sorted({round(i * bins / COARSE) for i in range(COARSE + 1)})
    coarse = by_edges(domain.scale, domain.cuts[at].tolist(), maximum=domain.maximum, missing=domain.missing)
    return replace(attribute, domain=replace(domain, edges=coarse.edges, labels=coarse.labels))
