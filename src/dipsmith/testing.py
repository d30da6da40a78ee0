"""Checks that every method must pass: `check_method` for authors, as scikit-learn publishes `check_estimator`.

The checks run on `example_rows`, simulated rows of five columns (age, grade, place; sex and race private) with two rules,
under every relation that the method declares and in both currencies. A check that fails raises an AssertionError
whose message says what was expected.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import FrozenInstanceError, is_dataclass, replace
from functools import partial
from typing import Any, Literal, cast

import numpy as np

from dipsmith.counting.count import MemoryRows
from dipsmith.errors import UnsupportedError, UsageError
from dipsmith.methods.catalogue import require_loadable
from dipsmith.methods.method import Labeller, Method, Model, PublicFacts
from dipsmith.privacy.accountant import total
from dipsmith.privacy.budget import ZCDP, Budget, PureDP
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.events import Chosen, Event, Measured, Rehearsal
from dipsmith.privacy.measurement import Measurement
from dipsmith.privacy.observer import ChoiceFact, Observer, TableFact
from dipsmith.privacy.randomness import Stream
from dipsmith.schema import Attribute, Bins, Categories, Codes, Rule, Schema, Unit
from dipsmith.schema.schema import Neighbours

BUDGETS: tuple[Budget, ...] = (PureDP(1), ZCDP("0.1"))
RELATIONS = ("add-remove", "replace", "label")
IMPOSSIBLE = Rule((("sex", (0, 1)), ("race", (0, 1, 2))), "nobody")

Kind = Literal["rows", "panel", "weights"]
Check = Callable[[Method, Schema], None]


def example_schema(relation: str, unit: Unit | None = None) -> Schema:
    """The schema of the rows that methods are checked on: small, with bins, missing values and rules."""
    ages = tuple(float(edge) for edge in range(20, 71, 10))
    return Schema(
        "checks",
        (
            Attribute("age", "integer", Bins(ages, "integer", ("20", "30", "40", "50", "60"), 20, 69), "public"),
            Attribute("grade", "string", Categories.of("abcd", other="a"), "public"),
            Attribute("place", "string", Categories.of("xyz", other="x", missing=True), "public"),
            Attribute("sex", "string", Categories.of("FM", other="M"), "private"),
            Attribute("race", "string", Categories.of("ABC", other="C"), "private"),
        ),
        unit or Unit(),
        cast("Neighbours", relation),
        (Rule((("age", (0,)), ("grade", (3,))), "no young d"), Rule((("grade", (0,)), ("race", (2,))), "no a with C")),
    )


def example_panel(schema: Schema) -> Schema:
    """The same over time: a person has at most three rows, one at each age, and one sex for life."""
    fixed = tuple(replace(a, fixed=a.name == "sex") for a in schema)
    return replace(schema, attributes=fixed, unit=Unit("person", 3, order="age"))


def example_weights(schema: Schema) -> Schema:
    """The same with a survey weight, of at most 8."""
    weight = Bins((1.0, 2.0, 4.0, 8.0), "number", ("1", "2", "4"), 1, 8)
    return replace(schema, attributes=(*schema.attributes, Attribute("weight", "number", weight, "weight")))


_KINDS: dict[Kind, Callable[[Schema], Schema]] = {
    "rows": lambda schema: schema,
    "panel": example_panel,
    "weights": example_weights,
}


def example_rows(schema: Schema, n: int = 600, seed: int = 0) -> Codes:
    """Simulated rows that break no rule, in which sex depends on grade; in a panel each person has about three."""
    random = np.random.default_rng(seed)
    columns = {a.name: random.integers(0, a.size, n) for a in schema}
    columns["sex"] = (random.random(n) < 0.3 + 0.1 * columns["grade"]).astype(int)
    columns["grade"] = np.where((columns["age"] == 0) & (columns["grade"] == 3), 1, columns["grade"])
    columns["race"] = np.where((columns["grade"] == 0) & (columns["race"] == 2), 0, columns["race"])
    codes = Codes.of(schema, columns, n)
    return codes if schema.unit.order is None else replace(codes, units=random.permutation(n) // 3)


def check_method(method: Method, kind: Kind = "rows") -> None:
    """Run every check on a method, whose settings suit `example_schema`, under every relation that it declares.

    `kind` says on what: on rows; on a panel, whose rows are careers; or on rows with a survey weight.

    >>> from dipsmith import Flat
    >>> check_method(Flat())
    """
    for _, run in checks(method, kind):
        run()


def checks(method: Method, kind: Kind = "rows") -> Iterator[tuple[str, Callable[[], None]]]:
    """The checks of a method one by one, with their names: for a parametrised test."""
    for relation in method.relations:
        assert relation in RELATIONS, f"relation '{relation}' is unknown"
        if kind != "rows" and relation == "label":
            continue  # neither panels nor weights go with it
        schema = _KINDS[kind](example_schema(relation))
        for check in CHECKS:
            name = f"{method.name}-{relation}-{'' if kind == 'rows' else f'{kind}-'}{check.__name__.removeprefix('check_')}"
            yield name, partial(check, method, schema)


# --- the checks ---------------------------------------------------------------------------------------


def check_is_a_frozen_method(method: Method, schema: Schema) -> None:
    """A frozen dataclass with a name, a sentence about itself, known relations and classes of models."""
    assert isinstance(method, Method), "it needs name, summary, relations, models, fit and plan"
    assert is_dataclass(method), "it must be a dataclass: the card states its fields"
    assert method.name, "name is empty"
    assert method.summary.endswith("."), "summary must be a sentence"
    assert method.models, "models is empty: name the classes that fit may return"
    with suppress(FrozenInstanceError):
        method.anything = 1
        raise AssertionError("it must be frozen: dataclass(frozen=True)")
    assert method == replace(method), "a copy with the same fields must be equal to it"


def check_can_be_loaded_again(method: Method, schema: Schema) -> None:
    """Its kinds of model are registered, so that a release can be read back."""
    require_loadable(method)


def check_spends_its_budget_and_no_more(method: Method, schema: Schema) -> None:
    """What it is charged is at most its budget, and all of it but a hundredth."""
    for budget in _budgets(method, schema):
        _, events = _fit(method, example_rows(schema), budget)
        spent = total(events, budget.currency, schema.neighbours)
        assert 0.99 * budget.units <= spent <= budget.units, f"{spent / budget.units:.0%} of {budget} was spent"


def check_plan_adds_up(method: Method, schema: Schema) -> None:
    """The plan costs what the run will cost, names columns of the schema, and reads nothing."""
    codes = example_rows(schema)
    for budget in _budgets(method, schema):
        steps = method.plan(schema, budget, _facts(codes))
        planned = sum(step.budget.units for step in steps)
        assert 0.99 * budget.units <= planned <= budget.units, f"the plan adds up to {planned / budget.units:.0%}"
        for step in steps:
            assert set(step.attributes) <= set(schema.names), f"{step.stage} names an unknown column"


def check_makes_lawful_rows(method: Method, schema: Schema) -> None:
    """Rows have every column, values of the schema, and break no rule; as many as were asked for."""
    codes = example_rows(schema)
    for budget in _budgets(method, schema):
        model, _ = _fit(method, codes, budget)
        made = _draw(model, codes, 200)
        assert len(made) == (len(codes) if schema.neighbours == "label" else 200), f"{len(made)} rows were made"
        for attribute in codes.schema:
            if schema.neighbours != "label" or attribute.name in made.names:
                values = made[attribute.name]
                assert values.min() >= 0, f"'{attribute.name}' has a code below 0"
                assert values.max() < attribute.size, f"'{attribute.name}' has a code beyond its labels"
        if set(made.names) == set(codes.schema.names):
            assert made.lawful().all(), "a row breaks a rule: see dipsmith.extend.lawful_rows"


def check_knows_its_rows(method: Method, schema: Schema) -> None:
    """A model that draws whole rows has its own estimate of their number."""
    model, _ = _fit(method, example_rows(schema), BUDGETS[0])
    if schema.neighbours == "label":
        _labeller(model)
    else:
        assert isinstance(model.rows, int), "rows must be a whole number"
        assert model.rows >= 0, "rows is negative"


def check_refuses_other_relations(method: Method, schema: Schema) -> None:
    """A relation for which it has no proof is refused before anything is asked."""
    for other in set(RELATIONS) - set(method.relations):
        _require_refusal(method, example_rows(example_schema(other)), UnsupportedError, f"relation '{other}'")


def check_refuses_rules_that_leave_nothing(method: Method, schema: Schema) -> None:
    """Rules that no row can keep are refused before anything is asked, by the plan too."""
    schema = replace(schema, rules=(*schema.rules, IMPOSSIBLE))
    _require_refusal(method, example_rows(schema).take(slice(0, 0)), UsageError, "rules that leave nothing")
    try:
        method.plan(schema, BUDGETS[0], PublicFacts(600))
    except UsageError:
        return
    raise AssertionError("plan: rules that leave nothing must be refused; see dipsmith.extend.require_possible")


def check_state_round_trips(method: Method, schema: Schema) -> None:
    """A model is JSON-able facts and plain arrays, and draws the same rows when it is read back."""
    codes = example_rows(schema)
    model, _ = _fit(method, codes, BUDGETS[0])
    assert type(model) in method.models, f"fit returned a {type(model).__name__}, which models does not name"
    facts, arrays = model.state()
    file = io.BytesIO()
    np.savez(file, **arrays)  # type: ignore[arg-type]
    file.seek(0)
    with np.load(file, allow_pickle=False) as stored:
        read = {name: stored[name] for name in stored.files}
    again = type(model).from_state(codes.schema, json.loads(json.dumps(facts)), read)
    for seed in (5, 1 << 200):  # workers of a cluster draw by keys of 256 bits
        first, second = _draw(model, codes, 200, seed), _draw(again, codes, 200, seed)
        assert _same(first.columns, second.columns), "the model read back draws other rows"
    assert not _same(_draw(model, codes, 200, 5).columns, _draw(model, codes, 200, 6).columns), "seed does nothing"


def check_same_noise_gives_the_same_model(method: Method, schema: Schema) -> None:
    """Nothing random goes into a model but the curator's noise and coins."""
    codes = example_rows(schema)
    first, second, other = (_fit(method, codes, BUDGETS[0], seed)[0].state()[1] for seed in (3, 3, 4))
    assert _same(first, second), "the same noise gave another model: use curator.coins for structure"
    assert not _same(first, other), "other noise gave the same model: is there any noise in it?"


def check_is_a_function_of_noisy_answers(method: Method, schema: Schema) -> None:
    """With every noisy answer frozen, other private rows give the very same model, questions and charges."""
    codes = example_rows(schema)
    other = _relabel(codes) if schema.neighbours == "label" else example_rows(codes.schema, seed=9)
    answers = RecordedAnswers()
    first, asked = _fit(method, codes, BUDGETS[0], observer=answers)
    second, asked_again = _fit(method, other, BUDGETS[0], observer=RecordedAnswers(answers.given))
    assert asked == asked_again, "what is asked depends on private rows"
    assert first.state()[0] == second.state()[0], "the model's facts depend on private rows"
    assert _same(first.state()[1], second.state()[1]), "the model's arrays depend on private rows"


def check_survives_tiny_tables(method: Method, schema: Schema) -> None:
    """No row, or one, is no reason to fail: whether there are rows is private."""
    whole = example_rows(schema)
    for n in (0, 1):
        codes = whole.take(slice(0, n))
        model, _ = _fit(method, codes, BUDGETS[0])
        made = _draw(model, codes, 10)
        assert len(made) == (n if schema.neighbours == "label" else 10), f"a table of {n} rows gave {len(made)}"


def check_units_with_several_rows_pay_in_noise(method: Method, schema: Schema) -> None:
    """Three rows per unit are answered at three times the sensitivity."""
    if schema.unit.order is not None:
        return  # what one line of a unit tells of a whole career does not grow with it
    single, several = (
        _fit(method, example_rows(replace(schema, unit=Unit("person", k))), BUDGETS[0])[1] for k in (1, 3)
    )
    tables = [[e.sensitivity for e in events if isinstance(e, Measured)] for events in (single, several)]
    assert min(tables[1], default=3) >= 3 * min(tables[0], default=1), "noise ignores max_rows"
    assert all(e.sensitivity >= 3 for e in several if isinstance(e, Chosen)), "a score's sensitivity ignores max_rows"


def check_probabilities_agree_with_labels(method: Method, schema: Schema) -> None:
    """Under `label`: probabilities add up to 1, and no label is drawn that has none."""
    if schema.neighbours != "label":
        return
    codes = example_rows(schema)
    model = _labeller(_fit(method, codes, BUDGETS[0])[0])
    public = codes.project(codes.schema.public)
    chances = model.probabilities(public)
    shape = [codes.schema[t].size for t in model.targets]
    assert chances.shape == (len(codes), int(np.prod(shape))), "probabilities must be rows × joint labels"
    assert chances.min() >= 0, "a probability is negative"
    assert np.allclose(chances.sum(axis=1), 1, atol=1e-9), "probabilities do not add up to 1"
    labelled = model.label(public, seed=1)
    joint = np.ravel_multi_index([labelled[t] for t in model.targets], shape)
    assert (chances[np.arange(len(codes)), joint] > 0).all(), "a label was drawn whose probability is 0"


CHECKS: tuple[Check, ...] = tuple(
    found for name, found in list(globals().items()) if name.startswith("check_") and found is not check_method
)
"""Every check above, in this order."""


# --- what they need -----------------------------------------------------------------------------------


class RecordedAnswers(Observer):
    """An observer that keeps the noisy answers of a run, or gives those of another run instead."""

    def __init__(self, given: list[Any] | None = None) -> None:
        self._replayed = None if given is None else list(given)
        self.given: list[Any] = []

    def _answer(self, answer: Any) -> Any:
        if self._replayed is None:
            self.given.append(answer)
            return answer
        assert self._replayed, "more was asked than of the other rows"
        return self._replayed.pop(0)

    def on_table(self, fact: TableFact) -> Measurement:
        """A noisy table."""
        answer: Measurement = self._answer(fact.answer)
        return answer

    def on_choice(self, fact: ChoiceFact) -> int:
        """A private choice."""
        winner: int = self._answer(fact.winner)
        return winner


def _fit(
    method: Method, codes: Codes, budget: Budget, seed: int = 3, observer: Observer | None = None
) -> tuple[Model, list[Event]]:
    journal = Rehearsal()
    stream = Stream.for_testing(seed, observer)
    return method.fit(Curator(MemoryRows(codes), budget, stream=stream, journal=journal)), journal.events


def _require_refusal(method: Method, codes: Codes, error: type[Exception], what: str) -> None:
    journal = Rehearsal()
    try:
        method.fit(Curator(MemoryRows(codes), BUDGETS[0], stream=Stream.for_testing(1), journal=journal))
    except error:
        assert not journal.events, f"{what}: refused only after something was asked"
        return
    raise AssertionError(f"{what} must be refused with {error.__name__}")


def _budgets(method: Method, schema: Schema) -> Iterator[Budget]:
    """The budgets of both currencies, but for one that the plan refuses."""
    for budget in BUDGETS:
        try:
            method.plan(schema, budget, _facts(example_rows(schema)))
        except UnsupportedError:
            assert budget is not BUDGETS[0], "pure ε must be supported"
            continue
        yield budget


def _facts(codes: Codes) -> PublicFacts:
    schema = codes.schema
    rows = None if schema.neighbours == "add-remove" else len(codes)
    if schema.neighbours != "label":
        return PublicFacts(rows)
    return PublicFacts(rows, Curator.rehearse(codes, BUDGETS[0], seed=1).public_rows(schema.public))


def _draw(model: Model, codes: Codes, n: int, seed: int = 5) -> Codes:
    if codes.schema.neighbours != "label":
        return model.sample(n, seed)
    return _labeller(model).label(codes.project(codes.schema.public), seed)


def _labeller(model: Model) -> Labeller:
    assert isinstance(model, Labeller), "under 'label' a model needs targets, label and probabilities"
    return model


def _relabel(codes: Codes) -> Codes:
    """A neighbour of a neighbour of … under `label`: the same public columns, other labels."""
    random = np.random.default_rng(1)
    private = codes.schema.private
    columns = {n: random.permutation(c) if n in private else c for n, c in codes.columns.items()}
    return Codes.of(codes.schema, columns, len(codes))


def _same(first: Any, second: Any) -> bool:
    return set(first) == set(second) and all(np.array_equal(first[name], second[name]) for name in first)
