"""Attacks on the poll: two worlds told apart by their answers, replay on neighbours, runs that are killed."""

import os
import signal
import time
from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confirm_tables import schema_of, table_of

from dipsmith.audit.bound import CERTAINTY, Guesses, guess_held_out
from dipsmith.audit.observation import Observation
from dipsmith.confirm.answer import verify_answer
from dipsmith.confirm.confirm import answer_of, approve, prepare
from dipsmith.confirm.design import VoteDesign
from dipsmith.confirm.page import answer_page
from dipsmith.confirm.question import Inquiry
from dipsmith.confirm.votes import vote_of
from dipsmith.counting.count import BatchRows
from dipsmith.counting.parts import divide
from dipsmith.counting.values import ValueReading
from dipsmith.errors import BudgetError
from dipsmith.privacy.budget import PureDP
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.events import Rehearsal, event_record
from dipsmith.privacy.ledger import Ledger
from dipsmith.privacy.noise import DiscreteLaplace
from dipsmith.privacy.randomness import Stream
from dipsmith.privacy.value_question import Poll, poll_sensitivity
from dipsmith.sources import source

pytestmark = pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")

PARTS = 5
QUESTION = Inquiry("people", "0" * 64, "y ~ s", "s[F] < 0", PureDP(1), parts=PARTS, reference=(("s", "M"),))


@dataclass(frozen=True)
class HasStranger:
    """A vote that one row decides: whether the part holds the row with y = 9. The most that a poll can tell of a unit."""

    relation: str
    answers: int = 2
    name: str = "somebody is there"

    @property
    def reading(self):
        return ValueReading(schema_of(self.relation), ("y", "x"), ("s",))

    def __call__(self, part):
        seen = bool(((part.numbers["y"] == 9) & (part.levels["s"] == 0)).any())
        return (self.answers - 1) * seen


def world(relation, present):
    """The table with the stranger, or without (add-remove), with somebody else (replace), or with another label."""
    table = table_of(40)
    row = {"y": [9.0], "x": [0.0], "g": ["a"], "s": ["F"]}
    if not present:
        row |= {"add-remove": {name: [] for name in row}, "replace": {"y": [0.5]}, "label": {"s": ["M"]}}[relation]
    types = {name: table.schema.field(name).type for name in row}
    return pa.concat_tables([table, pa.table({n: pa.array(v, types[n]) for n, v in row.items()})])


def optimal(relation, answers, epsilon, trials):
    """The bound that an attacker who knows the exact law would get from so many trials, at the best threshold."""
    law = DiscreteLaplace(poll_sensitivity(relation, answers, PureDP(1)) / Fraction(epsilon))
    k = np.arange(-60, 61)
    with_stranger, without = law.pmf(k - 1), law.pmf(k)
    above = [(with_stranger[i:].sum(), without[i:].sum()) for i in range(1, len(k))]
    return max(Guesses(round(a * trials), round(b * trials), (trials, trials)).epsilon() for a, b in above)


@pytest.mark.parametrize(
    ("relation", "trials"),
    [
        pytest.param("label", 400, marks=pytest.mark.slow),
        *(pytest.param(relation, 3000, marks=pytest.mark.crowd) for relation in ("add-remove", "label", "replace")),
    ],
)
def test_two_worlds_are_told_apart_no_better_than_claimed(relation, trials):
    """Polls in each world at ε = 2, keys and noise fresh: the certain bound is within ε, the likely one 80 % of the best."""
    epsilon = 2
    poll, scores = Poll(HasStranger(relation), PARTS), []
    for present in (False, True):
        rows = BatchRows(source(world(relation, present)), schema_of(relation), b"k" * 32)
        curator = Curator(rows, PureDP(epsilon * trials), stream=Stream.for_testing(int(present)), journal=Rehearsal())
        scores.append(np.array([curator.ask(poll, PureDP(epsilon)).values[0] for _ in range(trials)], float))
    found = guess_held_out(scores[0], scores[1])
    assert found.epsilon(CERTAINTY) <= epsilon
    assert found.epsilon() >= 0.8 * optimal(relation, 2, epsilon, round(0.6 * trials))


@pytest.mark.parametrize("answers", [2, 3])
@pytest.mark.parametrize("relation", ["add-remove", "label", "replace"])
def test_the_exact_loss_of_a_poll_is_its_price(relation, answers):
    """The laws of both worlds are shifted by what one vote moves: the worst ratio is e^ε where the bound is reached, never more."""
    epsilon = 0.7
    law = DiscreteLaplace(poll_sensitivity(relation, answers, PureDP(1)) / Fraction("0.7"))
    k = np.arange(-80, 81)
    votes = 2 if relation == "replace" else 1
    one = np.abs(np.log(law.pmf(k) / law.pmf(k - votes))).max()
    loss = one * (answers - 1)  # a vote that changes ends moves both numbers
    assert loss == pytest.approx(epsilon)


class Recorder:
    """Keeps what a run answers, or gives it the answers of another run."""

    def __init__(self, given=None):
        self.given, self.seen, self.true = given, [], []

    def on_table(self, seen):
        self.seen.append(seen.fact.answer.values.copy())
        self.true.append(seen.true.copy())
        answer = seen.fact.answer
        return answer if self.given is None else replace(answer, values=self.given.pop(0))

    def on_choice(self, seen):
        return seen.fact.winner

    def on_public_answer(self, seen):
        pass

    def on_randomness(self, what, drawn):
        return drawn


def played(question, table, schema, recorder, seed=4):
    """The bytes, and the ledger's events, of one run; strays are reads or draws outside every answer."""
    observation = Observation(recorder)
    stream, journal = Stream.for_testing(seed, observation), Rehearsal()
    rows = BatchRows(source(table), schema, b"k" * 32)
    curator = Curator(rows, question.budget, stream=stream, journal=journal)
    found = prepare(question, schema)(source(table))(curator)
    answer = replace(answer_of(question, schema, found, None, testing=True), created="2026-01-01T00:00:00+00:00")
    return answer.to_json(), answer_page(answer), [event_record(e) for e in journal.events], observation.strays


TROUBLES = {
    "as it is": lambda t: t,
    "one label only": lambda t: t.set_column(3, "s", pa.array(["M"] * t.num_rows)),
    "few rows": lambda t: t.slice(0, 4),
    "no rows": lambda t: t.slice(0, 0),
    "far values": lambda t: t.set_column(0, "y", pa.array([1e300, float("nan"), float("-inf")] * 8)),
}


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize("claim", ["s[F] < 0", "-1 < s[F] < 1", "trend of s[F] over g > 0"])
@pytest.mark.parametrize("relation", ["add-remove", "label", "replace"])
def test_with_the_answers_of_another_run_nothing_tells_neighbours_apart(relation, claim, trouble):
    """Singular and empty parts among them; the neighbour's unit moves to another part where it can."""
    schema, question = schema_of(relation), replace(QUESTION, claim=claim)
    table = TROUBLES[trouble](table_of(24))
    y, s = table["y"].to_pylist(), table["s"].to_pylist()
    if relation == "add-remove" or not y:
        other = table.slice(1)
    else:
        s[0] = "F" if s[0] == "M" else "M"
        y[0] = y[0] if relation == "label" else -5.0
        other = table.set_column(3, "s", pa.array(s)).set_column(0, "y", pa.array(y))
    first = Recorder()
    one = played(question, table, schema, first)
    second = Recorder([v.copy() for v in first.seen])
    assert played(question, other, schema, second) == one
    assert one[3] == []
    answers = len(first.true[0]) + 1
    moved = np.abs(first.true[0] - second.true[0]).sum()
    assert moved <= poll_sensitivity(relation, answers, PureDP(1))


def test_a_vote_sees_its_part_and_nothing_else():
    """With one part's rows exchanged, the votes of the other parts stay as they are."""
    schema = schema_of("add-remove")
    vote = vote_of(QUESTION.parsed_claim, VoteDesign.of(QUESTION.formula, schema, "ols", {"s": "M"}), PARTS)
    parts = [
        list(divide(BatchRows(source(t), schema, b"k"), vote.reading, b"key", PARTS))
        for t in (table_of(99), table_of(98))
    ]
    alike = [a.numbers["y"].tolist() == b.numbers["y"].tolist() for a, b in zip(*parts, strict=True)]
    votes = [[vote(p) for p in some] for some in parts]
    assert all(a == b for a, b, same in zip(*votes, alike, strict=True) if same)


def answer_in_a_child(question, folder, out):
    """Start to answer in a process of its own; its id."""
    pid = os.fork()
    if pid == 0:
        try:
            approve(question, folder / "people.parquet", schema_of("label"), ledger=folder / "budget.db", out=out)
        finally:
            os._exit(0)
    return pid


def killed_runs(folder: Path, times: int, seed: int):
    """Kill a run at a random moment, ask the same question again, and see what the ledger and the folder say."""
    rng = np.random.default_rng(seed)
    pq.write_table(table_of(400), folder / "people.parquet")
    book = Ledger(folder / "budget.db")
    book.grant("people", PureDP(2 * times))
    seen, span, lost = Counter(), 0.2, "never draws again"
    for number in range(1, times + 1):
        question, out = replace(QUESTION, round=number), folder / f"answer{number}"
        start, pid = time.monotonic(), answer_in_a_child(question, folder, out)
        time.sleep(rng.uniform(0, 1.3 * span))
        finished = os.waitpid(pid, os.WNOHANG)[0] == pid
        if not finished:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        span = 0.8 * span + 0.2 * (time.monotonic() - start) if finished else 1.05 * span
        run = book.run(question.request)
        state, spent = None if run is None else run.state, book.show("people").spent
        if state in (None, "reserved"):
            assert not out.exists()
            seen["nothing read"] += 1
        elif state == "finished":
            again = approve(question, folder / "people.parquet", schema_of("label"), ledger=book, out=folder / "again")
            assert again.before
            assert verify_answer(out, book).verdict == again.answer.verdict
            seen["answered once"] += 1
        else:
            with pytest.raises(BudgetError, match=lost):
                approve(question, folder / "people.parquet", schema_of("label"), ledger=book, out=folder / "again")
            seen["charged, never answered"] += 1
        assert book.show("people").spent == spent
        assert not (folder / "again").exists()
        assert spent == sum(1 for n in range(1, number + 1) if book.run(replace(QUESTION, round=n).request) is not None)
    book.verify()
    return seen


@pytest.mark.slow
def test_a_run_that_is_killed_is_charged_or_untouched_and_never_answered_twice(tmp_path):
    assert sum(killed_runs(tmp_path, 12, seed=1).values()) == 12


@pytest.mark.crowd
def test_two_hundred_runs_are_killed(tmp_path):
    seen = killed_runs(tmp_path, 200, seed=2)
    assert sum(seen.values()) == 200
    assert set(seen) == {"nothing read", "charged, never answered", "answered once"}
