"""Making the sets of a release from fitted models: post-processing of noisy numbers, and public columns.

A `RowMaker` makes them: this machine's memory, or the workers of a cluster whose table is replaced (`synthesis.cluster`).
A `Recipe` says what they are made from, and what comes out are `Sets`.

Under `label` the public rows are first of all taken out of the file's order: they are sorted by what they say, then put
in an order drawn by the operating system's randomness, a fresh one for every set, and only then labelled.
Whatever is computed from them in order, by a seed or not, therefore knows nothing of the file's order. Rows of
another file, given with `onto`, keep that file's order, which the steward says is public; but if they are the private
table's own rows in another form, they are treated as such.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
import pyarrow as pa

from dipsmith.analyses.results import Result
from dipsmith.errors import UsageError
from dipsmith.privacy.curator import Progress
from dipsmith.privacy.randomness import Stream
from dipsmith.schema import Schema
from dipsmith.schema.households import members_of
from dipsmith.sources import Source
from dipsmith.sources.source import companion
from dipsmith.synthesis.canonical import PublicRows, as_type, canonical_type
from dipsmith.synthesis.careers import Careers, label_source, read_careers
from dipsmith.synthesis.exit import TYPES, Exit
from dipsmith.synthesis.fitted import FittedModel, labelled_table
from dipsmith.synthesis.households import drawn_tables
from dipsmith.synthesis.planned import Calibration
from dipsmith.synthesis.report import Glance

LEAST_BYTES = 8
"""What a value of a synthetic row takes in memory at least."""


@dataclass(frozen=True, eq=False)
class Recipe:
    """What the sets of a release are made from.

    One model for all sets, or one for each; `private` is the confidential table. The stream draws the order of rows; the seed
    repeats the drawing from the models, None draws freshly. `calibration` holds what labels are made to carry.
    """

    schema: Schema
    models: tuple[FittedModel, ...]
    private: Source
    sets: int
    stream: Stream
    seed: int | None
    progress: Progress | None
    calibration: Calibration | None = None

    @property
    def models_and_seeds(self) -> tuple[tuple[FittedModel, int | None], ...]:
        """The model of each set, and the seed that repeats it."""
        seeds = [None if self.seed is None else self.seed + i for i in range(self.sets)]
        return tuple((self.models[i % len(self.models)], seed) for i, seed in enumerate(seeds))

    @property
    def labelled_columns(self) -> tuple[str, ...]:
        """What is released under `label`: the public columns and the labels, after new numbers where the link is public."""
        columns = {*self.schema.public, *self.models[0].labeller().targets}
        link = () if self.schema.linked is None else (self.schema.linked,)
        return (*link, *(n for n in self.schema.names if n in columns))

    def each(self, stage: str) -> Iterator[tuple[FittedModel, int | None]]:
        """Go through the sets, telling how far it is."""
        for i, pair in enumerate(self.models_and_seeds):
            self.tell(stage, i / self.sets)
            yield pair
        self.tell(stage, 1.0)

    def tell(self, stage: str, share: float) -> None:
        """Tell how much of a stage is done."""
        if self.progress is not None:
            self.progress(stage, share)


class Sets(Sequence[pa.Table]):
    """The synthetic sets of a release, each of the same columns and number of rows."""

    in_memory: ClassVar[bool]
    """Whether they can be looked at before they are saved."""
    columns: tuple[str, ...]
    rows: int
    members: tuple[pa.Table, ...] = ()
    """The members of each set's households, where rows are households."""
    results: tuple[Result, ...] = ()
    """Planned results with what the rows of the first set give, where it is known from drawing them."""

    @abstractmethod
    def __getitem__(self, i: Any) -> Any:
        """A set by its number; or one table of every set, by its name."""

    @abstractmethod
    def save(self, out: Exit, schema: Schema, format: str, *, escape: bool) -> Glance:  # noqa: A002
        """Write every set to the folder of a release; return what the report tells of the first."""


class RowMaker(Protocol):
    """Where synthetic rows are made."""

    def require_output(self, folder: Path, format: str) -> None:  # noqa: A002
        """Refuse a folder or a format that cannot be written from here, while nothing is spent."""

    def require_room(self, schema: Schema, sets: int, rows: int | None) -> None:
        """Refuse more rows than can be made here, while nothing is spent; public numbers alone decide."""

    def draw(self, recipe: Recipe, rows: int) -> Sets:
        """Draw whole rows."""

    def label(self, recipe: Recipe) -> Sets:
        """The public columns of this place's table as they stand, beside drawn labels, in an order that tells nothing."""

    def label_rows(self, model: FittedModel, seed: int | None, out: str | None) -> Any:
        """The table of this place, in its order, with labels of a model: a table, or the folder `out`."""

    def draw_rows(self, model: FittedModel, rows: int | None, seed: int | None, out: str) -> Any:
        """Rows of a model, in the folder `out`."""


def maker_of(target: Source) -> RowMaker:
    """Where rows are made that take the place of a source's, or label them."""
    place: RowMaker = (companion(target, "maker") or InMemory)(target)
    return place


def require_memory(schema: Schema, sets: int, rows: int | None) -> None:
    """Refuse more rows than the memory of this machine holds."""
    if rows is None or not hasattr(os, "sysconf"):
        return
    most = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    people = None if schema.members is None else schema.members.schema
    values = len(schema.names) + (0 if people is None else people.unit.max_rows * len(people.names))
    if rows * sets * values * LEAST_BYTES > most:
        raise UsageError(
            f"rows is {rows}, which with {len(schema.names)} columns and {sets} set{'s' if sets > 1 else ''} is more "
            f"than the {most / 1e9:,.0f} GB of memory here; ask for fewer, and draw more from the saved model in parts"
        )


@dataclass(frozen=True, eq=False)
class TableSets(Sets):
    """Sets in this machine's memory."""

    tables: tuple[pa.Table, ...]
    members: tuple[pa.Table, ...] = ()
    names: tuple[str, ...] = ()
    results: tuple[Result, ...] = ()
    in_memory: ClassVar[bool] = True

    @classmethod
    def of(cls, made: Sequence[Mapping[str, pa.Table]]) -> TableSets:
        """Sets of one table each, or of households and their members, by their names."""
        names = tuple(made[0])
        tables = [tuple(one[name] for one in made) for name in names]
        return cls(tables[0], tables[1] if len(tables) > 1 else (), names)

    def __len__(self) -> int:
        return len(self.tables)

    def __getitem__(self, i: Any) -> Any:
        if not isinstance(i, str):
            return self.tables[i]
        if i not in self.names:
            raise UsageError(f"there is no table '{i}'; there are: {', '.join(self.names) or 'sets by number'}")
        return self.members if i in self.names[1:] else self.tables

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        """The columns of each set."""
        return tuple(self.tables[0].column_names)

    @property
    def rows(self) -> int:  # type: ignore[override]
        """How many rows each set has."""
        return int(self.tables[0].num_rows)

    def save(self, out: Exit, schema: Schema, format: str, *, escape: bool) -> Glance:  # noqa: A002
        """Write every set as one file."""
        for i, table in enumerate(self.tables, start=1):
            out.table(f"synthetic-{i}.{format}", _canonical(table, schema), schema, escape=escape)
        for i, table in enumerate(self.members, start=1):
            people = members_of(schema).schema
            out.table(f"synthetic-{i}-{people.name}.{format}", _canonical(table, people), people, escape=escape)
        return Glance.of(self.tables[0], schema)


@dataclass(frozen=True, eq=False)
class InMemory:
    """The memory of this machine.

    Under `label` the target's rows are labelled: the confidential table's, or those of another, public file, which keep their order.
    """

    target: Source

    def require_output(self, folder: Path, format: str) -> None:  # noqa: A002
        """Every folder and format will do."""

    def require_room(self, schema: Schema, sets: int, rows: int | None) -> None:
        """Refuse rows that cannot be held here."""
        require_memory(schema, sets, rows)

    def draw(self, recipe: Recipe, rows: int) -> TableSets:
        """Draw whole rows."""
        made = [drawn_tables(model.inner.sample(rows, seed), seed) for model, seed in recipe.each("drawing")]
        return TableSets.of(made)

    def label(self, recipe: Recipe) -> TableSets:
        """Label the target's rows.

        Privacy
        -------
        Reads public columns only; see `PublicRows` for what is left of the file they came from.
        """
        recipe.tell("labelling", 0.0)
        names, wanted = recipe.schema.public, recipe.labelled_columns
        calibration = recipe.calibration if self.target is recipe.private else None
        if calibration is not None and calibration.prepared.reading.careers is None:
            known = calibration.prepared.reading.public.rows
            made = [
                calibration.table(model.labeller(), recipe.stream.permutation(known), seed)
                for model, seed in recipe.each("labelling")
            ]
            return TableSets(tuple(table.select(wanted) for table, _ in made), results=made[0][1])
        if calibration is None:
            public, careers = read_careers(self.target, recipe.schema, names, recipe.schema.linked)
        else:
            public, careers = calibration.prepared.reading.public, calibration.prepared.reading.careers
        in_file_order = self._is_another_table(public, recipe)
        if careers is not None:
            return self._label_careers(recipe, public, careers, calibration, in_file_order=in_file_order)
        order = np.arange(public.rows) if in_file_order else public.order()
        tables = []
        for model, seed in recipe.each("labelling"):
            rows = order if in_file_order else order[recipe.stream.permutation(public.rows)]
            tables.append(labelled_table(model.labeller(), public.table(rows), seed).select(wanted))
        return TableSets(tuple(tables))

    def _label_careers(
        self,
        recipe: Recipe,
        public: PublicRows,
        careers: Careers,
        calibration: Calibration | None,
        *,
        in_file_order: bool,
    ) -> TableSets:
        """Label rows that belong together, and number whom they belong to anew."""
        wanted, tables = recipe.labelled_columns, []
        for model, seed in recipe.each("labelling"):
            drawn = careers.order[recipe.stream.permutation(public.rows)]
            rows = np.arange(public.rows) if in_file_order else drawn
            made = careers.table(model.labeller(), public, rows, seed, calibration)
            numbers = careers.numbers(recipe.stream.permutation(careers.units))
            made = made.append_column(wanted[0], pa.array(numbers[careers.places[rows]]))
            tables.append(made.select(wanted))
        return TableSets(tuple(tables))

    def label_rows(self, model: FittedModel, seed: int | None, out: str | None) -> pa.Table:
        """The rows of the target with labels, as a table; beside them their unit, where labels are shared by one's rows."""
        if out is not None:
            raise UsageError("out= is for rows on a Spark cluster; here the labelled table is returned")
        labeller = model.labeller()
        return label_source(labeller, self.target, seed)

    def draw_rows(self, model: FittedModel, rows: int | None, seed: int | None, out: str) -> Any:
        """There is no folder to write here."""
        raise UsageError("drawing on a cluster needs both on= a Spark frame or source and out= a folder")

    def _is_another_table(self, public: PublicRows, recipe: Recipe) -> bool:
        """Whether the rows to label are others than the private table's: then their order is theirs to keep."""
        if self.target is recipe.private:
            return False
        names = recipe.schema.public
        return not public.has_the_rows_of(PublicRows.of(recipe.private.batches(names), recipe.schema, names))


def _canonical(table: pa.Table, schema: Schema) -> pa.Table:
    """A table whose columns are of the types that are released: those that a version before this one read may not be."""
    for i, (name, stored) in enumerate(zip(table.column_names, table.schema.types, strict=True)):
        if stored not in TYPES:
            kind = canonical_type(stored, schema[name])
            chunks = [as_type(chunk, kind) for chunk in table.column(i).chunks]
            table = table.set_column(i, name, pa.chunked_array(chunks, kind))
    return table
