"""Exact privacy loss on small domains: every table, every neighbour, every outcome.

No sampling: the probabilities are those of the formulas that the samplers were proved to follow (`tests/privacy`).
"""

import math
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from scipy.special import logsumexp

from dipsmith.counting.count import MemoryRows
from dipsmith.methods.forest.training import Dependence
from dipsmith.methods.graph.association import Association, MutualInformation
from dipsmith.methods.graph.misfit import Misfit
from dipsmith.methods.graph.prior import Disagreement
from dipsmith.methods.hierarchy.importance import Contrast, InformationCriterion, MisplacedRows
from dipsmith.privacy.budget import ZCDP, PureDP
from dipsmith.privacy.calibration import noise_for
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.draws import laplace_tables
from dipsmith.privacy.events import Chosen
from dipsmith.privacy.noise import DiscreteLaplace
from dipsmith.privacy.repetition import Repetitions
from dipsmith.schema import Attribute, Categories, Codes, Marginal, Schema, Unit
from selection_law import selection_probabilities

ROWS = list(product(range(2), repeat=3))
PAIRS = [("a", "b"), ("a", "c"), ("b", "c")]


@cache
def schema(relation):
    role = {"a": "public", "b": "public", "c": "private"}
    return Schema(
        "t",
        tuple(Attribute(n, "string", Categories.of("01", other="0"), role[n]) for n in "abc"),
        Unit(),
        relation,
    )


def tables(relation, most):
    """All tables of up to `most` rows, and of each its neighbours (once)."""
    sizes = range(most + 1) if relation == "add-remove" else (most,)
    for n in sizes:
        for rows in combinations_with_replacement(range(len(ROWS)), n):
            if relation == "add-remove":
                if n < most:
                    yield from ((rows, (*rows, new)) for new in range(len(ROWS)))
                continue
            for i in range(n):
                for new in range(len(ROWS)):
                    public = ROWS[new][:2] == ROWS[rows[i]][:2]
                    if new > rows[i] and (relation == "replace" or public):
                        yield rows, (*rows[:i], new, *rows[i + 1 :])


@cache
def held(relation, rows):
    columns = np.array([ROWS[r] for r in rows], dtype=int).reshape(-1, 3).T
    return MemoryRows(Codes.of(schema(relation), dict(zip("abc", columns, strict=True)), len(rows)))


def scores_of(score, candidates, relation, rows):
    counted = held(relation, tuple(sorted(rows)))
    return np.array([score.value(c, counted.count(score.tables(c))) for c in candidates])


def scores(relation):
    """Every score class of the package with its candidates."""
    s = schema(relation)
    expected = {p: np.array([0.7, 0.1, 0.3, 0.9]) for p in PAIRS}
    singles = [("a",), ("b",), ("c",)]
    if relation == "label":
        dependence = Dependence(s, ("c",), np.array([0.3, 0.7]), {"a": 0.1, "b": 0.2})
        return [(dependence, ["a", "b"])]
    families = [("b", ("a",)), ("c", ("a",)), ("c", ("b",)), ("c", ())]
    each = MisplacedRows(s, dict.fromkeys(singles, 0.2))
    found = [
        (Misfit(s, expected, cost={PAIRS[0]: 0.4}, weights={PAIRS[1]: 0.5}), PAIRS),
        (Disagreement(s, {None: expected, 0.5: {p: m[::-1] + 0.4 for p, m in expected.items()}}), [None, 0.5]),
        (Association(s, {f: 0.1 for f in families if f[1]}), families),
        (Dependence(s, ("c",), np.array([0.3, 0.7]), {"a": 0.1, "b": 0.2}), ["a", "b"]),
        (InformationCriterion(s), singles),
        (InformationCriterion(s, ("a",)), singles[1:]),
        (each, singles),
        (Contrast(each, ("a", "b", "c")), [("a",), ("a", "b")]),
    ]
    if relation == "replace":
        found.append((MutualInformation(s, 3), families[:3]))
    return found


@pytest.mark.parametrize("relation", ["add-remove", "replace", "label"])
def test_choose_loses_at_most_epsilon_on_every_small_table(relation):
    """Every score class; every table of up to 3 rows over 2 × 2 × 2, every neighbour; both laws."""
    pairs = list(dict.fromkeys((tuple(sorted(a)), tuple(sorted(b))) for a, b in tables(relation, 3)))
    assert len(pairs) > 100
    for score, candidates in scores(relation):
        sensitivity = score.sensitivity(relation, 1)
        seen = {}
        for rows in {rows for pair in pairs for rows in pair}:
            seen[rows] = scores_of(score, candidates, relation, rows)
        worst, reached = 0.0, 0.0
        tried = {}
        for one, other in pairs:
            moved = np.abs(seen[one] - seen[other]).max()
            worst = max(worst, moved)
            key = (seen[one].tobytes(), seen[other].tobytes())
            if key not in tried and moved > 0.5 * float(sensitivity):
                tried[key] = loss(seen[one], seen[other], sensitivity, score.monotone(relation))
        reached = max(tried.values(), default=0.0)
        assert worst <= float(sensitivity) + 1e-9, score.name
        assert reached <= 1 + 1e-9, score.name


def loss(one, other, sensitivity, monotone, law="permute-and-flip", epsilon=Fraction(1)):
    p, q = (
        selection_probabilities(s, sensitivity, epsilon, monotone=monotone, law=law, digits=25) for s in (one, other)
    )
    return max(abs(float(x.ln() - y.ln())) for x, y in zip(p, q, strict=True))


class Tally:
    """A score that one row moves by its whole sensitivity, each candidate its own way."""

    name = "tally"

    def tables(self, candidate):
        return [candidate]

    def value(self, candidate, counts):
        return float(counts[0][-1]) * (1 if candidate.attributes == ("a",) else -1)

    def sensitivity(self, relation, max_rows):
        return Fraction(1)

    def monotone(self, relation):
        return False


@pytest.mark.parametrize("budget", [PureDP("0.7"), ZCDP("0.08")], ids=str)
def test_choose_costs_what_it_is_charged(budget, monkeypatch):
    """The law and ε that the curator really uses: nearly all that is charged is reached, never more."""
    s = schema("add-remove")
    used = []
    monkeypatch.setattr(
        "dipsmith.privacy.curator.select",
        lambda stream, scores, sensitivity, epsilon, *, monotone, law: (
            used.append((scores, sensitivity, epsilon, monotone, law)) or 0
        ),
    )
    for rows in ((0,), (0, 7)):
        curator = Curator.rehearse(held("add-remove", rows).codes, budget, seed=1)
        curator.choose([Marginal.of(s, ["a"]), Marginal.of(s, ["b"])], Tally(), budget)
        (event,) = curator._journal.events
        assert isinstance(event, Chosen)
    (one, sensitivity, epsilon, monotone, law), (other, *_) = used
    p, q = (selection_probabilities(x, sensitivity, epsilon, monotone=monotone, law=law) for x in (one, other))
    ratios = [float(x.ln() - y.ln()) for x, y in zip(p, q, strict=True)]
    pure = isinstance(budget, PureDP)
    cost = max(abs(r) for r in ratios) if pure else math.pi * (max(ratios) - min(ratios)) ** 2 / 16
    charged = float(budget.exact)
    assert 0.55 * charged < cost <= charged


@pytest.mark.parametrize("relation", ["add-remove", "replace", "label"])
@pytest.mark.parametrize("epsilon", ["0.3", "1", "4"])
def test_a_noisy_table_loses_exactly_epsilon(relation, epsilon):
    """sup over all outputs of log P(out | table)/P(out | neighbour) = Σ|c − c′|/scale, reached, on every small table."""
    s = schema(relation)
    cells = Marginal.of(s, ["a", "b"] if relation != "label" else ["a", "c"])
    single = relation == "label"
    law = noise_for(relation, 1, PureDP(epsilon), single=single)
    most = 0.0
    for one, other in tables(relation, 2):
        counts = [held(relation, tuple(sorted(rows))).count([cells])[0] for rows in (one, other)]
        if single:
            counts = [c.reshape(-1, 2)[:, 1] for c in counts]
        # Each cell's log-ratio is largest at an output beyond both counts, where it is their difference over the scale.
        lost = 0.0
        for c, d in zip(*counts, strict=True):
            at = np.arange(-30, 31)
            ratio = np.log(law.pmf(at - c)) - np.log(law.pmf(at - d))
            lost += float(np.abs(ratio).max())
        most = max(most, lost)
    assert most == pytest.approx(float(epsilon), abs=1e-9)


@pytest.mark.parametrize("relation", ["add-remove", "replace", "label"])
def test_a_noisy_table_costs_rho(relation):
    """Rényi divergence of every order α ≤ 30 between neighbouring noisy tables is at most αρ."""
    rho = ZCDP("0.4")
    s = schema(relation)
    cells = Marginal.of(s, ["a", "b"] if relation != "label" else ["a", "c"])
    rate = 1 / (2 * float(noise_for(relation, 1, rho, single=relation == "label").sigma2))
    at = np.arange(-400, 401)
    weight = logsumexp(-rate * at**2)
    worst = 0.0
    for one, other in tables(relation, 2):
        counts = [held(relation, tuple(sorted(rows))).count([cells])[0] for rows in (one, other)]
        if relation == "label":
            counts = [c.reshape(-1, 2)[:, 1] for c in counts]
        for alpha in (1.01, 2.0, 5.0, 30.0):
            total = 0.0
            for c, d in zip(*counts, strict=True):
                p, q = (-rate * (at - x) ** 2 - weight for x in (c, d))
                total += float(logsumexp(alpha * p + (1 - alpha) * q)) / (alpha - 1)
            assert total <= alpha * float(rho.exact) * (1 + 1e-6)
            worst = max(worst, total / (alpha * float(rho.exact)))
    # The noise is a sixth of a count wider than ρ-zCDP alone would need.
    assert worst > 0.7


@pytest.mark.parametrize("scale", ["1/2", "3/2"])
def test_the_sampler_s_table_lies_within_its_law(scale):
    """All 65 536 buckets: what 16 bits settle of each outcome never exceeds its probability, in exact arithmetic."""
    law = DiscreteLaplace(Fraction(scale))
    tables = laplace_tables(law.scale)
    lookups = [x for x in vars(tables).values() if type(x).__name__ == "Lookup"]
    assert lookups
    for lookup in lookups:
        settled = np.bincount(lookup.outcomes[lookup.outcomes > -32768] - lookup.origin)
        bits = 200
        bounds = [0, *(lo for lo, _ in lookup.boundaries(bits)), 1 << bits]
        highs = [0, *(hi for _, hi in lookup.boundaries(bits)), 1 << bits]
        open_buckets = int((lookup.outcomes == -32768).sum())
        for j, n in enumerate(settled):
            most = Fraction(highs[j + 1] - bounds[j], 1 << bits)
            least = Fraction(bounds[j + 1] - highs[j], 1 << bits)
            assert Fraction(int(n), 1 << 16) <= most
            assert Fraction(int(n) + open_buckets, 1 << 16) >= least


@pytest.mark.parametrize("eta", [Fraction(0), Fraction(1)])
@pytest.mark.parametrize("mean", [2.0, 6.0])
def test_private_selection_loses_at_most_its_price(eta, mean):
    """Six outcomes by rising score, some rare; every pattern of which are likelier in the other world, by e^ε₀ at most.

    A selection tells at least what one run tells, and never more than its price; mechanisms that come close to the
    price are in `tests/tuning/test_repetition.py`.
    """
    epsilon = 0.5
    law = Repetitions.with_mean(mean, eta)
    chances = np.array([p for p, _ in zip(law.probabilities(), range(400), strict=False)])
    assert chances.sum() > 1 - 1e-9
    price = float(law.price(PureDP(epsilon)).exact)
    base = np.array([0.6, 0.3, 0.06, 0.03, 0.009, 0.001])
    most = 0.0
    for pattern in product((-1, 1), repeat=len(base)):
        other = base * np.exp(np.array(pattern) * epsilon / 2)
        other /= other.sum()
        assert np.abs(np.log(other / base)).max() <= epsilon + 1e-12
        ratios = np.log(best_of(base, chances) / best_of(other, chances))
        most = max(most, float(np.abs(ratios).max()))
    assert 0.9 * epsilon < most <= price + 1e-9


def best_of(p, chances):
    """The law of the best of K runs: Σ_k P(K = k)·(F(y)^k − F(y−)^k)."""
    upto = np.minimum(np.cumsum(p), 1.0)
    below = np.append(0.0, upto[:-1])
    k = np.arange(1, len(chances) + 1)[:, None]
    return (chances[:, None] * (upto**k - below**k)).sum(axis=0) / chances.sum()
