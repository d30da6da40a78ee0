"""Tables with many columns: how much a link adds to a model is bounded without triangulating anew, and AIM ends."""

from itertools import combinations

import numpy as np
import pytest

from dipsmith.methods.graph.aim import AIM
from dipsmith.methods.graph.candidates import MANY_COLUMNS
from dipsmith.methods.graph.junction import JunctionTree, cells_needed, link_growth
from dipsmith.privacy.budget import ZCDP
from dipsmith.privacy.curator import Curator
from dipsmith.schema import Codes, Schema


def test_the_bound_holds_what_a_link_adds():
    """Against triangulation: never below it by more than a greedy order may lose, and often equal."""
    random, equal, pairs = np.random.default_rng(4), 0, 0
    for _ in range(40):
        names = [f"c{i}" for i in range(8)]
        sizes = {n: int(random.integers(2, 7)) for n in names}
        links = [tuple(random.choice(names, 2, replace=False)) for _ in range(int(random.integers(0, 10)))]
        tree = JunctionTree.of(sizes, links)
        for one, other in combinations(names, 2):
            growth = min(link_growth(tree, one)[other], link_growth(tree, other)[one])
            needed = cells_needed(sizes, [*links, (one, other)])
            held = tree.find_clique((one, other)) is not None
            assert (growth == 0) == held
            assert needed <= 1.5 * (tree.cells + growth)
            equal += needed == tree.cells + growth
            pairs += 1
    assert equal > 0.2 * pairs


@pytest.mark.slow
def test_a_wide_table_is_modelled_within_its_cells():
    columns = MANY_COLUMNS + 2
    fields = [
        {"name": f"c{i}", "type": "string", "enum": list("abcd")[: 2 + i % 3], "other": "a"} for i in range(columns)
    ]
    schema = Schema.from_dict({"name": "w", "unit": "row", "neighbours": "replace", "fields": fields})
    random = np.random.default_rng(1)
    codes = {"c0": random.integers(0, 2, 3_000)}
    for i in range(1, columns):
        follow = random.random(3_000) < 0.8
        codes[f"c{i}"] = np.where(follow, codes[f"c{i - 1}"] % (2 + i % 3), random.integers(0, 2 + i % 3, 3_000))
    model = AIM(rounds=24, max_cells=4_000).fit(Curator.rehearse(Codes.of(schema, codes, 3_000), ZCDP("0.5"), seed=2))
    assert model.tree.cells <= 1.5 * 4_000
    drawn = model.sample(3_000, seed=1)
    # Neighbours in the chain are related: agreement is far from that of independent columns.
    together = np.mean([drawn[f"c{3 * i}"] == drawn[f"c{3 * i + 1}"] % 2 for i in range(1, 11)])
    assert together > 0.55
