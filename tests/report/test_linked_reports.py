"""Reports of rows that belong together: careers, and households with their members."""

from dataclasses import replace

import numpy as np
import pytest

import dipsmith as ds
from dipsmith.examples import households
from dipsmith.examples.personnel import panel_schema, simulate_careers
from dipsmith.report.sections import page
from dipsmith.report.transitions import Moves, transitions
from dipsmith.synthesis.report import Glance, report_page
from dipsmith.synthesis.spent import column_noise, table_noise

YEARS = range(2008, 2012)


@pytest.fixture(scope="module")
def careers():
    table, _ = simulate_careers(300, YEARS, seed=1)
    schema = panel_schema(YEARS)
    return ds.synthesize(table, schema, ds.AIM(rounds=1), budget=ds.PureDP(1), testing=True, noise_seed=1, seed=1)


@pytest.mark.slow
def test_noise_on_shares_is_that_of_the_rows_that_count(careers):
    glance = Glance.of(careers.tables[0], careers.schema)
    lengths = careers.tables[0].to_pandas().groupby("employee_id").size().to_numpy()
    tables = {t.what: t for t in table_noise(careers.card, careers.schema, glance.careers)}
    some = tables["pay, at most 2 rows of one employee_id"]
    assert some.share == pytest.approx(np.minimum(lengths, 2).sum() / lengths.sum())
    assert tables["sex (first)"].share == pytest.approx(len(lengths) / lengths.sum())
    assert tables["year (between) × (presence)"].share is None
    # The noise on a count of rows is that of the rows that count, as many times larger as these are fewer.
    told, alone = (column_noise(t, careers.schema)["pay"] for t in ([some], [replace(some, share=1.0)]))
    assert told == pytest.approx(alone / some.share)


@pytest.mark.slow
def test_where_every_row_counts_noise_is_that_of_rows(careers):
    facts = Glance.of(careers.tables[0], careers.schema).careers
    assert facts.share_of_steps(len(YEARS)) == 1
    assert facts.units == len(careers.tables[0]["employee_id"].unique())


@pytest.mark.slow
def test_the_report_of_careers_says_what_has_an_interval(careers):
    told = page(report_page(careers, Glance.of(careers.tables[0], careers.schema)))
    assert "steps of a unit=" not in told
    assert "ds.growth(release)" in told
    assert "dipsmith.fit refuses intervals" in told
    assert "dipsmith.fit adds it" not in told


@pytest.mark.slow
def test_the_report_of_households_shows_their_members():
    homes, persons, _ = households.simulate(300)
    made = ds.synthesize(
        homes, households.schema(), ds.AIM(rounds=1), budget=ds.PureDP(4), members=persons, testing=True, noise_seed=1
    )
    told = report_page(made, Glance.of(made.tables[0], made.schema))
    (section,) = (s for s in told.sections if s.heading == "Households")
    blocks = {getattr(b, "title", getattr(b, "caption", "")): b for b in section.blocks}
    numbers = blocks["How the synthetic members are distributed"].numbers
    counts = {(row[0], row[1]): row[2] for row in numbers.rows}
    sexes = made.tables["persons"][0]["sex"].to_pylist()
    assert counts["sex", "F"] == sexes.count("F") > 0
    # Only the head has the first level of relation: that others have not says nothing.
    assert "relation" not in {row[0] for row in blocks["How often a member has the value of the head"].rows}


@pytest.mark.figures
def test_labels_of_transitions_stand_at_even_distances():
    labels = [f"L{i:02}" for i in range(12)]
    drawn = transitions([Moves("age", labels, np.eye(12))], "year")
    shown = [label for label in labels if label in drawn]
    assert shown == ["L00", "L02", "L04", "L06", "L08", "L10"]
