"""Random schemas for the property tests of schema and codec."""

from __future__ import annotations

from datetime import date, datetime, timedelta

from hypothesis import strategies as st

from dipsmith.schema import Schema
from dipsmith.schema.naming import plain_name

# no NUL, no surrogates; spaces around values are refused by design
texts = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1, max_size=6).filter(
    lambda t: t.strip(" ") == t and t != "(missing)"
)
whole = st.integers(-(10**6), 10**6)
finite = st.floats(-1e6, 1e6, allow_nan=False).map(lambda x: round(x, 3))


@st.composite
def categorical(draw: st.DrawFn) -> dict[str, object]:
    if draw(st.booleans()):
        values: list[object] = draw(st.lists(texts, min_size=1, max_size=8, unique=True))
        field: dict[str, object] = {"type": "string", "enum": values}
    else:
        values = sorted(draw(st.lists(whole, min_size=1, max_size=8, unique=True)))
        field = {"type": "integer", "enum": values}
    field["ordered"] = draw(st.booleans())
    field["missing"] = draw(st.booleans())
    if not field["missing"] or draw(st.booleans()):
        field["other"] = draw(st.sampled_from(values))
    how = draw(st.sampled_from(["none", "prefix", "map"]))
    if how == "prefix":
        field["collapse"] = {"prefix": draw(st.integers(1, 3))}
    elif how == "map":
        some = draw(st.lists(st.sampled_from(values), unique=True))
        field["collapse"] = {"map": {v: draw(texts) for v in some}}
    return field


@st.composite
def numeric(draw: st.DrawFn) -> dict[str, object]:
    kind = draw(st.sampled_from(["integer", "number"]))
    points = st.integers(-(10**6), 10**6) if kind == "integer" else finite
    low, high = sorted(draw(st.lists(points, min_size=2, max_size=2, unique=True)))
    span = high - low
    field: dict[str, object] = {"type": kind, "minimum": low, "maximum": high, "missing": draw(st.booleans())}
    cut = draw(st.sampled_from(["count", "width", "round", "edges", "none"]))
    steps = draw(st.integers(1, 60))
    step = max(1, int(span) // steps) if kind == "integer" else round(span / steps, 3) or 0.001
    if cut == "count":
        field["bins"] = {"count": min(steps, int(span)) if kind == "integer" else steps}
    elif cut in ("width", "round"):
        field["bins"] = {cut: step}
    elif cut == "edges" or (kind == "integer" and span > 500):
        inner = draw(st.lists(points.filter(lambda p: low < p < high), unique=True, max_size=5))
        field["bins"] = {"edges": [low, *sorted(inner), high]}
        if draw(st.booleans()):
            labels = st.lists(texts, min_size=len(inner) + 1, max_size=len(inner) + 1, unique=True)
            field["bins"]["labels"] = draw(labels)  # type: ignore[index]
    return field


@st.composite
def temporal(draw: st.DrawFn) -> dict[str, object]:
    kind = draw(st.sampled_from(["date", "datetime"]))
    first = draw(st.dates(date(1750, 1, 1), date(2200, 1, 1)))
    days = draw(st.integers(2, 3000))
    low: date | datetime = first
    high: date | datetime = first + timedelta(days=days)
    if kind == "datetime":
        seconds = draw(st.integers(0, 86_399))
        low = datetime(first.year, first.month, first.day) + timedelta(seconds=seconds)
        high = low + timedelta(days=days, microseconds=draw(st.integers(0, 999_999)))
    field: dict[str, object] = {
        "type": kind,
        "minimum": low.isoformat(),
        "maximum": high.isoformat(),
        "missing": draw(st.booleans()),
    }
    widths = ["week", "month", "year", 1, 7, 90] + [0.25] * (kind == "datetime" and days < 500)
    cut = draw(st.sampled_from([None, {"count": draw(st.integers(1, days))}, *({"width": w} for w in widths)]))
    if cut is not None:
        field["bins"] = cut
    return field


def boolean() -> st.SearchStrategy[dict[str, object]]:
    return st.builds(lambda m: {"type": "boolean", "missing": m}, st.booleans())


fields = st.one_of(categorical(), numeric(), temporal(), boolean())
names = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=8).filter(str.strip)


@st.composite
def schemas(draw: st.DrawFn, max_fields: int = 4) -> Schema:
    """A schema that the file format accepts, with a rule where there are two columns."""
    listed = draw(st.lists(names, min_size=1, max_size=max_fields, unique=True))
    columns = [{"name": n} | draw(fields) | {"role": draw(st.sampled_from(["public", "private"]))} for n in listed]
    columns[-1]["role"] = "private"
    data: dict[str, object] = {
        "name": plain_name(draw(texts)),
        "unit": draw(st.sampled_from(["row", {"column": "\u2603 unit", "max_rows": 3}])),
        "neighbours": draw(st.sampled_from(["add-remove", "replace", "label"])),
        "fields": columns,
        "notes": draw(st.lists(texts, max_size=2)),
        "provenance": draw(st.sampled_from(["declared", "data-derived"])),
    }
    schema = Schema.from_dict(data)
    if len(columns) > 1 and draw(st.booleans()):
        a, b = schema.attributes[:2]
        never = {x.name: list(draw(st.sets(st.sampled_from(x.labels), min_size=1))) for x in (a, b)}
        schema = Schema.from_dict(data | {"rules": [{"never": never}]})
    return schema
