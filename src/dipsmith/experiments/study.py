"""Study files: the keys, what they may hold, and what is wrong with a file in one line.

A study is a YAML file. It names the rows (a simulated example, or a file), the methods with the parameters that are
varied, the number of repeats, and metrics and analyses by name. Nothing in it is code. Whatever is wrong with a file is
told in one line with the place in the file and the remedy, before anything is run.

Rows that somebody must protect go through the ledger: a file needs either ``ledger:`` (every run is charged, every
comparison is a logged look) or ``public:`` with the reason why it needs no protection.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields as parameters_of
from difflib import get_close_matches
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, StrictFloat, Tag, model_validator

from dipsmith.errors import InputError, SchemaError
from dipsmith.experiments.ranges import Range
from dipsmith.methods.catalogue import METHODS
from dipsmith.schema.markup import Document, Problem, check, in_file, read_text

RUN_PARAMETERS = ("epsilon", "rho", "delta", "epsilon_times", "sets", "each", "rows", "schema")
"""What a run is given besides the parameters of its method."""
REAL, WHOLE = ("epsilon", "rho", "delta"), ("sets", "rows")
"""Those of them that are numbers."""
Example = Literal["personnel", "voters", "regression"]


class StudyPart(BaseModel):
    """A mapping of the file; unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=lambda name: name.rstrip("_"))

    def refuse_if(self, wrong: Mapping[str, bool]) -> Self:
        """Raise the first message that is true of this entry."""
        for message, is_true in wrong.items():
            if is_true:
                raise ValueError(message)
        return self


class RangeEntry(StudyPart):
    """``{from: 0.1, to: 2, scale: log}`` in the study file."""

    from_: StrictFloat
    to: StrictFloat
    scale: Literal["linear", "log"] = "linear"

    @model_validator(mode="after")
    def _check(self) -> Self:
        low, high = self.from_, self.to
        return self.refuse_if(
            {
                "a range ends; give finite numbers for 'from' and 'to'": not (isfinite(low) and isfinite(high)),
                f"from is {low:g} and to is {high:g}; 'from' must be the smaller one": not low < high,
                f"from is {low:g}; a logarithmic range starts above 0": self.scale == "log" and low <= 0,
            }
        )


Levels = list[Any] | dict[str, Any] | RangeEntry


def _kind(value: Any) -> str:
    """What levels are: a list, names with values, or (where an end is given) a range."""
    if isinstance(value, dict):
        return "<range>" if {"from", "to"} & value.keys() else "<names>"
    return "<range>" if isinstance(value, RangeEntry) else "<list>"


VariedSettings = dict[
    str,
    Annotated[
        Annotated[list[Any], Tag("<list>")]
        | Annotated[dict[str, Any], Tag("<names>")]
        | Annotated[RangeEntry, Tag("<range>")],
        Discriminator(_kind),
        BeforeValidator(lambda value: value if isinstance(value, list | dict) else [value]),
    ],
]


class DataEntry(StudyPart):
    """Which rows: a simulated example, or a file with its schema."""

    example: Example | None = None
    rows: int | None = None
    years: list[int] | None = None
    model: Literal[1, 2] | None = None
    neighbours: Literal["add-remove", "replace", "label"] | None = None
    file: str | None = None
    schema_: str | None = None
    ledger: str | None = None
    public: str | None = None

    @property
    def private(self) -> bool:
        """Whether the rows need protection."""
        return self.ledger is not None

    @model_validator(mode="after")
    def _check(self) -> Self:
        file, example = self.file is not None, self.example is not None
        return self.refuse_if(
            {
                f"give either 'example' (one of {', '.join(get_args(Example))}) or 'file' with its 'schema'": example
                == file,
                "a file needs 'schema', the file that describes its columns": file and self.schema_ is None,
                "a file needs either 'ledger' (its rows are private: every run is charged) or 'public' (why they "
                "need no protection)": file and (self.ledger is None) == (self.public is None),
                "simulated rows are free; leave 'ledger', 'public' and 'schema' out (vary 'schema' to change columns)": (
                    example and bool(self.ledger or self.public or self.schema_)
                ),
                "'rows', 'years', 'model' and 'neighbours' are for simulated examples": (
                    file and bool(self.years or self.model or self.neighbours or self.rows)
                ),
            }
        )


class MethodEntry(StudyPart):
    """A method, what is fixed and what is varied of its parameters."""

    method: str
    name: str = ""
    set: dict[str, Any] = {}
    vary: VariedSettings = {}

    @property
    def label(self) -> str:
        """What it is called in tables and figures."""
        return self.name or self.method

    @property
    def parameters(self) -> dict[str, str]:
        """The parameters of the method and their types."""
        return {f.name: str(f.type) for f in parameters_of(METHODS[self.method])}  # type: ignore[arg-type]

    def range_of(self, parameter: str, entry: RangeEntry) -> Range:
        """The numbers of a ranged parameter: whole ones where it takes no others."""
        kinds = self.parameters.get(parameter, "").split(" | ")
        whole = not (parameter in REAL or "float" in kinds)
        if whole and parameter not in WHOLE and "int" not in kinds:
            raise ValueError(f"'{parameter}' of {self.method} is no number; list its levels instead of a range")
        for end, value in (("from", entry.from_), ("to", entry.to)):
            if whole and (value != int(value) or value < 1):
                raise ValueError(
                    f"{parameter}: {end} is {value:g}, but '{parameter}' of {self.method} takes whole numbers from 1 on"
                )
        return Range(entry.from_, entry.to, entry.scale == "log", whole)

    @model_validator(mode="after")
    def _refuse_unknown(self) -> Self:
        if self.method not in METHODS:
            raise ValueError(f"method '{self.method}' is unknown; choose one of: {', '.join(METHODS)}")
        known = self.parameters
        for name in (*self.set, *self.vary):
            if name not in known and name not in RUN_PARAMETERS:
                close = get_close_matches(name, [*known, *RUN_PARAMETERS], 1, 0.6)
                hint = f"did you mean '{close[0]}'?" if close else f"it has: {', '.join(sorted(known))}"
                raise ValueError(f"{self.method} has no parameter '{name}'; {hint}")
        for name, levels in self.vary.items():
            if isinstance(levels, RangeEntry):
                self.range_of(name, levels)
        return self


class AnalysisEntry(StudyPart):
    """A regression that is made on both tables."""

    formula: str
    name: str = ""
    by: str | None = None
    reference: dict[str, Any] = {}
    family: Literal["auto", "ols", "ridge", "logistic", "firth"] = "auto"
    terms: list[str] = []
    separate: Literal["noise-aware", "combine"] = "noise-aware"

    @property
    def label(self) -> str:
        """What it is called in tables and figures."""
        return self.name or self.formula


class FigureEntry(StudyPart):
    """An interaction plot: `x` along the axis, `lines` by one parameter, `panels` left and right by another."""

    metric: str
    lines: str | None = None
    panels: str | None = None
    x: str | None = None
    over: Literal["level"] | None = None
    terms: list[str] = []
    where: dict[str, Any] = {}
    title: str = ""
    log: bool = False


class ClaimEntry(StudyPart):
    """A sentence that the results can refute.

    Either about a term of the analysis of variance (`term` with `share_below`, `share_above`, `p_below` or `largest`), or
    about means: `better` than `than`, each given by levels of factors.
    """

    says: str
    metric: str
    coefficient: str | None = None
    term: list[str] = []
    share_below: float | None = None
    share_above: float | None = None
    p_below: float | None = None
    largest: bool = False
    better: dict[str, Any] = {}
    than: dict[str, Any] = {}
    where: dict[str, Any] = {}

    @model_validator(mode="after")
    def _check(self) -> Self:
        tests = [self.share_below, self.share_above, self.p_below, self.largest or None]
        about_term = bool(self.term) and sum(t is not None for t in tests) == 1
        about_means = bool(self.better) and bool(self.than) and not self.term
        message = "a claim has 'term' with one of share_below, share_above, p_below, largest; or 'better' and 'than'"
        return self.refuse_if({message: about_term == about_means})


class DesignEntry(StudyPart):
    """Which combinations are run: a D-optimal fraction of so many, or so many drawn at random."""

    fractional: int | None = None
    random: int | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        one = (self.fractional is None) != (self.random is None)
        return self.refuse_if(
            {
                "design is 'full', {fractional: RUNS} or {random: RUNS}; RUNS is a number of settings": not one,
                "a design needs at least 2 settings": (self.fractional or self.random or 0) < 2,
            }
        )


class StudyEntry(StudyPart):
    """The whole file."""

    name: str
    question: str
    title: str = ""
    data: DataEntry
    methods: list[MethodEntry]
    set: dict[str, Any] = {}
    vary: VariedSettings = {}
    design: Annotated[
        Annotated[Literal["full"], Tag("full")] | Annotated[DesignEntry, Tag("part")],
        Discriminator(lambda given: "part" if isinstance(given, dict | DesignEntry) else "full"),
    ] = "full"
    repeats: int = 3
    seed: int = 0
    metrics: list[str] = []
    analyses: list[AnalysisEntry] = []
    figures: list[FigureEntry] = []
    claims: list[ClaimEntry] = []
    text: str | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        labels = [m.label for m in self.methods]
        self.refuse_if(
            {
                f"name is '{self.name}'; use lower-case letters, digits, '-' and '_', as in a file name": (
                    not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,60}", self.name)
                ),
                "methods is empty; give at least one: '- {method: forest}'": not self.methods,
                "nothing is measured; give 'metrics' (names) or 'analyses' (formulas)": (
                    not self.metrics and not self.analyses
                ),
                f"repeats is {self.repeats}, expected 1 or more": self.repeats < 1,
                "two methods have the same name; give each its own 'name'": len(set(labels)) < len(labels),
            }
            | {
                f"'{name}' is varied for all methods but is no parameter of all; put it under the method, or use one "
                f"of {', '.join(RUN_PARAMETERS)}": not all(name in m.parameters for m in self.methods)
                for name in (*self.set, *self.vary)
                if name not in RUN_PARAMETERS
            }
        )
        gridded = self.design == "full" or self.design.random is None
        for method in self.methods:
            given = {*self.set, *self.vary, *method.set, *method.vary}
            if ("epsilon" in given) == ("rho" in given):
                raise ValueError(f"method '{method.label}' needs a budget: epsilon or rho, under 'set' or 'vary'")
            for name, levels in (self.vary | method.vary).items():
                if isinstance(levels, RangeEntry) and method.range_of(name, levels) and gridded:
                    raise ValueError(
                        f"'{name}' is a range, which has no grid; add 'design: {{random: 40}}' (settings for each method), or "
                        "list its levels"
                    )
        return self


MAX_CHARACTERS = 1_000_000

_NEEDED = {
    "name": "a short name, as in a file name",
    "question": "one sentence that says what the study answers",
    "data": "which rows: 'data: {example: personnel, rows: 5000}'",
    "methods": "a list: 'methods: [{method: forest, vary: {n_b: [25, 500]}}]'",
    "method": f"one of {', '.join(METHODS)}",
    "formula": "e.g. 'log(pay) ~ sex + race + age | agency'",
    "metric": "the name of a metric or analysis of this study",
    "says": "the sentence that the results may refute",
}


def read(path: str | Path) -> StudyEntry:
    """Read a study file, or say in one line what is wrong: the file, the line, the field and what to do."""
    return parse(text_of(path), Path(path).name)


def text_of(path: str | Path) -> str:
    """The text of a study file."""
    try:
        return read_text(Path(path), "study", MAX_CHARACTERS)
    except SchemaError:
        raise InputError(f"study '{path}' cannot be read; give the path of a YAML file") from None


def parse(text: str, name: str = "study") -> StudyEntry:
    """A study from its text; see `read`."""
    try:
        document = Document.of(text, typed=True, limit=MAX_CHARACTERS)
    except SchemaError as error:
        raise InputError(in_file(name, str(error))) from None
    if not isinstance(document.data, dict):
        raise InputError(f"{name}: a study is a mapping of keys (name, question, data, methods, …), got something else")
    found = check(StudyEntry, document.data, _NEEDED, {})
    if isinstance(found, Problem):
        field = "".join(f"[{p + 1}]" if isinstance(p, int) else f".{p}" for p in found.place).lstrip(".")
        where = f"line {document.line(found.place)}: {field}: " if field else ""
        what = {"unknown": "unknown key; ", "missing": "missing; ", "value": ""}[found.kind]
        raise InputError(in_file(name, where + what + found.remedy))
    return found
