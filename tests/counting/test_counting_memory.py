"""Remembered answers are those that another pass would count: of the same rows, view and block, and nobody writes into them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings

from dipsmith.counting import BatchRows, encoded, memory
from dipsmith.counting.count import Rows
from dipsmith.counting.memory import AnswerMemory
from dipsmith.errors import SourceError
from dipsmith.schema import Attribute, Categories, Crossed, Marginal, Rule, Schema, Unit
from dipsmith.schema.schema import Neighbours
from dipsmith.sources import Progress

KEY = bytes(range(32))
SIZES = {"a": 3, "b": 2, "c": 4, "d": 2}


@dataclass
class Read:
    """A source that counts how often it is read."""

    table: pa.Table
    passes: list[tuple[str, ...]] = field(default_factory=list)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.table.column_names)

    def check(self, required: Sequence[str]) -> None:
        pass

    def batches(self, columns: Sequence[str], progress: Progress | None = None) -> Iterator[pa.RecordBatch]:
        self.passes.append(tuple(columns))
        yield from self.table.select(list(columns)).combine_chunks().to_batches(11)

    def describe(self) -> str:
        return "read"


def schema_of(neighbours: Neighbours = "replace", unit: Unit | None = None, *, listed: bool = False) -> Schema:
    """Two public and two private columns; a rule among public ones and one that is not."""
    attributes = tuple(
        Attribute(
            name,
            "string",
            Categories.of([f"v{j}" for j in range(size)], other=None if listed else "v0"),
            role="public" if name in "ab" else "private",
        )
        for name, size in SIZES.items()
    )
    rules = (Rule((("a", (0,)), ("b", (1,)))), Rule((("b", (0,)), ("c", (3,)), ("d", (1,)))))
    return Schema("t", attributes, unit or Unit(), neighbours, rules)


def table_of(rows: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    columns = {name: [f"v{j}" for j in rng.integers(0, size + 1, rows)] for name, size in SIZES.items()}
    return pa.table({"id": [str(i) for i in rng.integers(0, 1 + rows // 3, rows)], **columns})


SCHEMAS = {
    "label": schema_of("label"),
    "values without a code": schema_of("add-remove", listed=True),
    "units": schema_of("label", Unit("id", 2)),
}

Question = tuple[str, tuple[tuple[str, int], ...], tuple[tuple[str, ...], ...]]
NAMES = st.lists(st.sampled_from(list(SIZES)), unique=True, max_size=4).map(tuple)
PUBLIC = st.lists(st.sampled_from(["a", "b"]), unique=True, max_size=2).map(tuple)
BLOCKS = st.sampled_from([(), (("a", 0),), (("a", 1),), (("b", 1),), (("a", 1), ("b", 1)), (("b", 1), ("a", 1))])
QUESTIONS = st.one_of(
    st.tuples(st.just("count"), BLOCKS, st.lists(NAMES, min_size=1, max_size=4).map(tuple)),
    st.tuples(st.just("count_public"), BLOCKS, st.lists(PUBLIC, min_size=1, max_size=3).map(tuple)),
    st.tuples(st.just("all pairs"), BLOCKS, st.just(tuple(itertools.combinations(SIZES, 2)))),
)


def asked(rows: Rows, question: Question) -> list[np.ndarray]:
    verb, fixed, sets = question
    for attribute, code in fixed:
        rows = rows.within(attribute, code)
    cells = [Marginal.of(rows.schema, names) for names in sets]
    return rows.count_public(cells) if verb == "count_public" else rows.count(cells)


@pytest.mark.slow
@pytest.mark.parametrize("feature", SCHEMAS)
@settings(max_examples=25, deadline=None)
@given(
    st.lists(QUESTIONS, min_size=2, max_size=7),
    st.sampled_from([0, 30, 1 << 20]),
    st.sampled_from([0, 30, 1 << 20]),
    st.integers(0, 9),
)
def test_any_questions_in_any_order_are_answered_as_if_each_came_first(
    feature: str, questions: list[Question], kept: int, cache: int, seed: int
) -> None:
    schema, table = SCHEMAS[feature], table_of(60, seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoded, "BLOCK", 13)
        patch.setattr(memory, "ROOM", 0)
        forgetful = BatchRows(Read(table), schema, KEY)
        expected = [asked(forgetful, question) for question in questions]
        patch.setattr(memory, "ROOM", kept)
        rows = BatchRows(Read(table), schema, KEY, cache)
        for question, tables in zip(questions, expected, strict=True):
            found = asked(rows, question)
            for one, other in zip(found, tables, strict=True):
                assert one.dtype == np.int64
                np.testing.assert_array_equal(one, other)
                if one.flags.writeable:
                    one += 1000  # what may be written into is not what is remembered


def test_a_table_answers_every_sum_over_it_without_a_pass() -> None:
    schema, source = schema_of("label"), Read(table_of(200, 1))
    rows = BatchRows(source, schema, cache_bytes=0)
    whole = rows.count([Marginal.of(schema, tuple("abcd"))])[0].reshape(3, 2, 4, 2)
    for size in range(5):
        for names in itertools.permutations("abcd", size):
            gone = tuple("abcd".index(name) for name in "abcd" if name not in names)
            order = [sorted(names).index(name) for name in names]
            expected = whole.sum(axis=gone).transpose(order).ravel() if size else [whole.sum()]
            np.testing.assert_array_equal(rows.count([Marginal.of(schema, names)])[0], expected)
    assert len(source.passes) == 1
    # the rows of other views and blocks were not counted yet
    rows.count_public([Marginal.of(schema, ["a"])])
    rows.within("a", 1).count([Marginal.of(schema, ["b"])])
    assert source.passes[1:] == [("a",), ("a", "b")]
    # a partition that is no marginal is counted
    crossed = Crossed(Marginal.of(schema, ["c"]), Marginal.of(schema, ["a"]))
    np.testing.assert_array_equal(rows.count([crossed])[0], whole.sum(axis=(1, 3)).T.ravel())
    assert source.passes[3:] == [("a", "c")]


def pairs(schema: Schema) -> list[Marginal]:
    return [Marginal.of(schema, pair) for pair in itertools.combinations(schema.names, 2)]


def test_a_second_pass_reads_only_what_is_not_kept() -> None:
    table = table_of(200, 1)
    plain = Schema("t", schema_of().attributes, Unit(), "replace")
    source = Read(table)
    rows = BatchRows(source, plain)
    assert rows.total() == 200
    rows.count(pairs(plain))
    rows.count([Marginal.of(plain, ["d", "a"])])
    rows.distinct_public(plain.names)
    assert source.passes == [("a",), ("b", "c", "d")]


def test_rows_that_change_later_change_no_answer_and_are_noticed() -> None:
    schema, source = schema_of(), Read(table_of(200, 1))
    rows = BatchRows(source, schema, cache_bytes=0)
    before = rows.count(pairs(schema))
    source.table = table_of(201, 2)
    for one, other in zip(rows.count(pairs(schema)), before, strict=True):
        np.testing.assert_array_equal(one, other)
    with pytest.raises(SourceError, match="changed between two passes"):
        rows.distinct_public(schema.names)


def test_nothing_is_remembered_of_a_pass_that_failed() -> None:
    class Failing(Read):
        fails = True

        def batches(self, columns: Sequence[str], progress: Progress | None = None) -> Iterator[pa.RecordBatch]:
            yield from super().batches(columns)
            if self.fails:
                raise SourceError("cut short")

    schema, source = schema_of(), Failing(table_of(200, 1))
    rows = BatchRows(source, schema)
    for _ in range(2):
        with pytest.raises(SourceError, match="cut short"):
            rows.count(pairs(schema))
    source.fails = False
    for one, other in zip(
        rows.count(pairs(schema)), BatchRows(Read(source.table), schema).count(pairs(schema)), strict=True
    ):
        np.testing.assert_array_equal(one, other)


SETS = st.frozensets(st.sampled_from("abcd"), max_size=3)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(SETS, st.integers(1, 9)), max_size=8), SETS)
@example([(frozenset("abc"), 4), (frozenset("bcd"), 3)], frozenset("ad"))
@example([(frozenset("abc"), 4), (frozenset("bcd"), 3)], frozenset("bc"))
def test_the_smallest_table_is_found_within_the_room(
    kept: list[tuple[frozenset[str], int]], wanted: frozenset[str]
) -> None:
    answers: AnswerMemory[tuple[frozenset[str], int]] = AnswerMemory(room=20)
    held: dict[frozenset[str], int] = {}
    for names, size in kept:
        answers.keep((), "lawful", names, size, (names, size))
        if names not in held and sum(held.values()) + size <= 20:
            held[names] = size
    assert answers.room == 20 - sum(held.values())
    fitting = {names: size for names, size in held.items() if wanted <= names}
    found = answers.find((), "lawful", wanted)
    if found is None:
        assert not fitting
    else:
        # its own table if there is one, else the smallest of the others
        least = fitting.get(wanted, min(fitting.values()))
        assert fitting[found[0]] == found[1] == least
    assert answers.find((), "held", wanted) is answers.find((("a", 0),), "lawful", wanted) is None
