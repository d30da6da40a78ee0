"""The rows of a study: simulated anew for every repeat, or read from a file.

Simulated rows come from the same population with another seed in each repeat, so that differences between settings are
not those of one sample; all settings of a repeat see the same rows. A second, independent draw stands for what a steward
would have as public: rare labels are merged by *its* frequencies, and labels are predicted on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from dipsmith.errors import InputError
from dipsmith.experiments.study import DataEntry
from dipsmith.schema import Schema
from dipsmith.sources import source

APART = 1_000_003
"""Between the seed of a sample and that of its independent second draw."""
RARE = "rare"
"""In a change of the schema: thresholds below which labels are merged, by public frequencies."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows to synthesise, what is public of them, and rows of the same population that no run sees."""

    rows: Any
    schema: Schema
    fresh: pa.Table | None


def dataset(
    data: DataEntry,
    seed: int,
    *,
    rows: int | None = None,
    change: str | Mapping[str, Any] | None = None,
    base: Path | None = None,
) -> Dataset:
    """The rows of one repeat; `rows` and `change` are instead of the number and the schema in the file.

    A change is another schema file, or for some columns the keys that differ, ``neighbours``, and ``rare`` (for columns,
    the public count below which labels are merged).

    Privacy
    -------
    Simulated rows are free. A file's rows are not read here.
    """
    place = base or Path()
    if data.file is not None:
        assert data.schema_ is not None
        declared = Schema.read(place / data.schema_)
        return Dataset(source(str(place / data.file)), _change(declared, change, None, place), None)
    wanted = rows if rows is not None else data.rows
    table, schema = _simulate(data, seed, wanted)
    fresh, _ = _simulate(data, seed + APART, wanted)
    return Dataset(table, _change(schema, change, fresh, place), fresh)


def _simulate(data: DataEntry, seed: int, rows: int | None) -> tuple[pa.Table, Schema]:
    from dipsmith.examples import personnel, regression, voters

    if data.example == "personnel":
        years = tuple(data.years or personnel.YEARS)
        table, _ = personnel.simulate(25_000 if rows is None else rows, years, seed)
        own = data.neighbours and {"neighbours": data.neighbours, "unit": "row"}
        return table, _change(personnel.schema(years), own, None, Path())
    relation = data.neighbours or "replace"
    if data.example == "voters":
        return voters.simulate(voters.PEOPLE if rows is None else rows, seed), voters.schema(relation)
    table, _ = regression.simulate(10_000 if rows is None else rows, data.model or 1, seed)
    return table, regression.schema(relation)


def _change(schema: Schema, change: str | Mapping[str, Any] | None, public: pa.Table | None, base: Path) -> Schema:
    if change is None:
        return schema
    if isinstance(change, str):
        return Schema.read(base / change)
    made: dict[str, Any] = deepcopy(schema.to_dict())
    columns = {f["name"]: f for f in made["fields"]}
    for name, keys in change.items():
        if name in ("neighbours", "unit", "rules"):
            made[name] = keys
        elif name == "drop":
            if unknown := [k for k in keys if k not in columns]:
                raise InputError(
                    f"schema: drop names '{unknown[0]}', which is no column; there are: {', '.join(columns)}"
                )
            made["fields"] = [f for f in made["fields"] if f["name"] not in keys]
        elif name != RARE:
            if name not in columns or not isinstance(keys, Mapping):
                raise InputError(
                    f"schema: '{name}' is no column; change columns ({', '.join(columns)}), neighbours, unit, rules, drop or rare"
                )
            columns[name].update(keys)
    changed = Schema.from_dict(made)
    if RARE not in change:
        return changed
    if public is None:
        raise InputError(
            "schema: 'rare' merges labels by public frequencies, which only a simulated example has; write the code list"
        )
    return changed.collapse(public, {k: int(v) for k, v in change[RARE].items()})
