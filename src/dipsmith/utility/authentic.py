"""The authentic rows as an analyst would have them: typed values under the labels that a release uses.

Public columns that a release holds verbatim stay as they are; lists of categories get the (collapsed) labels of the
release, so that coefficients mean the same in both; numbers and times keep their exact values, which is what an
analyst of the authentic table would use. What cannot be read is missing; how much that is, and how much lies outside the
schema, `conformity` counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dipsmith.codec.decode import decode_column
from dipsmith.codec.encode import Encoder
from dipsmith.codec.parse import values_of
from dipsmith.counting.units import has_unit, unit_text
from dipsmith.privacy.ledger import Ledger
from dipsmith.schema import Attribute, Bins, Schema
from dipsmith.schema.households import members_of
from dipsmith.schema.steps import fixed_columns
from dipsmith.sources import Source
from dipsmith.synthesis.canonical import as_declared
from dipsmith.synthesis.checked import describe_check
from dipsmith.utility.careers import read_careers
from dipsmith.utility.pair import comparable
from dipsmith.utility.unfit_cells import count_unfit


def authentic_table(source: Source, schema: Schema, names: Sequence[str]) -> pa.Table:
    """Some columns of the authentic rows, ready for a regression.

    Privacy
    -------
    Reads private rows; the result is private. Log a look first.
    """
    visible = comparable(schema, names)
    verbatim = set(schema.public) if schema.neighbours == "label" else set()
    encoder = Encoder(visible)
    parts = []
    for batch in source.batches(visible.names):
        codes, keep = encoder.encode(batch)
        arrays = [
            batch.column(a.name) if a.name in verbatim else _column(a, batch.column(a.name), codes[a.name])
            for a in visible
        ]
        parts.append(pa.table(arrays, names=list(visible.names)).filter(pa.array(keep)))
    if not parts:
        return pa.table({a.name: pa.array([], pa.string()) for a in visible})
    return as_declared(pa.concat_tables(parts, promote_options="none").unify_dictionaries(), visible)


def _column(attribute: Attribute, column: pa.Array, codes: NDArray[np.unsignedinteger]) -> pa.Array:
    domain = attribute.domain
    if not isinstance(domain, Bins):
        return decode_column(attribute, codes, np.random.default_rng(0))
    values, known = values_of(column, domain)
    kind = {"date": pa.date32(), "datetime": pa.timestamp("us")}.get(domain.scale)
    stored = values.astype({"date": np.int32, "datetime": np.int64}.get(domain.scale, np.float64))
    array = pa.array(stored, mask=None if known is None else ~known)
    return array if kind is None else array.cast(kind)


def conformity(source: Source, schema: Schema) -> dict[str, int]:
    """Rows, and per column: missing values, values that cannot be read, values outside the domain.

    Privacy
    -------
    Exact counts: confidential. Whoever shows them logs the look first.
    """
    found: Counter[str] = Counter(
        {"rows": 0, "rows left out (a value without a place)": 0, "rows that break a rule": 0}
    )
    encoder = Encoder(schema)
    for batch in source.batches(schema.names):
        codes, keep = encoder.encode(batch)
        found["rows"] += batch.num_rows
        found["rows left out (a value without a place)"] += int((~keep).sum())
        found["rows that break a rule"] += int((~codes.lawful() & keep).sum())
        for attribute in schema:
            for what, n in count_unfit(batch.column(attribute.name), attribute).items():
                found[f"{attribute.name}: {what}"] += n
    return dict(found)


def check_rows(rows: Source, schema: Schema, ledger: Ledger, members: Source | None = None) -> dict[str, int]:
    """Log a look, then count what a schema does not hold, in a panel and in households too.

    Privacy
    -------
    Exact counts: confidential. The look is logged before the first row is read.
    """
    ledger.look(schema.name, describe_check(rows, schema))
    found = conformity(rows, schema)
    if schema.unit.order is not None:
        found |= panel_conformity(rows, schema)
    return found if members is None else found | household_conformity(rows, members, schema)


def panel_conformity(source: Source, schema: Schema) -> dict[str, int]:
    """Of a panel: rows without a unit, several in one period, units with more rows than count, fixed columns that change.

    Privacy
    -------
    Exact counts: confidential. Whoever shows them logs the look first.
    """
    unit, order = str(schema.unit.column), str(schema.unit.order)
    lost = sum(int((~has_unit(unit_text(batch.column(0)))).sum()) for batch in source.batches([unit]))
    codes = read_careers(source, schema).codes
    assert codes.units is not None
    once = np.unique(np.stack([codes.units, codes[order].astype(np.int64)]), axis=1)
    periods = np.bincount(once[0])
    found = {
        f"rows without {unit}, which count nowhere": lost,
        f"rows beside another of the same {unit} and {order}, of which one counts": len(codes) - once.shape[1],
        f"units ({unit}) with more than {schema.unit.max_rows} rows, of which so many count": int(
            (periods > schema.unit.max_rows).sum()
        ),
    }
    for name in fixed_columns(schema):
        values = np.unique(np.stack([codes.units, codes[name].astype(np.int64)]), axis=1)
        found[f"{name}: units ({unit}) that change it, though it is fixed"] = int((np.bincount(values[0]) > 1).sum())
    return found


def household_conformity(homes: Source, people: Source, schema: Schema) -> dict[str, int]:
    """The same of the members of households; and keys that are missing or lead nowhere, households that are crowded or empty.

    Privacy
    -------
    Exact counts: confidential. Whoever shows them logs the look first.
    """
    members, key = members_of(schema).schema, str(schema.unit.column)
    found = {f"{members.name}: {what}": n for what, n in conformity(people, members).items()}
    held = [
        pa.chunked_array([unit_text(batch.column(0)) for batch in table.batches([key])], pa.large_string())
        for table in (homes, people)
    ]
    there = [pc.greater(pc.binary_length(keys), 0) for keys in held]
    for one, keys in zip(schema.tables, there, strict=True):
        found[f"{one.name}: rows without {key}, which count nowhere"] = int(pc.sum(pc.invert(keys)).as_py() or 0)
    known, owners = (keys.filter(kept).value_counts() for keys, kept in zip(held, there, strict=True))
    lost = pc.invert(pc.is_in(owners.field("values"), known.field("values")))
    sizes = owners.field("counts").filter(pc.invert(lost))
    found[f"{schema.name}: more than one row of one {key}, of which one counts"] = int(
        pc.sum(pc.greater(known.field("counts"), 1)).as_py() or 0
    )
    found[f"{schema.name}: without members"] = len(known) - len(sizes)
    found[f"{schema.name}: with more than {members.unit.max_rows} members"] = int(
        pc.sum(pc.greater(sizes, members.unit.max_rows)).as_py() or 0
    )
    found[f"{members.name}: whose {key} no household has, who count nowhere"] = int(
        pc.sum(owners.field("counts").filter(lost)).as_py() or 0
    )
    return found
