"""A release: synthetic tables, the models they were drawn from, the card — and nothing confidential."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from dipsmith.analyses.results import Result, results_text
from dipsmith.codec.decode import codebook
from dipsmith.errors import DipsmithError, InputError, SchemaError, UsageError
from dipsmith.estimation.measured_table import MeasuredTable
from dipsmith.regression.analysis import Family
from dipsmith.report.content import Page
from dipsmith.report.explorer import FILE as EXPLORER
from dipsmith.report.sections import frame, page
from dipsmith.schema import Categories, Schema
from dipsmith.schema.writing import to_yaml
from dipsmith.synthesis.answers import supports
from dipsmith.synthesis.canonical import PublicRows
from dipsmith.synthesis.card import ASKED, Card
from dipsmith.synthesis.column_map import ColumnMap, map_columns, require_factors
from dipsmith.synthesis.exit import (
    FORMATS,
    Exit,
    require_format,
    require_table_file,
    unescape_formulas,
    write_table_file,
)
from dipsmith.synthesis.explorer import explorer
from dipsmith.synthesis.fitted import FittedModel, predictors
from dipsmith.synthesis.households import drawn_tables
from dipsmith.synthesis.label_tables import LabelTables
from dipsmith.synthesis.labelled_file import ENDINGS, read_labelled
from dipsmith.synthesis.measurement_file import read_measurements, write_measurements
from dipsmith.synthesis.passport.facts import PassportFacts
from dipsmith.synthesis.passport.passport import write_passport
from dipsmith.synthesis.public import warn_of_unlisted_values
from dipsmith.synthesis.report import Glance, report_page
from dipsmith.synthesis.sets import Sets, TableSets, require_memory
from dipsmith.synthesis.supports import Support, SupportIndex
from dipsmith.synthesis.writing import damage, digest, whole_folder

Format = Literal["parquet", "csv", "dta", "sav"]

PART_ROWS = 1 << 20
"""Rows of a set that are looked at together."""


@dataclass(frozen=True, eq=False)
class Release:
    """What a steward publishes: one Arrow table per set, one fitted model per sanitisation, schema and card.

    The tables of a cluster are made by its workers when the release is saved.
    """

    tables: Sets
    models: tuple[FittedModel, ...]
    schema: Schema
    card: Card
    folder: Path | None = None
    _finish: Callable[[str, Path], None] | None = field(default=None, repr=False)
    results: tuple[Result, ...] = ()
    measurements: tuple[MeasuredTable, ...] = field(default=(), repr=False)
    """Every noisy answer that the release was made of; none in releases of versions that did not keep them."""

    @property
    def model(self) -> FittedModel:
        """The first model."""
        return self.models[0]

    def to_pandas(self, set: int = 1, name: str | None = None) -> Any:  # noqa: A002
        """One of the sets as a pandas frame; columns of listed levels are categories in the schema's order.

        `name` says which of its tables, where there are households and members.
        """
        import pandas as pd

        if not 1 <= set <= len(self.tables):
            raise UsageError(f"set is {set}, but this release has {len(self.tables)}")
        table = (self.tables if name is None else self.tables[name])[set - 1]
        members = self.schema.members
        schema = self.schema if members is None or name != members.schema.name else members.schema
        found = table.to_pandas()
        for column in table.column_names:
            domain = schema[column].domain if column in schema else None
            if isinstance(domain, Categories) and not isinstance(found[column].dtype, pd.CategoricalDtype):
                found[column] = found[column].astype("category") if schema[column].type == "string" else found[column]
            if isinstance(domain, Categories) and isinstance(found[column].dtype, pd.CategoricalDtype):
                beyond = [c for c in found[column].cat.categories if c not in domain.labels]
                # Not by astype, for which unordered categories in another order are the same.
                found[column] = found[column].cat.set_categories([*domain.labels, *beyond], ordered=domain.ordered)
        return found

    @property
    def people(self) -> int:
        """How many rows of the confidential table a set stands for: as many as it has, unless another number was asked for."""
        if self.card.rows_known != ASKED or not self.models or self.model.missing:
            return self.card.rows
        if self.card.known_rows is not None:
            return self.card.known_rows
        return max(1, round(sum(model.rows for model in self.models) / len(self.models)))

    def sample(self, rows: int | None = None, seed: int | None = None, *, model: int = 1) -> Any:
        """Draw further rows from a saved model, as many as wanted: free, and a seed draws them again.

        `model` says which one, where sets were sanitised separately. A table; of households both tables, by their names.
        """
        if self.schema.neighbours == "label":
            raise UsageError(
                "a release under neighbours 'label' has no rows to draw: its model labels given ones; use release.label(…), "
                "or: dipsmith label RELEASE FILE --out …"
            )
        chosen, n = self._choose_model(model), self.card.rows if rows is None else rows
        if n < 0:
            raise UsageError(f"rows is {n}, expected 0 or more")
        require_memory(self.schema, 1, n)
        drawn = drawn_tables(chosen.inner.sample(n, seed), seed)
        return drawn[self.schema.name] if self.schema.members is None else drawn

    def label(
        self,
        data: Any,
        columns: ColumnMap | None = None,
        seed: int | None = None,
        *,
        factors: Any = None,
        model: int = 1,
    ) -> Any:
        """Label the rows of a public file or frame from a saved model, in its order: free, and a seed draws labels again.

        The file must have every public column, under its name or by a map such as ``{"pay": "basic_pay * 1.08"}``;
        `factors` is a public table of numbers by group that the map uses (`dipsmith.synthesis.column_map`). The
        result has the public columns and the labels; and the unit's column, where labels are shared by the rows of a unit.

        Privacy
        -------
        Reads the file and the release. A file with the very rows of the release, in an order that no set of it has, may be the
        confidential one, whose order may tell what its rows say: it is refused.
        """
        chosen = self._choose_model(model)
        needed = predictors(chosen.labeller())
        found = map_columns(data, columns, factors)
        found.check(needed)
        require_factors(found)
        warn_of_unlisted_values(found, self.schema.project(needed))
        labelled = chosen.label(found, seed)
        if not isinstance(labelled, pa.Table):
            return labelled
        self._require_public_order(labelled.select(needed))
        known = (self.schema.linked, *self.schema.names)
        return labelled.select([name for name in known if name in labelled.column_names])

    def _require_public_order(self, given: pa.Table) -> None:
        """Refuse public rows that are the release's own, unless they lie as in one of its sets."""
        names, held = given.column_names, self.tables
        if not held.in_memory or given.num_rows != held.rows or not {*names} <= {*held.columns}:
            return
        rows = PublicRows.of(given.to_batches(), self.schema, names)
        released = (PublicRows.of(table.to_batches(), self.schema, names) for table in held)
        for i, one in enumerate(released):
            if rows.has_the_rows_of(one, in_order=True) or (i == 0 and not rows.has_the_rows_of(one)):
                return
        raise UsageError(
            "the file to label has the very rows of the release in another order, as the confidential table has them, whose "
            "order is not public; the release holds their labels, and each of its sets can be labelled again"
        )

    def _choose_model(self, model: int) -> FittedModel:
        if not 1 <= model <= len(self.models):
            raise UsageError(f"model is {model}, but this release has {len(self.models)}")
        return self.models[model - 1]

    def save(self, folder: str | Path, *, format: Format = "parquet", escape: bool = False) -> Path:  # noqa: A002
        """Write the release as a folder, whole or not at all; refuses to overwrite.

        `escape`, in CSV, puts a quote before text that a spreadsheet would read as a formula.
        """
        require_format(format)
        target = Path(folder)
        with whole_folder(target) as work:
            out = Exit(work)
            glance = self.tables.save(out, self.schema, format, escape=escape)
            for i, model in enumerate(self.models, start=1):
                model.save(work / f"model-{i}")
            if self.results:
                out.text("results.json", results_text(self.results))
            out.text("schema.yaml", to_yaml(self.schema))
            out.table("codebook.csv", codebook(self.schema))
            write_measurements(out, self.measurements)
            out.text("report.html", page(report_page(self, glance, beside=True)))
            if self.measurements:
                out.text(EXPLORER, explorer(self, glance, format))
            digests = {name: digest(work / name) for name in files_of(work)}
            people = tuple(t.num_rows for t in self.tables.members)
            write_passport(out, PassportFacts(self.card, self.schema, digests, people))
            card = replace(self.card, files=_with_new_files(digests, work))
            out.text("card.html", card.to_html())
            card = replace(card, files=_with_new_files(card.files, work))
            out.text("card.json", card.to_json())
            stamped = digest(work / "card.json")
            out.seal(card.created)
        if self._finish is not None:
            try:
                self._finish(stamped, target.absolute())
            except DipsmithError as error:
                raise type(error)(
                    f"'{target}' was written and is whole, but the ledger could not note it and will not know it: {error}"
                ) from None
        return target

    @classmethod
    def load(cls, folder: str | Path) -> Release:
        """Read a release back from its folder."""
        path = Path(folder)
        card = read_card(path)
        schema = read_schema(path)
        sets = TableSets.of([read_set(path, i, schema) for i in range(1, card.sets + 1)])
        measured = read_measurements(path, schema)
        models, results = read_models(path), read_results(path)
        return cls(sets, models, schema, card, path, None, results, measured)

    def supports(self, *asked: str, family: Family = "auto") -> Support:
        """What this release carries of a formula, or of some columns: measured, carried or not carried.

        ``release.supports("log(pay) ~ sex | agency")``, ``release.supports("sex", "pay")``; from the noisy tables
        and the model alone (`dipsmith.synthesis.supports`). Of a formula it says what `fit` decides, with the same
        `family`: *not carried* is what `fit` refuses.
        """
        if not asked:
            raise UsageError("supports: give a formula, or one column or more")
        if len(asked) == 1 and asked[0] not in self.schema and "~" in asked[0]:
            return supports(self, asked[0], family)
        return self.support_index.columns(*asked)

    @cached_property
    def support_index(self) -> SupportIndex:
        """What answers `supports`; made once."""
        return SupportIndex(self)

    @cached_property
    def label_tables(self) -> LabelTables:
        """Its noisy label tables beside its public rows, under `label`; read once."""
        return LabelTables.of(self)

    def report_page(self, *, beside: bool = True) -> Page:
        """The releasable report: made from the release alone; not `beside` the other files, it points to none of them."""
        several = self.folder is not None and (self.folder / "synthetic-1.parquet").is_dir()
        there = beside and self.folder is not None and (self.folder / EXPLORER).is_file()
        return report_page(self, Glance.of(self.tables[0], self.schema, several_files=several), beside=there)

    def __str__(self) -> str:
        return str(self.card)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        if not self.tables.in_memory:
            return self.card._repr_html_()  # there are no rows to report of before it is saved
        return frame(page(self.report_page()))


def read_card(folder: Path) -> Card:
    """The card of a release folder."""
    if not (folder / "card.json").is_file():
        raise InputError(f"'{folder}' is not a release: it has no card.json; give the folder of --out")
    return Card.from_json((folder / "card.json").read_text("utf-8", errors="replace"))


def read_results(folder: Path) -> tuple[Result, ...]:
    """The results of planned analyses in a release folder; none where nothing was planned."""
    file = folder / "results.json"
    if not file.is_file():
        return ()
    try:
        return tuple(Result.from_dict(r) for r in json.loads(file.read_text("utf-8"))["results"])
    except (ValueError, LookupError, TypeError):
        raise damage("'results.json' is not what a release holds") from None


def read_models(folder: Path) -> tuple[FittedModel, ...]:
    """The models of a release folder."""
    found = [p.stem.removeprefix("model-") for p in folder.glob("model-*.json")]
    wrong = next((n for n in found if not (n.isascii() and n.isdigit())), None)
    if wrong is not None or not found:
        what = "no model-1.json" if wrong is None else f"a model-{wrong}.json, which is no model of it"
        raise damage(f"'{folder}' has {what}")
    return tuple(FittedModel.load(folder / f"model-{n}") for n in sorted(found, key=int))


def read_schema(folder: Path) -> Schema:
    """The schema of what was released, from a release folder."""
    try:
        return Schema.read(folder / "schema.yaml")
    except SchemaError as error:
        raise damage(f"{error}") from None


def files_of(folder: Path) -> list[str]:
    """The files of a release folder, also those inside a set that workers wrote, by their names from there."""
    files = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    return sorted(path.relative_to(folder).as_posix() for path in files)


def _with_new_files(digests: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Digests of files, and of those that were written since, in the order of their names."""
    return {name: digests.get(name) or digest(folder / name) for name in files_of(folder)}


def set_file(folder: Path, i: int, members: str = "") -> Path:
    """The file of the i-th set, whatever its format; a folder of Parquet files when workers wrote it.

    With the name of `members`, the file of the members of its households.
    """
    stem = f"synthetic-{i}-{members}" if members else f"synthetic-{i}"
    for ending in FORMATS:
        path = folder / f"{stem}.{ending}"
        if path.exists():
            return path
    raise damage(f"'{folder}' has no {stem} in any form that it could have")


def read_set(folder: Path, i: int, schema: Schema) -> dict[str, pa.Table]:
    """The tables of the i-th set by their names."""
    found = {schema.name: read_table(set_file(folder, i), schema)}
    if schema.members is not None:
        people = schema.members.schema
        found[people.name] = read_table(set_file(folder, i, people.name), people)
    return found


def write_set(out: Path, tables: Mapping[str, pa.Table], schema: Schema, *, escape: bool) -> list[Path]:
    """Write the tables of one set by themselves: members of households beside their households; returns where."""
    described = {schema.name: (out, schema)}
    if schema.members is not None:
        people = schema.members.schema
        described[people.name] = (out.with_name(f"{out.stem}-{people.name}{out.suffix}"), people)
    for place, _ in described.values():
        require_table_file(place)
    for name, (place, one) in described.items():
        write_table_file(place, tables[name], one, escape=escape)
    return [place for place, _ in described.values()]


def read_table(path: Path, schema: Schema) -> pa.Table:
    """One set as a table; in CSV the schema says what is text, so that a code such as 06 stays one."""
    try:
        if path.suffix == ".parquet":
            return pq.read_table(path)
        if path.suffix[1:] in ENDINGS:
            return read_labelled(path, schema)
        options = pa_csv.ConvertOptions(
            column_types={a.name: pa.string() for a in schema if a.type == "string"},
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        return unescape_formulas(pa_csv.read_csv(path, convert_options=options))
    except (OSError, pa.ArrowException):
        raise damage(f"'{path.name}' cannot be read") from None


def set_parts(path: Path, schema: Schema) -> Iterator[pa.Table]:
    """One set in parts of bounded size, at least one, however large it is; other forms than Parquet whole."""
    if path.suffix != ".parquet":
        yield read_table(path, schema)
        return
    try:
        for file in sorted(path.glob("*.parquet")) if path.is_dir() else [path]:
            with pq.ParquetFile(file) as rows:
                yield rows.schema_arrow.empty_table()
                for batch in rows.iter_batches(PART_ROWS):
                    yield pa.Table.from_batches([batch])
    except (OSError, pa.ArrowException):
        raise damage(f"'{path.name}' cannot be read") from None
