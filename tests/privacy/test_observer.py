"""What an observer sees of a run, what it may replace, and that nobody observes a run that is private."""

import inspect
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import dipsmith
from dipsmith.counting.count import MemoryRows
from dipsmith.errors import UsageError
from dipsmith.methods.hierarchy.flat import Flat
from dipsmith.privacy.budget import ZCDP, PureDP
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.events import Rehearsal
from dipsmith.privacy.ledger import Ledger
from dipsmith.privacy.noise import DiscreteLaplace
from dipsmith.privacy.randomness import Stream
from dipsmith.privacy.repetition import Repetitions
from dipsmith.schema import Attribute, Categories, Codes, Marginal, Schema, Unit


class Watcher:
    """Keeps what it is told, and what happened while nothing was answered."""

    def __init__(self):
        self.facts, self.noise, self.verbs, self.strays, self.open = [], [], [], [], []

    @contextmanager
    def answering(self, question):
        self.verbs.append(question)
        self.open.append(question.verb)
        try:
            yield
        finally:
            self.open.pop()

    def on_table(self, fact):
        self.facts.append(fact)
        return fact.answer

    def on_choice(self, fact):
        self.facts.append(fact)
        return fact.winner

    def on_public_answer(self, fact):
        self.facts.append(fact)

    def on_noise(self, law, noise):
        self.noise.append((law, noise.ravel().copy()))
        return noise

    def on_randomness(self, what, drawn):
        self.facts.append((what, drawn))
        return drawn

    def on_draw(self, count):
        if not self.open:
            self.strays.append(f"{count} bytes")

    def on_read(self, what):
        if not self.open:
            self.strays.append(what)


class Size:
    """A score: the number of rows."""

    name = "size"

    def tables(self, candidate):
        return [candidate]

    def value(self, candidate, counts):
        return float(counts[0].sum() * len(candidate.attributes))

    def sensitivity(self, relation, max_rows):
        return Fraction(2)

    def monotone(self, relation):
        return True


def schema_of(relation):
    roles = ("public", "private") if relation == "label" else ("private", "private")
    return Schema(
        "t",
        (
            Attribute("a", "string", Categories.of("xy"), role=roles[0]),
            Attribute("b", "string", Categories.of("uvw"), role=roles[1]),
        ),
        Unit(),
        relation,
    )


def codes_of(relation="add-remove"):
    return Codes.of(schema_of(relation), {"a": np.array([0, 0, 1]), "b": np.array([0, 1, 2])})


def watched(watcher, relation="add-remove", budget=None):
    return Curator.rehearse(codes_of(relation), budget or PureDP(1), seed=1, observer=watcher)


def both(curator):
    return Marginal.of(curator.schema, ("a", "b"))


def test_a_table_is_told_with_its_counts_and_its_noise():
    watcher = Watcher()
    curator = watched(watcher)
    (answer,) = curator.measure([both(curator)], [PureDP(1)])
    (fact,) = [f for f in watcher.facts if hasattr(f, "true")]
    ((law, noise),) = watcher.noise
    assert fact.true.tolist() == [1, 1, 0, 0, 0, 1]
    assert fact.answer is answer
    assert law == DiscreteLaplace(Fraction(1))
    assert np.array_equal(answer.values, fact.true + noise)
    assert fact.noisy_cells().tolist() == list(range(6))
    assert watcher.strays == []


def test_a_table_too_large_to_hold_is_told_with_its_occupied_cells():
    watcher = Watcher()
    curator = watched(watcher)
    curator.measure([both(curator)], [PureDP(1)], keep_above=-(10**6))
    (fact,) = [f for f in watcher.facts if hasattr(f, "true")]
    assert fact.occupied.tolist() == [0, 1, 5]
    assert fact.true.tolist() == [1, 1, 1]
    assert np.array_equal(fact.answer.values[fact.occupied], fact.true + watcher.noise[0][1][fact.occupied])


@pytest.mark.parametrize(("budget", "law"), [(PureDP(1), "permute-and-flip"), (ZCDP("0.5"), "exponential")])
def test_a_choice_is_told_with_its_exact_scores(budget, law):
    watcher = Watcher()
    curator = watched(watcher, budget=budget)
    candidates = [both(curator), Marginal.of(curator.schema, ("a",))]
    chosen = curator.choose(candidates, Size(), budget)
    (fact,) = [f for f in watcher.facts if hasattr(f, "scores")]
    asked = watcher.verbs[-1]
    assert fact.scores.tolist() == [6.0, 3.0]
    assert (fact.law, fact.sensitivity, fact.monotone) == (law, Fraction(2), True)
    assert (asked.verb, asked.score.name, asked.budget, asked.curator) == ("choose", "size", budget, curator)
    assert asked.candidates == candidates
    assert candidates[fact.winner] is chosen


def test_free_answers_and_coins_are_told():
    watcher = Watcher()
    curator = watched(watcher, "label")
    curator.public_counts([Marginal.of(curator.schema, ("a",))])
    curator.public_rows(("a",))
    assert curator.rows == 3
    assert [f.what for f in watcher.facts if hasattr(f, "what")] == ["public counts", "public rows", "rows"]
    assert watcher.facts[0] == ("coins", curator.coin_seed)
    assert watcher.strays == []


def test_orders_keys_and_numbers_of_runs_are_told():
    watcher = Watcher()
    stream = Stream.for_testing(1, watcher)
    order, key = stream.permutation(4), stream.new_seed("key")
    (first, second) = watcher.facts
    assert np.array_equal(first[1], order)
    assert second == ("key", key)
    watcher.facts.clear()
    curator = watched(watcher)
    curator.best_of(lambda c: (c.total(c.budget), 0.0), Repetitions.with_mean(3), PureDP(1), candidates=1, score="s")
    told = [f[0] for f in watcher.facts if isinstance(f, tuple)]
    runs = next(f[1] for f in watcher.facts if isinstance(f, tuple) and f[0] == "runs")
    assert told == ["coins", "runs", *["run", "coins"] * runs]
    assert watcher.strays == []


def test_noise_and_reads_beside_every_answer_are_seen():
    watcher = Watcher()
    curator = watched(watcher)
    DiscreteLaplace(Fraction(1)).sample(curator._stream, 3)
    curator._rows.count([both(curator)])
    curator.nested(PureDP("0.5"))._rows.total()
    curator.partition("a", PureDP("0.5"))[1]._rows.count_sparse(both(curator))
    assert "bytes" in watcher.strays[0]
    assert [s for s in watcher.strays if "bytes" not in s] == [
        "count",
        "total",
        "count_sparse",
    ]


def test_an_observer_may_replace_every_answer():
    class Replacing(Watcher):
        def on_table(self, fact):
            return replace(fact.answer, values=np.zeros_like(fact.answer.values))

        def on_choice(self, fact):
            return 1

        def on_noise(self, law, noise):
            return noise * 0

        def on_randomness(self, what, drawn):
            return b"0" * 32 if what == "coins" else drawn

    curator = watched(Replacing())
    assert curator.coin_seed == b"0" * 32
    assert curator.total(PureDP("0.1")).values.tolist() == [0]
    assert curator.choose(["x", "y"], Worthless(), PureDP("0.1")) == "y"


class Worthless(Size):
    def tables(self, candidate):
        return []

    def value(self, candidate, counts):
        return 0.0


# --- nobody observes a run that is private -----------------------------------------------------------


def test_real_noise_has_no_observer_and_cannot_be_given_one():
    stream = Stream()
    assert stream.observer is None
    with pytest.raises(AttributeError):
        stream.observer = Watcher()
    stream._observer = Watcher()  # not even by a private name
    assert stream.observer is None
    assert stream.child("x").observer is None
    assert "observer" not in inspect.signature(Curator).parameters
    assert "observer" not in inspect.signature(dipsmith.synthesize).parameters


def test_a_rehearsal_with_real_noise_is_not_observed():
    with pytest.raises(UsageError, match="replayable noise only"):
        Curator.rehearse(codes_of(), PureDP(1), observer=Watcher())


def test_the_rows_of_an_unobserved_curator_are_the_rows_themselves():
    rows = MemoryRows(codes_of())
    assert Curator(rows, PureDP(1), stream=Stream(), journal=Rehearsal())._rows is rows


def test_an_observed_stream_makes_no_private_release(tmp_path):
    watcher, table = Watcher(), pa.table({"a": ["x", "x", "y"], "b": ["u", "v", "w"]})
    ledger = Ledger(tmp_path / "budget.db")
    ledger.grant("t", PureDP(1), by="steward")
    observed = Stream.for_testing(1, watcher)
    with pytest.raises(UsageError, match="testing=True"):
        dipsmith.synthesize(
            table, schema_of("add-remove"), Flat(), budget=PureDP(1), ledger=ledger, noise_seed=observed
        )
    assert watcher.facts == []
    release = dipsmith.synthesize(
        table, schema_of("add-remove"), Flat(), budget=PureDP(1), testing=True, noise_seed=observed
    )
    assert release.card.testing
    assert watcher.facts[0][0] == "key"
    assert any(hasattr(f, "true") for f in watcher.facts)
    assert watcher.strays == []


def test_an_observer_changes_nothing_by_watching():
    def values(observer):
        curator = Curator.rehearse(codes_of(), PureDP(1), seed=1, observer=observer)
        return curator.measure([both(curator)], [PureDP(1)])[0].values

    assert np.array_equal(values(None), values(Watcher()))
