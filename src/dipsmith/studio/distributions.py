"""Distributions of a comparison: every column and every pair, authentic and synthetic, to be looked up by the page.

Nothing is counted twice: the tables, distances and associations are those of the comparison. They are kept in the job's
folder, which only its owner can read, and they are as confidential as the comparison itself.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from html import escape
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from dipsmith.errors import InputError
from dipsmith.report.content import Cell, Table
from dipsmith.report.histograms import Overlay
from dipsmith.schema import Attribute, Schema
from dipsmith.studio.overlay import histogram, percent, picture, points
from dipsmith.studio.workspace import write_json, write_whole
from dipsmith.utility.association import LOST, chi_squared, count_in_words, in_words, lost_most
from dipsmith.utility.columns import MOST_GROUPS, histograms_within
from dipsmith.utility.comparison import NOTICEABLE, Comparison
from dipsmith.utility.crosstabs import Crosstab
from dipsmith.utility.findings import Findings, parameters, series
from dipsmith.utility.marginal_error import pair_errors

INDEX, COUNTS = "distributions.json", "distributions.npz"
MOST_CELLS = 40_000
"""Larger tables of pairs are not kept: nobody could look at them."""
MOST_NAMED = 3
MOST_LISTED = 40
"""Cells of a pair that are listed with their values, those that differ most."""


@dataclass(frozen=True)
class ShownDistribution:
    """A distribution: what stands above it, its picture with values, and the numbers."""

    title: str
    html: str
    numbers: Table


def keep(found: Comparison, folder: Path) -> None:
    """Write the index and the counts of a comparison into its job's folder."""
    first, releases = found.tables[0], found.findings
    names = [n for n in first.pair.names if all(n in t.pair.names for t in found.tables)]
    schema = first.pair.schema
    columns = [
        {
            "name": h.name,
            "public": h.given,
            "tvd": [_at(f["columns"], h.name).tvd for f in releases],
            "floor": h.floor,
        }
        for h in releases[0]["columns"]
        if h.name in names
    ]
    place = {column["name"]: i for i, column in enumerate(columns)}
    known = [{a.names: a.v for a in f["associations"].pairs} for f in releases]
    far = [pair_errors(f) for f in releases]
    pairs: list[dict[str, Any]] = []
    counts: dict[str, Any] = {}
    for name in names:
        counts[f"c{place[name]}"] = np.stack([first[(name,)].authentic, *(t[(name,)].synthetic for t in found.tables)])
    for pair in combinations(names, 2):
        if not set(pair) & set(first.pair.changed) or schema[pair[0]].size * schema[pair[1]].size > MOST_CELLS:
            continue
        tables = [t[pair] for t in found.tables]
        v = [k.get(pair) or tuple(chi_squared(side)[2] for side in t.sides) for k, t in zip(known, tables, strict=True)]
        errors = [e.get(pair) or t for e, t in zip(far, tables, strict=True)]
        key = [place[n] for n in pair]
        facts = {"v": [v[0][0], *(w[1] for w in v)], "tvd": [e.tvd for e in errors], "floor": errors[0].floor}
        pairs.append({"of": key, **facts})
        counts["p{}-{}".format(*key)] = np.stack([tables[0].authentic, *(t.synthetic for t in tables)])
        if tables[0].spread is not None:
            counts["s{}-{}".format(*key)] = tables[0].spread.astype(np.float32)
    people = _keep_members(found, columns, pairs, counts)
    pairs.sort(key=lambda p: -max(p["v"][0] - after for after in p["v"][1:]))
    packed = io.BytesIO()
    np.savez_compressed(packed, **counts)
    write_whole(folder / COUNTS, packed.getvalue())
    labels = [series(releases, f) for f in releases]
    told = {
        "releases": labels,
        "settings": [list(row) for row in parameters(releases).rows],
        "rows": list(releases[0].rows),
        "verdict": [
            line
            for i, f in enumerate(releases)
            for before in [f"{f.name}: " if len(releases) > 1 else ""]
            for line in [*verdict(f, before), *_verdict_on_members(columns[len(place) :], i, before)]
        ],
        # Rows by themselves: whose they are, and what stays the same in all rows of a person, was left behind.
        "schema": replace(
            schema, attributes=tuple(replace(a, fixed=False) for a in (*schema, *people)), members=None
        ).to_dict()
        | {"unit": "row"},
        "columns": columns,
        "pairs": pairs,
    }
    write_json(folder / INDEX, json.loads(json.dumps(told), parse_constant=lambda _: None))


def _keep_members(
    found: Comparison, columns: list[dict[str, Any]], pairs: list[dict[str, Any]], counts: dict[str, Any]
) -> list[Attribute]:
    """Keep the columns of members beside those of their households, and say which these are."""
    told = [f.results.get("households") for f in found.findings]
    households = [h for h in told if h is not None]
    if found.schema.members is None or len(households) < len(found.findings):
        return []
    kept = [[t for t in h.tables if t.counts is not None] for h in households]
    place = {column["name"]: i for i, column in enumerate(columns)}
    people = []
    for of_one in zip(*kept, strict=True):
        first = of_one[0]
        sides = [first.counts[0], *(t.counts[1] for t in of_one)]
        for axis, name in enumerate(first.names):
            if name not in place and name in found.schema.members.schema:
                one, chance = [side.sum(axis=1 - axis) for side in sides], first.counts[2].sum(axis=1 - axis)
                shares = [side / max(1, side.sum()) for side in (*one, chance)]
                far = [float(np.abs(shares[0] - side).sum() / 2) for side in shares[1:]]
                place[name] = len(columns)
                people.append(found.schema.members.schema[name])
                columns.append({"name": name, "public": False, "tvd": far[:-1], "floor": far[-1]})
                counts[f"c{place[name]}"] = np.stack(one)
        if any(name not in place for name in first.names) or first.counts[0].size > MOST_CELLS:
            continue
        key = [place[n] for n in first.names]
        facts = {"v": [chi_squared(side)[2] for side in sides], "tvd": [t.tvd for t in of_one], "floor": first.floor}
        pairs.append({"of": key, **facts})
        counts["p{}-{}".format(*key)] = np.stack([side.ravel() for side in sides])
    return people


def _verdict_on_members(columns: list[dict[str, Any]], release: int, before: str) -> list[str]:
    """How far the columns of members are off, where there are some."""
    off = sorted(((c["tvd"][release], c["floor"], c["name"]) for c in columns), key=lambda facts: facts[1] - facts[0])
    off = [facts for facts in off if facts[0] > NOTICEABLE * facts[1]]
    if not off:
        return [f"{before}All {len(columns)} columns of members are about as close as chance."] if columns else []
    named = "; ".join(f"{name} (TVD {tvd:.3f}, by chance {floor:.3f})" for tvd, floor, name in off[:MOST_NAMED])
    rest = f"; and {len(off) - MOST_NAMED} more" if len(off) > MOST_NAMED else ""
    are = "is" if len(off) == 1 else "are"
    return [f"{before}Of members, {len(off)} of {len(columns)} columns {are} farther off than chance: {named}{rest}."]


def verdict(found: Findings, before: str = "") -> list[str]:
    """What was lost, and what was kept, in plain sentences that name the columns."""
    lost = lost_most(found["associations"])
    pairs = count_in_words(found)
    if lost:
        rest = f", and {len(lost) - MOST_NAMED} more" if len(lost) > MOST_NAMED else ""
        named = "; ".join(in_words(pair) for pair in lost[:MOST_NAMED])
        told = f"{before}Lost or weakened: {named}{rest}, of {pairs}."
    else:
        told = f"{before}No association of {pairs} fell by more than {LOST:g} of its V."
    made = [h for h in found["columns"] if not h.given]
    off = [h for h in made if h.tvd > NOTICEABLE * h.floor]
    if off:
        named = "; ".join(f"{h.name} (TVD {h.tvd:.3f}, by chance {h.floor:.3f})" for h in off[:MOST_NAMED])
        rest = f"; and {len(off) - MOST_NAMED} more" if len(off) > MOST_NAMED else ""
        columns = f"{len(off)} of {len(made)} columns {'is' if len(off) == 1 else 'are'} farther off than chance: {named}{rest}."
    else:
        all_of_them = "Both" if len(made) == 2 else f"All {len(made)}"
        columns = f"{all_of_them} synthesised columns are about as close as two samples are."
    return [told, before + columns]


def index(folder: Path) -> dict[str, Any] | None:
    """What can be looked up; None for a comparison of an earlier version."""
    file = folder / INDEX
    return json.loads(file.read_text("utf-8")) if file.is_file() else None


def look_up(folder: Path, column: str, within: str = "") -> ShownDistribution:
    """The distribution of a column, or of one within the levels of another."""
    told, schema = _read(folder, (folder / COUNTS).stat().st_mtime_ns)
    place = {c["name"]: i for i, c in enumerate(told["columns"])}
    unknown = next((n for n in (column, within) if n and n not in place), None)
    if unknown is not None or column == within:
        raise InputError("choose a column of the list, and another one to cross it with")
    with np.load(folder / COUNTS, allow_pickle=False) as counts:
        if not within:
            return _column(told, schema, column, counts[f"c{place[column]}"])
        key = _key(schema, place, column, within)
        if f"p{key}" not in counts:
            why = "both are public, and the same in both tables, or their table has too many cells to be looked at"
            raise InputError(f"'{column}' and '{within}' are not shown together: {why}")
        spread = counts[f"s{key}"].astype(np.float64) if f"s{key}" in counts else None
        return _pair(told, schema, (column, within), counts[f"p{key}"], spread)


@lru_cache(maxsize=4)
def _read(folder: Path, stamp: int) -> tuple[dict[str, Any], Schema]:
    told = index(folder)
    assert told is not None
    return told, Schema.from_dict(told["schema"])


def _key(schema: Schema, place: Mapping[str, int], *names: str) -> str:
    """The name of a pair's counts: its columns in the order of the schema."""
    return "-".join(str(place[n]) for n in schema.names if n in names)


def _column(told: Mapping[str, Any], schema: Schema, name: str, counts: Any) -> ShownDistribution:
    facts = next(c for c in told["columns"] if c["name"] == name)
    authentic, *synthetic = (side / max(1, side.sum()) for side in counts)
    attribute = schema[name]
    drawn = Overlay(name, "", attribute.labels, authentic, synthetic, bool(attribute.domain.ordered), facts["public"])
    distances = ", ".join(_short(v) for v in facts["tvd"])
    title = "public, the same in both" if facts["public"] else f"TVD {distances}; by chance {_short(facts['floor'])}"
    heads = ("level", "authentic", *told["releases"])
    rows: list[tuple[Cell, ...]] = [
        (label, float(authentic[i]), *(float(s[i]) for s in synthetic)) for i, label in enumerate(attribute.labels)
    ]
    return ShownDistribution(title, picture(drawn, told["releases"]), Table.of(name, heads, rows))


def _pair(
    told: Mapping[str, Any], schema: Schema, names: tuple[str, str], counts: Any, spread: Any
) -> ShownDistribution:
    column, within = names
    place = [c["name"] for c in told["columns"]]
    facts = next(p for p in told["pairs"] if {place[i] for i in p["of"]} == set(names))
    ordered = tuple(n for n in schema.names if n in names)
    shape = schema[ordered[0]].size, schema[ordered[1]].size
    found = [
        histograms_within(Crosstab(ordered, counts[0], side, shape, spread), schema, column) for side in counts[1:]
    ]
    by_name = [{g.name: g for g in each.groups} for each in found]
    panels: list[tuple[Overlay, str]] = []
    rows: list[tuple[Cell, ...]] = []
    sides = counts[0].reshape(shape).sum(axis=1 - ordered.index(column))
    # Levels without an order stand by how many rows have them, the same in every group.
    order = np.arange(len(sides)) if schema[column].domain.ordered else np.argsort(-sides, kind="stable")
    for group in found[0].groups:
        synthetic = [mine[group.name].bars.synthetic for mine in by_name if group.name in mine]
        bars = group.bars
        labels = [bars.labels[i] for i in order]
        drawn = Overlay(group.name, "", labels, bars.authentic[order], [s[order] for s in synthetic], ordered=True)
        note = f"TVD {', '.join(_short(mine[group.name].tvd) for mine in by_name if group.name in mine)}; by chance {_short(group.floor)}"
        panels.append((drawn, note))
        rows += [
            (
                group.name.removeprefix(f"{within} ").rpartition(":")[0],
                label,
                float(bars.authentic[i]),
                *(float(s[i]) for s in synthetic),
            )
            for i, label in enumerate(bars.labels)
        ]
    together = [drawn for drawn, _ in panels[:MOST_GROUPS]]
    shown = "".join(
        f"<figure><p>{escape(drawn.title)}</p><figcaption>{note}</figcaption>{histogram(drawn, together)}</figure>"
        for drawn, note in panels[:MOST_GROUPS]
    )
    rest = len(panels) - MOST_GROUPS
    note = f'<p class="soft">{rest} smaller groups are in the numbers only.</p>' if rest > 0 else ""
    before, *after = facts["v"]
    title = f"V {_short(before, 2)} → {', '.join(_short(v, 2) for v in after)}; TVD {', '.join(_short(v) for v in facts['tvd'])}, by chance {_short(facts['floor'])}"
    heads = (within, column, "authentic", *told["releases"])
    numbers = Table.of(f"{column} within {within}", heads, rows)
    html = f'<div class="groups">{shown}</div>{note}{_largest(numbers, len(told["releases"]))}'
    return ShownDistribution(title, html, numbers)


def _largest(numbers: Table, releases: int) -> str:
    """The cells that differ most, with their values."""
    ranked = sorted(numbers.rows, key=lambda row: -max(abs(float(s) - float(row[2])) for s in row[3:]))  # type: ignore[arg-type]
    head = "".join(
        f'<th scope="col"{" class=n" * (i > 1)}>{escape(h)}</th>' for i, h in enumerate(_heads(numbers.columns))
    )
    body = ""
    for row in ranked[:MOST_LISTED]:
        authentic, *synthetic = (float(cell) for cell in row[2:])  # type: ignore[arg-type]
        cells = "".join(f'<td class="n">{percent(s)}</td><td class="n">{points(s - authentic)}</td>' for s in synthetic)
        body += f'<tr><th scope="row">{escape(str(row[0]))}</th><td>{escape(str(row[1]))}</td><td class="n">{percent(authentic)}</td>{cells}</tr>'
    return (
        f'<div class="scroll tall" tabindex="0" role="group" aria-label="Values of {escape(numbers.caption)}"><table>'
        f"<caption>Shares within each group, the largest differences first; at most {MOST_LISTED} of {len(ranked):,}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _heads(columns: Sequence[str]) -> list[str]:
    heads = [columns[0], columns[1], f"{columns[2]}, %"]
    for name in columns[3:]:
        heads += [f"{name}, %", "difference, points"]
    return heads


def _at(found: Sequence[Any], name: str) -> Any:
    return next(h for h in found if h.name == name)


def _short(value: float | None, places: int = 3) -> str:
    return "–" if value is None else f"{value:.{places}f}".removeprefix("0")
