"""What a method is: frozen parameters that turn a curator's noisy answers into a model.

A method never sees rows. `fit` asks the curator, spends the curator's whole budget or less, and
returns a model; a model is plain arrays and public facts, so sampling from it, saving it and
sending it anywhere is post-processing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dipsmith.errors import UnsupportedError
from dipsmith.privacy.budget import Budget
from dipsmith.privacy.calibration import noise_for
from dipsmith.privacy.curator import Curator
from dipsmith.schema import Codes, Marginal, Schema
from dipsmith.schema.analysis import PlannedAnalysis

MARKED_CELLS = 1 << 26
"""The largest table whose occupied cells are looked up one by one."""


@dataclass(frozen=True, eq=False)
class PublicFacts:
    """What a plan may know: the number of rows, and under `label` the distinct public rows."""

    rows: int | None = None
    public_rows: tuple[Codes, NDArray[np.int64]] | None = None

    def occupied(self, schema: Schema, names: Sequence[str]) -> int:
        """Combinations of public columns that hold a row, as far as is known."""
        size = schema.size(names)
        if self.public_rows is None:
            return size if self.rows is None else min(size, self.rows)
        codes, _ = self.public_rows
        if size > MARKED_CELLS or not set(names) <= set(codes.names):
            return min(size, len(codes))
        seen = np.zeros(size, dtype=bool)
        seen[Marginal.of(schema, names).index(codes)] = True
        return int(seen.sum())


@dataclass(frozen=True)
class Planned:
    """One question that a method will ask: a line of the plan."""

    stage: str  # what it is for: "row count", "label marginal", "tree 1 of 3"
    what: str  # the attributes or candidates concerned, for people to read
    budget: Budget
    cells: int | None = None  # how many noisy numbers it gives; None for a choice
    sd: float | None = None  # standard deviation of the noise on one count; None for a choice
    note: str = ""  # anything a steward should know
    effect_error: float | None = None
    """Of a table of effects on labels: the standard error to expect of a log-odds in an average cell, were labels
    equally frequent; None where the number of rows is unknown."""
    attributes: tuple[str, ...] = ()  # the columns of the table that is measured, where they are known before
    hopeless: bool = False  # whether noise will outweigh the rows; `note` says by how much and what to do
    group: str = ""  # the stage without its number, by which lines are added up; default: the stage

    @property
    def place(self) -> str:
        """The stage with the columns it is about, where these are known, for notes.

        >>> Planned("column", "pay", PureDP(1), attributes=("pay",)).place
        "column 'pay'"
        """
        if self.stage.endswith(f", {self.what}"):
            return self.stage  # the stage names it already
        if self.stage == "column" and not self.attributes:
            return f"column '{self.what}'"  # one that is measured on the way and not released
        few, more = self.attributes[:3], len(self.attributes) - 3
        named = ", ".join(f"'{name}'" for name in few) + (f" and {more} more" if more > 0 else "")
        return f"{self.stage} {named}" if few else self.stage


Arrays = Mapping[str, NDArray[Any]]


def join_states(states: Iterable[tuple[Any, Arrays]]) -> tuple[list[Any], dict[str, NDArray[Any]]]:
    """The states of a model's parts as one: a list of facts, and arrays whose names start with the part's number."""
    facts, arrays = [], dict[str, NDArray[Any]]()
    for i, (fact, own) in enumerate(states):
        facts.append(fact)
        arrays |= {f"{i}/{name}": array for name, array in own.items()}
    return facts, arrays


def arrays_of(part: int, arrays: Arrays) -> dict[str, NDArray[Any]]:
    """The arrays of one part of a model (`join_states`)."""
    start = f"{part}/"
    return {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}


@runtime_checkable
class Model(Protocol):
    """A fitted model: everything that was learned, and nothing else."""

    @property
    def kind(self) -> str:
        """The name by which its file is recognised; one class of models has one kind."""

    @property
    def schema(self) -> Schema:
        """The schema of the rows that it makes."""

    @property
    def rows(self) -> int | None:
        """Its own estimate of the number of rows; None for a model that only labels given rows."""

    def sample(self, n: int | None = None, seed: int | None = None) -> Codes:
        """Draw `n` rows (the model's own row count when omitted); `seed` is free, for repeatability."""

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """The model as JSON-able facts and arrays."""

    @classmethod
    def from_state(cls, schema: Schema, facts: Mapping[str, Any], arrays: Arrays) -> Self:
        """The model back from its state."""


@runtime_checkable
class Labeller(Model, Protocol):
    """A model that labels rows whose public columns are given."""

    @property
    def targets(self) -> tuple[str, ...]:
        """The private attributes that it labels."""

    def probabilities(self, rows: Codes) -> NDArray[np.float64]:
        """The probability of every label: rows × labels, in the schema's order (joint when several)."""

    def label(self, rows: Codes, seed: int | None = None) -> Codes:
        """Draw the private attributes of every row."""


@runtime_checkable
class Keeping(Protocol):
    """A model that can say which tables its rows keep."""

    def kept_tables(self) -> tuple[tuple[str, ...], ...]:
        """Groups of columns whose noisy tables its rows follow, as near as noise allows; what is in no group is assumed."""


@runtime_checkable
class Method(Protocol):
    """Frozen parameters (a dataclass) with a `fit`."""

    @property
    def name(self) -> str:
        """The name on the command line and the card."""

    @property
    def summary(self) -> str:
        """What it does and when to use it, in one sentence."""

    @property
    def relations(self) -> tuple[str, ...]:
        """The neighbouring relations for which it has a proof."""

    @property
    def models(self) -> tuple[type[Model], ...]:
        """The classes of the models that `fit` may return."""

    def fit(self, curator: Curator) -> Model:
        """Spend the curator's budget and return a model."""

    def plan(self, schema: Schema, budget: Budget, public: PublicFacts) -> list[Planned]:
        """What `fit` will ask for and what each question will cost, from public facts only."""


@runtime_checkable
class Selection(Method, Protocol):
    """A method that tries several others and keeps the model of one."""

    @property
    def candidates(self) -> Sequence[Method]:
        """The methods that it tries."""

    @property
    def parameters(self) -> dict[str, Any]:
        """What the card says of it, besides which candidates won."""

    def choose(self, curator: Curator) -> tuple[int, Model]:
        """Spend the curator's budget and return which candidate won, with its model."""


@runtime_checkable
class PlansAnalyses(Method, Protocol):
    """A method that takes planned regressions of whole rows into account."""

    def for_analyses(self, analyses: Sequence[PlannedAnalysis], schema: Schema) -> Self:
        """The same method with parameters that put the tables of these analyses before everything else.

        Depends on formulas and schema alone; its parameters are all that is needed to run it again.
        """


@runtime_checkable
class FitsAgain(Method, Protocol):
    """A method that is fitted sooner to rows of which it knows a model: where a mechanism is run again and again."""

    def fit_near(self, curator: Curator, model: Any) -> Model:
        """What `fit` gives, to a hundredth of a standard error, found from an earlier model of much the same rows.

        Privacy
        -------
        As `fit`; the earlier model decides nothing but where its search begins.
        """


def require_relation(method: Method, relation: str) -> None:
    """Refuse a neighbouring relation for which the method has no proof, and say what to use instead."""
    if relation in method.relations:
        return
    from dipsmith.methods.catalogue import METHODS  # imported late: it imports this module

    able = [name for name in METHODS if relation in getattr(METHODS[name], "relations", ())]
    raise UnsupportedError(
        f"{method.name} runs under neighbours {' or '.join(method.relations)}, and the schema says {relation}; "
        f"use {', '.join(able[:-1])} or {able[-1]}"
    )


def require_members(method: Method, schema: Schema) -> None:
    """Refuse a method that knows no households, where the schema has members, and say which one to use."""
    if schema.members is None or getattr(method, "makes_members", False):
        return
    from dipsmith.methods.catalogue import METHODS  # imported late: it imports this module

    able = " or ".join(name for name in METHODS if getattr(METHODS[name], "makes_members", False))
    raise UnsupportedError(f"{method.name} makes one table, and the schema has households with members; use {able}")


def knob(least: int, most: int, step: int, label: str) -> dict[str, tuple[int, int, int, str]]:
    """Metadata of a parameter that people may want to turn: its range, and what it does in a few words.

    >>> from dataclasses import field
    >>> field(default=1, metadata=knob(1, 10, 1, "trees")).metadata["knob"]
    (1, 10, 1, 'trees')
    """
    return {"knob": (least, most, step, label)}


@dataclass(frozen=True)
class CountNoise:
    """The noise that a count will carry: its standard deviation and the name of its law."""

    sd: float
    mechanism: str


def count_noise(relation: str, max_rows: int, budget: Budget, *, single: bool = False) -> CountNoise:
    """The noise on a table of counts measured with `budget`, known before anything is spent."""
    noise = noise_for(relation, max_rows, budget, single=single)
    return CountNoise(noise.variance**0.5, "discrete Laplace" if budget.currency == "epsilon" else "discrete Gaussian")
