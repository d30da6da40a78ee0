"""The tables that a regression is computed from: which sets of columns have to be counted together.

Least squares needs X′X, X′y and y′y and nothing else, and each of their entries is a sum over the cross-table of the
columns that occur in two terms (of the response, the terms and the fixed effects). So terms of one column each need
all pairs of columns; a product of two needs triples; a formula that is repeated by a column needs that column in
every table, and so does a survey weight: X′WX are sums by pair and weight. A logistic regression is not determined by
these tables: it needs one of all its columns. Rows in which a column is missing are left out, so that every table has to hold
all columns that may be missing, where this does not make them too large.

Reads a formula and names of columns: public.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations_with_replacement

from dipsmith.regression.formula import RegressionFormula
from dipsmith.schema import Categories, Schema
from dipsmith.schema.analysis import PlannedAnalysis
from dipsmith.schema.formula.tree import COMPARISONS, Column, Node, Operation, nodes

Names = tuple[str, ...]

MOST_COMPLETE = 10_000
"""Cells of a table that holds columns for no other reason than that rows without them are left out."""


def tables_needed(analyses: Iterable[PlannedAnalysis], schema: Schema) -> tuple[Names, ...]:
    """The cross-tables that planned analyses need, columns in the schema's order, none of them part of another.

    >>> from dipsmith.schema import Attribute, Categories, Unit
    >>> columns = [Attribute(n, "string", Categories.of(["0", "1"], other="0")) for n in "abcy"]
    >>> tables_needed([PlannedAnalysis("y ~ a + b", model="ols")], Schema("t", tuple(columns), Unit(), "replace"))
    (('a', 'y'), ('b', 'y'), ('a', 'b'))
    >>> tables_needed([PlannedAnalysis("y ~ a:b | by c", model="ols")], Schema("t", tuple(columns), Unit(), "replace"))
    (('a', 'b', 'c', 'y'),)
    >>> tables_needed([PlannedAnalysis("y ~ a + b", model="logistic")], Schema("t", tuple(columns), Unit(), "replace"))
    (('a', 'b', 'y'),)

    Which rows are complete may depend on two terms together:

    >>> columns[3] = Attribute("y", "string", Categories.of(["0", "1"], missing=True))
    >>> tables_needed([PlannedAnalysis("y ~ a + b", model="ols")], Schema("t", tuple(columns), Unit(), "replace"))
    (('a', 'b', 'y'),)
    """
    found: dict[frozenset[str], None] = {}
    for analysis in analyses:
        formula = RegressionFormula.parse(analysis.formula, schema.names)
        by: Names = () if analysis.by is None else (schema[analysis.by].name,)
        by += () if schema.weight is None else (schema.weight,)
        if asks_for_odds(analysis, schema):
            found.setdefault(frozenset((*formula.columns, *by)))
        sets = [{*one, *other, *by} for one, other in combinations_with_replacement(parts_of(formula), 2)]
        gaps = {n for n in (*formula.columns, *by) if schema[n].domain.missing}
        complete = [names | gaps for names in sets]
        small = all(schema.size(list(names)) <= MOST_COMPLETE for names in complete)
        found |= dict.fromkeys(map(frozenset, complete if small else sets))
    rank = {name: i for i, name in enumerate(schema.names)}
    largest = [s for s in found if s and not any(s < other for other in found)]
    return tuple(tuple(sorted(s, key=rank.__getitem__)) for s in largest)


def asks_for_odds(analysis: PlannedAnalysis, schema: Schema) -> bool:
    """Whether a plan is for a logistic regression: it says so, or the response is a column of two labels or a comparison."""
    if analysis.model != "auto":
        return analysis.model == "logistic"
    response = RegressionFormula.parse(analysis.formula, schema.names).response
    if isinstance(response, Column):
        domain = schema[response.name].domain
        return isinstance(domain, Categories) and domain.size - domain.missing == 2
    return any(isinstance(n, Operation) and set(n.signs) & set(COMPARISONS) for n in nodes(response))


def parts_of(formula: RegressionFormula) -> list[Names]:
    """The columns of the response, of each term and of each fixed effect."""
    terms = [columns_of(term.factors) for term in formula.terms]
    return [columns_of([formula.response]), *terms, *formula.fixed]


def columns_of(parts: Sequence[Node]) -> Names:
    """The columns that occur in parts of a formula, each once."""
    return tuple(dict.fromkeys(n.name for part in parts for n in nodes(part) if isinstance(n, Column)))
