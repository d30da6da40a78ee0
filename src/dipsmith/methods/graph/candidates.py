"""The marginals that AIM may choose, those of its workload and all below them that the model has room for; their scores.

Privacy: knows public sizes and a model made from noisy answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import combinations

from dipsmith.methods.graph.entropy import EntropyFit
from dipsmith.methods.graph.junction import Attributes, JunctionTree, cell_counter, link_growth
from dipsmith.methods.graph.misfit import Misfit, noise_left, relative_shares
from dipsmith.methods.graph.model import COUNTED_CELLS, within_cells
from dipsmith.methods.graph.queries import marginal, pairs
from dipsmith.methods.graph.wide import drawn_tables, handicap
from dipsmith.schema import Schema

MANY_COLUMNS = 32
"""From so many columns on it is not found by triangulation how large the model becomes with a pair, but by a bound."""


def workload_weights(
    schema: Schema, degree: int, given: Sequence[Sequence[str]] | None, max_cells: int
) -> dict[Attributes, float]:
    """The candidates, and how much of the workload each overlaps (at most 1).

    The workload is what is `given`, else all sets of `degree` columns.
    """
    if given is None:
        workload = list(combinations(schema.names, min(degree, len(schema.names))))
    else:
        rank = {name: i for i, name in enumerate(schema.names)}
        for name in (n for w in given for n in w):
            schema[name]
        workload = [tuple(sorted(set(w), key=rank.__getitem__)) for w in given]
    below = {c for w in workload for size in range(1, len(w) + 1) for c in combinations(w, size)}
    fitting = sorted((c for c in below if schema.size(c) <= max_cells), key=lambda c: (len(c), c))
    kept = within_cells(schema, fitting, COUNTED_CELLS)
    asked = Counter(name for w in workload for name in w)
    overlap = {c: float(sum(asked[name] for name in c)) for c in kept}
    most = max(overlap.values(), default=1.0)
    return {c: o / most for c, o in overlap.items()}


def fitting_candidates(
    candidates: Mapping[Attributes, float],
    tree: JunctionTree,
    linked: Sequence[Collection[str]],
    done: float,
    max_cells: int,
    refused: set[Attributes],
) -> list[Attributes]:
    """The candidates with which the model stays within its limit, which opens with the share of the budget that is `done`.

    The model only grows: what would never fit is put into `refused` and not looked at again.
    """
    limit = max(done * max_cells, tree.cells)
    together = {pair for clique in tree.cliques for pair in combinations(sorted(clique), 2)}
    growth = {n: link_growth(tree, n) for n in tree.sizes} if len(tree.sizes) > MANY_COLUMNS else {}
    needed = cell_counter(tree.sizes, linked)
    fitting = []
    for c in candidates:
        if len(c) == 1 or (tuple(sorted(c)) in together if len(c) == 2 else tree.find_clique(c) is not None):
            fitting.append(c)
        elif c not in refused:
            bounded = growth and len(c) == 2
            cells = tree.cells + min(growth[c[0]][c[1]], growth[c[1]][c[0]]) if bounded else needed(c)
            if cells <= limit:
                fitting.append(c)
            elif cells > max_cells:
                refused.add(c)
    return fitting


def score_candidates(
    schema: Schema,
    fitted: EntropyFit,
    candidates: list[Attributes],
    weights: dict[Attributes, float],
    sd: float,
    doubts: Mapping[Attributes, float],
    currency: str,
) -> tuple[Misfit, dict[Attributes, float]]:
    """Misfit of the current model, less the noise to come, and less a handicap of larger sets, which have `doubts`.

    Also the share of every candidate: how many times the budget of an average one it will get if it is chosen.
    """
    two_way = pairs(fitted.tree, fitted.beliefs, candidates)
    drawn = [c for c in candidates if c in doubts]
    expected = drawn_tables(schema, fitted, drawn) if drawn else {}
    for c in (c for c in candidates if c not in doubts):
        table = two_way[c[0], c[1]] if len(c) == 2 else marginal(fitted.tree, fitted.beliefs, c)
        expected[c] = fitted.total * table
    reached = {c: noise_left(table, sd) / (sd or 1.0) for c, table in expected.items()}
    shares = relative_shares(reached, [c for c in candidates if c not in doubts and len(c) > 1], currency)
    power = 1.0 if currency == "epsilon" else 0.5
    cost = {c: noise_left(table, sd / shares[c] ** power) for c, table in expected.items()}
    bonus = {c: -handicap(expected[c], fitted.total) - doubts[c] for c in candidates if c in doubts}
    return Misfit(schema, expected, cost=cost, weights={c: weights[c] for c in candidates}, bonus=bonus), shares
