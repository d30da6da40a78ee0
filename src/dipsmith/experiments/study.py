"""The study file: what is varied, on which rows, how often, and what is measured.

A study is a YAML file. It names the rows (a simulated example, or a file), the methods with the parameters that are
varied, the number of repeats, and metrics and analyses by name. Nothing in it is code. Whatever is wrong with a file is
told in one line with the place in the file and the remedy, before anything is run.

Rows that somebody must protect go through the ledger: a file needs either ``ledger:`` (every run is charged, every
comparison is a logged look) or ``public:`` with the reason why it needs no protection.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields as parameters_of
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, model_validator

from dipsmith.errors import InputError
from dipsmith.methods.catalogue import METHODS

RUN_PARAMETERS = ("epsilon", "rho", "delta", "epsilon_times", "sets", "each", "rows", "schema")
"""What a run is given besides the parameters of its method."""
EXAMPLES = ("personnel", "voters", "regression")

Levels = list[Any] | dict[str, Any]


def _listed(value: Any) -> Any:
    return value if isinstance(value, list | dict) else [value]


Varied = dict[str, Annotated[Levels, BeforeValidator(_listed)]]


class Entry(BaseModel):
    """A mapping of the file; unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class DataEntry(Entry):
    """Which rows: a simulated example, or a file with its schema."""

    example: Literal["personnel", "voters", "regression"] | None = None
    rows: int | None = None
    years: list[int] | None = None
    model: Literal[1, 2] | None = None
    neighbours: Literal["add-remove", "replace", "label"] | None = None
    file: str | None = None
    schema_: str | None = None
    ledger: str | None = None
    public: str | None = None

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=lambda name: name.rstrip("_"))

    @property
    def private(self) -> bool:
        """Whether the rows need protection."""
        return self.ledger is not None

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if (self.example is None) == (self.file is None):
            raise ValueError(
                f"give either 'example' (one of {', '.join(EXAMPLES)}) or 'file' with its 'schema'"
            )
        if self.file is not None and self.schema_ is None:
            raise ValueError("a file needs 'schema', the file that describes its columns")
        if self.file is not None and (self.ledger is None) == (self.public is None):
            raise ValueError(
                "a file needs either 'ledger' (its rows are private: every run is charged) or 'public' (why they "
                "need no protection)"
            )
        if self.example is not None and (self.ledger or self.public or self.schema_):
            raise ValueError(
                "simulated rows are free; leave 'ledger', 'public' and 'schema' out (vary 'schema' to change columns)"
            )
        if self.file is not None and (self.years or self.model or self.neighbours or self.rows):
            raise ValueError("'rows', 'years', 'model' and 'neighbours' are for simulated examples")
        return self


class MethodEntry(Entry):
    """A method, what is fixed and what is varied of its parameters."""

    method: str
    name: str = ""
    set: dict[str, Any] = {}
    vary: Varied = {}

    @property
    def label(self) -> str:
        """What it is called in tables and figures."""
        return self.name or self.method

    @model_validator(mode="after")
    def _known(self) -> Self:
        if self.method not in METHODS:
            raise ValueError(f"method '{self.method}' is unknown; choose one of: {', '.join(METHODS)}")
        known = {f.name for f in parameters_of(METHODS[self.method])}  # type: ignore[arg-type]
        for name in (*self.set, *self.vary):
            if name not in known and name not in RUN_PARAMETERS:
                close = get_close_matches(name, [*known, *RUN_PARAMETERS], 1, 0.6)
                hint = f"did you mean '{close[0]}'?" if close else f"it has: {', '.join(sorted(known))}"
                raise ValueError(f"{self.method} has no parameter '{name}'; {hint}")
        return self


class AnalysisEntry(Entry):
    """A regression that is made on both tables."""

    formula: str
    name: str = ""
    by: str | None = None
    reference: dict[str, Any] = {}
    family: Literal["auto", "ols", "ridge", "logistic", "firth"] = "auto"
    terms: list[str] = []

    @property
    def label(self) -> str:
        """What it is called in tables and figures."""
        return self.name or self.formula


class FigureEntry(Entry):
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


class ClaimEntry(Entry):
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
    def _one_kind(self) -> Self:
        tests = [self.share_below, self.share_above, self.p_below, self.largest or None]
        about_term = bool(self.term) and sum(t is not None for t in tests) == 1
        about_means = bool(self.better) and bool(self.than) and not self.term
        if about_term == about_means:
            raise ValueError(
                "a claim has 'term' with one of share_below, share_above, p_below, largest; or 'better' and 'than'"
            )
        return self


class DesignEntry(Entry):
    """Which combinations are run: a D-optimal fraction of so many, or so many drawn at random."""

    fractional: int | None = None
    random: int | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.fractional is None) == (self.random is None):
            raise ValueError(
                "design is 'full', {fractional: RUNS} or {random: RUNS}; RUNS is a number of settings"
            )
        if (self.fractional or self.random or 0) < 2:
            raise ValueError("a design needs at least 2 settings")
        return self


class StudyEntry(Entry):
    """The whole file."""

    name: str
    question: str
    title: str = ""
    data: DataEntry
    methods: list[MethodEntry]
    set: dict[str, Any] = {}
    vary: Varied = {}
    design: Literal["full"] | DesignEntry = "full"
    repeats: int = 3
    seed: int = 0
    metrics: list[str] = []
    analyses: list[AnalysisEntry] = []
    figures: list[FigureEntry] = []
    claims: list[ClaimEntry] = []
    text: str | None = None

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,60}", self.name):
            raise ValueError(
                f"name is '{self.name}'; use lower-case letters, digits, '-' and '_', as in a file name"
            )
        if not self.methods:
            raise ValueError("methods is empty; give at least one: '- {method: forest}'")
        if not self.metrics and not self.analyses:
            raise ValueError("nothing is measured; give 'metrics' (names) or 'analyses' (formulas)")
        if self.repeats < 1:
            raise ValueError(f"repeats is {self.repeats}, expected 1 or more")
        labels = [m.label for m in self.methods]
        if len(set(labels)) < len(labels):
            raise ValueError("two methods have the same name; give each its own 'name'")
        for name in (*self.set, *self.vary):
            if name not in RUN_PARAMETERS and not all(
                name in {f.name for f in parameters_of(METHODS[m.method])}  # type: ignore[arg-type]
                for m in self.methods
            ):
                raise ValueError(
                    f"'{name}' is varied for all methods but is no parameter of all; put it under the method, or use one "
                    f"of {', '.join(RUN_PARAMETERS)}"
                )
        for method in self.methods:
            given = {*self.set, *self.vary, *method.set, *method.vary}
            if ("epsilon" in given) == ("rho" in given):
                raise ValueError(
                    f"method '{method.label}' needs a budget: epsilon or rho, under 'set' or 'vary'"
                )
        return self


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
    """Read a study file.

    Raises
    ------
    InputError
        One line: the file, the line, the field, what is wrong and what to do.
    """
    place = Path(path)
    try:
        text = place.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        raise InputError(f"study '{path}' cannot be read; give the path of a YAML file") from None
    return parse(text, place.name)


MOST_CHARACTERS, DEEPEST, LONGEST = 1_000_000, 20, 600


def shortened(message: str) -> str:
    """A message that quotes something very long, with its middle left out."""
    return message if len(message) <= LONGEST else f"{message[: LONGEST // 2]} … {message[-LONGEST // 2 :]}"


def _refuse_bombs(text: str, loader: Any, name: str) -> None:
    """Refuse what grows when it is read: aliases that stand for one another, nesting without end."""
    if len(text) > MOST_CHARACTERS:
        raise InputError(f"{name}: {len(text):,} characters are more than any study needs; shorten it")
    depth = 0
    for event in yaml.parse(text, Loader=loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            raise InputError(f"{name}, line {line}: aliases (*) are not supported; write the value out")
        if depth > DEEPEST:
            raise InputError(f"{name}, line {line}: nested more than {DEEPEST} deep; no study needs that")


def parse(text: str, name: str = "study") -> StudyEntry:
    """A study from its text; see `read`."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _refuse_bombs(text, loader, name)
        tree = yaml.compose(text, Loader=loader)
        _refuse_twice(tree, name)
        data = yaml.load(text, Loader=loader)  # noqa: S506 — the safe loader, written in C
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark is not None else ""
        problem = " ".join(str(getattr(error, "problem", None) or "unreadable text").split())
        raise InputError(
            f"{name}{line}: not valid YAML ({problem}); check indentation, colons and quotes"
        ) from None
    except (ValueError, TypeError):
        raise InputError(
            f"{name}: a date that does not exist, or a list or mapping in place of a key; correct or quote it"
        ) from None
    if not isinstance(data, dict):
        raise InputError(
            f"{name}: a study is a mapping of keys (name, question, data, methods, …), got something else"
        )
    try:
        return StudyEntry.model_validate(data)
    except ValidationError as error:
        # A key that is not known explains most; of a union, the branch that was meant explains more than the others.
        kinds = ("extra_forbidden", "value_error")
        first = min(
            error.errors(include_url=False),
            key=lambda e: kinds.index(e["type"]) if e["type"] in kinds else len(kinds),
        )
        raise InputError(shortened(_explain(first, tree, name))) from None


def _refuse_twice(node: Any, name: str) -> None:
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if key.value in seen:
                raise InputError(
                    f"{name}, line {key.start_mark.line + 1}: '{key.value}' is given twice; keep one of them"
                )
            seen.add(key.value)
            _refuse_twice(value, name)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _refuse_twice(item, name)


def _explain(error: Any, tree: Any, name: str) -> str:
    path = [p for p in error["loc"] if not _is_branch(p)]
    line, known = _line_of(tree, path)
    field = "".join(f"[{p + 1}]" if isinstance(p, int) else f".{p}" for p in path).lstrip(".")
    where = f"{name}, line {line}: {field}: " if field else f"{name}: "
    kind = error["type"]
    if kind == "extra_forbidden":
        close = get_close_matches(str(path[-1]), known, 1, 0.6)
        wanted = _keys_at(path)
        close = close or get_close_matches(str(path[-1]), wanted, 1, 0.6)
        return f"{where}unknown key; " + (
            f"did you mean '{close[0]}'?" if close else f"known keys: {', '.join(wanted)}"
        )
    if kind == "missing":
        return f"{where}missing; {_NEEDED.get(str(path[-1]), 'add it')}"
    if kind == "value_error":
        return where + str(error["msg"]).removeprefix("Value error, ")
    wanted_type = error["msg"].removeprefix("Input should be ").removeprefix("a valid ").split(", unable")[0]
    return f"{where}must be {wanted_type}, got {_short(error['input'])}"


def _is_branch(part: Any) -> bool:
    """Pydantic names the branch of a union in the path; a reader of the file has not written it."""
    return isinstance(part, str) and (
        part in ("DesignEntry", "list[any]", "dict[str,any]", "literal['full']")
        or part.startswith(("function-", "list[", "dict[", "literal["))
    )


def _keys_at(path: Sequence[Any]) -> list[str]:
    model: Any = StudyEntry
    homes: Mapping[str, type[Entry]] = {
        "data": DataEntry,
        "methods": MethodEntry,
        "analyses": AnalysisEntry,
        "figures": FigureEntry,
        "design": DesignEntry,
        "claims": ClaimEntry,
    }
    for part in path[:-1]:
        model = homes.get(str(part), model)
    return [f.alias or n for n, f in model.model_fields.items()]


def _line_of(tree: Any, path: Sequence[Any]) -> tuple[int, list[str]]:
    """The line of a place in the file (or of the nearest place that exists), and the keys beside it."""
    node, line, known = tree, 1, []
    for part in path:
        found = next(_children(node, part), None)
        known = [k.value for k, _ in node.value] if isinstance(node, yaml.MappingNode) else []
        if found is None:
            break
        line, node = found
    return line, [k for k in known if path and k != path[-1]]


def _children(node: Any, part: Any) -> Iterator[tuple[int, Any]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == str(part):
                yield key.start_mark.line + 1, value
    elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        yield node.value[part].start_mark.line + 1, node.value[part]


def _short(value: object) -> str:
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    text = " ".join(str(value).split())
    return f"'{text[:60]}…'" if len(text) > 60 else f"'{text}'"
