"""Careers in numbers, against loops over people; and what a comparison says of them."""

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import dipsmith as ds
from dipsmith.schema import Codes
from dipsmith.sources import source
from dipsmith.synthesis.panel_facts import PanelFacts
from dipsmith.utility.authentic import panel_conformity
from dipsmith.utility.careers import career_gap, read_careers
from dipsmith.utility.metric import SideBySide, metric

SCHEMA = ds.Schema.from_dict(
    {
        "name": "careers",
        "unit": {"column": "person", "max_rows": 4, "order": "year"},
        "neighbours": "add-remove",
        "fields": [
            {"name": "year", "type": "integer", "minimum": 1, "maximum": 4},
            {"name": "sex", "type": "string", "enum": ["F", "M"], "other": "M", "fixed": True},
            {"name": "grade", "type": "integer", "enum": [0, 1, 2], "ordered": True},
            {"name": "pay", "type": "number", "minimum": 0, "maximum": 100, "bins": {"width": 10}},
        ],
    }
)


def people(count=300, seed=0):
    random = np.random.default_rng(seed)
    rows = []
    for person in range(count):
        grade, level = int(random.integers(0, 3)), 20 + 50 * random.random()
        for year in range(1, 5):
            if random.random() < 0.75:
                rows.append((f"p{person}", year, "FM"[person % 2], grade, level + 4 * year + random.normal(0, 1)))
                grade = min(2, grade + int(random.random() < 0.2))
    order = random.permutation(len(rows))
    names = ("person", "year", "sex", "grade", "pay")
    return pa.table({n: [rows[i][j] for i in order] for j, n in enumerate(names)})


def loop(table):
    """The same facts, person by person."""
    by = defaultdict(dict)
    for row in table.to_pylist():
        by[row["person"]][row["year"]] = row
    spells, moves, came, went, rows = (
        defaultdict(int),
        np.zeros((3, 3)),
        defaultdict(int),
        defaultdict(int),
        defaultdict(int),
    )
    for years in by.values():
        for year, row in years.items():
            rows[year] += 1
            came[year] += year - 1 not in years
            went[year] += year + 1 not in years
            if year - 1 in years:
                moves[years[year - 1]["grade"], row["grade"]] += 1
            else:
                length = 1
                while year + length in years:
                    length += 1
                spells[length] += 1
    whole = sum(spells.values())
    return (
        moves,
        [spells[i] / whole for i in range(1, 5)],
        [came[y] / rows[y] for y in (2, 3, 4)],
        [went[y] / rows[y] for y in (1, 2, 3)],
    )


def test_facts_are_those_of_a_loop_over_people():
    table = people()
    facts = PanelFacts.of(read_careers(source(table), SCHEMA).codes, SCHEMA)
    moves, spells, came, went = loop(table)
    assert (facts.moves["grade"] == moves).all()
    assert facts.spells == pytest.approx(spells)
    assert facts.arrivals == pytest.approx(came)
    assert facts.departures == pytest.approx(went)
    assert facts.units == len(set(table["person"].to_pylist()))
    assert set(facts.moves) == {"grade", "pay"}  # sex never changes


def test_what_a_panel_would_leave_out_is_counted():
    rows = [
        *[("a", year, "F", 0, 1.0) for year in (1, 2, 3, 4)],
        *[("b", 1, sex, 0, 1.0) for sex in "FMF"],
        ("c", 1, "F", 0, 1.0),
        ("c", 2, "M", 0, 1.0),
        (None, 2, "M", 0, 1.0),
    ]
    names = ("person", "year", "sex", "grade", "pay")
    table = pa.table({n: [row[j] for row in rows] for j, n in enumerate(names)})
    short = replace(SCHEMA, unit=replace(SCHEMA.unit, max_rows=3))
    assert panel_conformity(source(table), short) == {
        "rows without person, which count nowhere": 1,
        "rows beside another of the same person and year, of which one counts": 2,
        "units (person) with more than 3 rows, of which so many count": 1,
        "sex: units (person) that change it, though it is fixed": 2,
    }


def test_memory_and_growth_are_those_of_pandas():
    table = people()
    rows = read_careers(source(table), SCHEMA)
    gap = career_gap(rows, rows, SCHEMA)
    frame = table.to_pandas().sort_values(["person", "year"])
    frame["x"] = np.log1p(frame["pay"])
    before = frame.assign(year=frame["year"] + 1)[["person", "year", "x"]]
    pairs = frame.merge(before, on=["person", "year"], suffixes=("", "_before"))
    assert gap.memory["pay"] == pytest.approx([pairs["x"].corr(pairs["x_before"])] * 2)
    slope = ds.fit(pa.Table.from_pandas(frame, preserve_index=False), "x ~ year | person")["year"].value
    assert gap.growth["pay"] == pytest.approx([slope] * 2)
    assert gap.spells == gap.rates == 0
    assert gap.transitions["grade"][0] == 0 < gap.transitions["grade"][1]


def test_people_without_a_row_twice_in_a_year_count_once():
    table = pa.concat_tables([people(20), people(20)])
    once, twice = (read_careers(source(t), SCHEMA).codes for t in (people(20), table))
    assert PanelFacts.of(once, SCHEMA).spells == pytest.approx(PanelFacts.of(twice, SCHEMA).spells)


@pytest.mark.slow
def test_a_comparison_has_a_chapter_and_metrics_of_careers(tmp_path):
    table = people()
    release = ds.synthesize(table, SCHEMA, ds.AIM(), budget=ds.PureDP(8), testing=True, noise_seed=1, seed=1)
    ledger = ds.Ledger(tmp_path / "b.db")
    ledger.grant("careers", ds.PureDP(9), by="x", why="y")
    made = ds.compare(table, release, ledger=ledger, classifiers=["logistic"], draws=5)
    gap = made.findings[0]["careers"]
    assert gap.transitions["grade"][0] < 0.5 * gap.transitions["grade"][1]
    assert gap.rates < 0.15
    made.save(tmp_path / "comparison")
    page = (tmp_path / "comparison" / "comparison.html").read_text("utf-8")
    assert "How long spells last" in page
    assert (tmp_path / "comparison" / "numbers" / "careers-rates.csv").is_file()
    codes = read_careers(source(table), SCHEMA)
    both = SideBySide(codes.codes, release, SCHEMA, careers=codes)
    assert metric("transition-tvd").values(both)[0].value == pytest.approx(
        np.mean([t for t, _ in gap.transitions.values()])
    )
    for name in ("spell-tvd", "turnover", "memory"):
        assert metric(name).values(both)[0].value >= 0
    report = release.report_page()
    titles = [f.title for f in report.figures()]
    assert any(t.startswith("How long do spells last?") for t in titles)
    assert any(t.startswith("What changes from one year") for t in titles)


def test_metrics_of_careers_are_refused_without_a_panel():
    plain = replace(SCHEMA, unit=ds.Schema.from_dict(SCHEMA.to_dict()).without_link().unit)
    release = ds.synthesize(people(60), plain, ds.MST(), budget=ds.PureDP(8), testing=True, noise_seed=1)
    both = SideBySide(Codes.of(plain, {}, 0), release, plain)
    with pytest.raises(ds.errors.InputError, match="needs a panel"):
        metric("turnover").values(both)
