"""The poll behind the barrier: what one unit can change, what is charged, and that nothing else is seen."""

import itertools
import warnings
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from confirm_tables import schema_of, table_of

from dipsmith.counting.count import BatchRows
from dipsmith.counting.values import ValueReading
from dipsmith.errors import BudgetError, UnsupportedError, UsageError
from dipsmith.privacy.budget import ZCDP, PureDP
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.events import Rehearsal
from dipsmith.privacy.noise import DiscreteLaplace
from dipsmith.privacy.randomness import Stream
from dipsmith.privacy.value_question import Poll, count_votes, default_answer, poll_sensitivity
from dipsmith.sources import source


@dataclass(frozen=True)
class Nearly:
    """A vote that hangs on every row: by the sum of all values."""

    relation: str
    answers: int = 2
    name: str = "the sum of y"
    unit: str | None = None

    @property
    def reading(self):
        return ValueReading(schema_of(self.relation, unit=self.unit, max_rows=2), ("y", "x"), ("s", "g"))

    def __call__(self, part):
        total = part.numbers["y"].sum() * 7 + part.levels["s"].sum() * 11 + part.levels["g"].sum() * 13
        return int(abs(total)) % self.answers


def curator(table, schema, budget, seed=1):
    journal = Rehearsal()
    rows = BatchRows(source(table), schema, b"k" * 32)
    return Curator(rows, budget, stream=Stream.for_testing(seed), journal=journal), journal


def votes(table, vote, key):
    rows = BatchRows(source(table), vote.reading.schema, b"k" * 32)
    return count_votes(rows, vote, 5, key)


def changed(table, row, relation):
    labels, y = table["s"].to_pylist(), table["y"].to_pylist()
    if relation == "add-remove":
        return table.take(pa.array([i for i in range(len(labels)) if i != row]))
    labels[row] = "F" if labels[row] == "M" else "M"
    if relation == "replace":
        y[row] = 9.0 - y[row]
    return table.set_column(3, "s", pa.array(labels)).set_column(0, "y", pa.array(y))


@pytest.mark.slow
@pytest.mark.parametrize("answers", [2, 3])
@pytest.mark.parametrize("relation", ["add-remove", "label", "replace"])
def test_one_unit_moves_the_numbers_no_further_than_the_sensitivity(relation, answers):
    """Brute force: every row of 16 changed under three keys, by a vote that any change may turn."""
    vote, table = Nearly(relation, answers), table_of(16)
    l1, l2 = (int(poll_sensitivity(relation, answers, b)) for b in (PureDP(1), ZCDP(1)))
    moved = []
    for row, number in itertools.product(range(16), range(3)):
        key = bytes([number]) * 32
        moved.append(votes(table, vote, key) - votes(changed(table, row, relation), vote, key))
    assert max(np.abs(m).sum() for m in moved) == l1
    assert max((m * m).sum() for m in moved) <= l2


def test_the_noise_is_that_of_the_sensitivity_and_is_recorded_first():
    vote = Nearly("replace")
    asked, journal = curator(table_of(50), vote.reading.schema, PureDP(1))
    answer = asked.ask(Poll(vote, 10), PureDP("0.5"))
    (event,) = journal.events
    assert (event.cells, event.size, event.sensitivity, event.scale) == (
        "poll of 10 parts: the sum of y",
        1,
        2,
        Fraction(4),
    )
    assert Poll(vote, 10).price("replace", 1, PureDP("0.5"), "")[0] == DiscreteLaplace(Fraction(4))
    assert len(answer.values) == 1
    assert str(asked.remaining) == "ε = 0.5"


def test_every_poll_draws_a_key_of_its_own():
    """Two polls of 50 rows in 10 parts: the same division would have probability 1e-50."""
    seen = []

    @dataclass(frozen=True)
    class Watching(Nearly):
        def __call__(self, part):
            seen.append(sorted(part.numbers["y"].tolist()))
            return 0

    for relation in ("add-remove", "label"):
        asked, _ = curator(table_of(50), schema_of(relation), PureDP(1))
        divisions = []
        for _ in range(2):
            seen.clear()
            asked.ask(Poll(Watching(relation), 10), PureDP("0.5"))
            divisions.append(sorted(seen))
        assert divisions[0] != divisions[1]


def test_nothing_is_read_where_the_budget_is_gone():
    vote = Nearly("label")
    asked, journal = curator(table_of(50), vote.reading.schema, PureDP("0.1"))
    with pytest.raises(BudgetError):
        asked.ask(Poll(vote, 10), PureDP("0.5"))
    assert journal.events == []


@pytest.mark.parametrize("answers", [2, 3])
@pytest.mark.parametrize("kind", ["raises", "warns", "none", "nonsense", "memory"])
def test_a_vote_that_fails_is_a_default_without_a_word(kind, answers, capfd):
    @dataclass(frozen=True)
    class Broken(Nearly):
        def __call__(self, part):
            if kind == "raises":
                raise ValueError(part.numbers["y"][0])
            if kind == "memory":
                raise MemoryError
            if kind == "warns":
                warnings.warn("private", stacklevel=1)
                return np.log(np.zeros(1))[0] and None
            return None if kind == "none" else 99

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = votes(table_of(50), Broken("label", answers), b"key")
    assert found.tolist() == ([2] if answers == 2 else [3, 2])
    assert capfd.readouterr() == ("", "")


def test_parts_that_all_fail_are_of_two_minds():
    assert [default_answer(i, 2) for i in range(4)] == [0, 1, 0, 1]
    assert [default_answer(i, 3) for i in range(4)] == [0, 2, 0, 2]
    assert votes(table_of(0), Nearly("label"), b"key").tolist() == [2]


def test_what_is_no_poll_is_refused():
    vote = Nearly("label")
    for parts in (4, 1001):
        with pytest.raises(UsageError, match="expected 5 to 1000"):
            Poll(vote, parts)
    with pytest.raises(UsageError, match="2 or 3 answers"):
        Poll(Nearly("label", 4), 10)
    asked, _ = curator(table_of(9), vote.reading.schema, PureDP(1))
    with pytest.raises(UnsupportedError, match="all rows"):
        asked.nested(PureDP("0.5"), "a part").ask(Poll(vote, 10), PureDP("0.1"))
