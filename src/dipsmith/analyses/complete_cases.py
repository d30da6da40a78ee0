"""Complete cases: noisy tables of the rows in which no column of a formula is missing.

A regression leaves out the rows in which a column is missing. Of a table that holds every column that may be missing these
rows are whole cells: without the cells of missing values it is a noisy table of the complete rows, each of its counts with
the noise that it had. Tables that hold some of those columns alone do not tell which of their rows are complete.

Privacy
-------
Reads noisy tables and the schema: post-processing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from dipsmith.analyses.agreed_tables import Float, NoisyMarginal
from dipsmith.regression.formula import RegressionFormula
from dipsmith.schema import Attribute, Schema


def never_missing(formula: RegressionFormula, by: str | None = None) -> list[str]:
    """The columns without which a row is left out: all that a formula names.

    >>> never_missing(RegressionFormula.parse("pay ~ sex | agency", ["pay", "sex", "agency", "year"]), "year")
    ['pay', 'sex', 'agency', 'year']
    """
    return [*formula.columns, *((by,) if by else ())]


def complete_cases(
    schema: Schema, tables: Iterable[NoisyMarginal], rows: int | None, names: Iterable[str]
) -> tuple[Schema, list[NoisyMarginal], int | None]:
    """The schema and the tables of the rows in which none of some columns is missing: what was given, where none may be.

    A public number of rows says nothing of how many are complete: there it is None.
    """
    gaps = [name for name in dict.fromkeys(names) if schema[name].domain.missing]
    if not gaps:
        return schema, list(tables), rows
    attributes = tuple(_always_known(a) if a.name in gaps else a for a in schema.attributes)
    known = replace(schema, attributes=attributes, rules=(), analyses=())
    return known, [_cut(t, schema, gaps) for t in tables if set(gaps) <= set(t.attributes)], None


def _always_known(attribute: Attribute) -> Attribute:
    return replace(attribute, domain=replace(attribute.domain, missing=False))


def _cut(table: NoisyMarginal, schema: Schema, gaps: Sequence[str]) -> NoisyMarginal:
    def known(values: Float) -> Float:
        for name in gaps:
            code = schema[name].domain.missing_code
            assert code is not None
            values = np.delete(values, code, axis=table.attributes.index(name))
        return values

    return replace(table, values=known(table.values), variance=known(table.variance))
