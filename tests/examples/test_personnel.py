"""The simulated personnel records: shape, dependence, recurrence, and that the truth can be found again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
import pytest

from dipsmith.examples import personnel
from dipsmith.schema import Schema

Table = tuple[pa.Table, personnel.PersonnelTruth]


@pytest.fixture(scope="module")
def simulated() -> Table:
    return personnel.simulate(60_000, seed=1)


def test_shape_and_columns(simulated: Table) -> None:
    table, _ = simulated
    assert table.column_names == [
        *[
            "employee_id",
            "year",
            "age",
            "education",
            "agency",
            "occupation",
            "supervisory",
            "pay",
            "sex",
            "race",
        ]
    ]
    assert pc.value_counts(table["year"]).to_pylist() == [
        {"values": y, "counts": 60_000} for y in (1988, 1996, 2003, 2011)
    ]
    assert pc.value_counts(table["race"].cast(pa.string())).to_pylist()[0].keys() == {"values", "counts"}
    assert set(pc.unique(table["race"].cast(pa.string())).to_pylist()) == set("ABCDE")


def test_people_recur_once_a_year_and_age(simulated: Table) -> None:
    frame = simulated[0].to_pandas()
    assert not frame.duplicated(["employee_id", "year"]).any()
    both = frame[frame.year == 1988].merge(frame[frame.year == 1996], on="employee_id", suffixes=("", "_later"))
    assert 0.3 < len(both) / 60_000 < 0.8
    assert (both.age_later == both.age + 8).all()
    assert (both.sex == both.sex_later).all()
    assert (both.race == both.race_later).all()
    assert (both.pay_later > both.pay).mean() > 0.9
    assert np.corrcoef(np.log(both.pay), np.log(both.pay_later))[0, 1] > 0.6
    assert 0 < (both.agency != both.agency_later).mean() < 0.3


def test_covariates_depend_on_each_other(simulated: Table) -> None:
    frame = simulated[0].to_pandas()
    women = frame.groupby("occupation", observed=True).sex.agg(lambda s: (s == "F").mean())
    assert women["0318"] > 0.8
    assert women["0801"] < 0.2
    trend = frame.groupby("year").sex.agg(lambda s: (s == "F").mean())
    assert trend.is_monotonic_increasing
    medical = frame.assign(medical=frame.occupation.astype(str).str.startswith("06"))
    share = medical.groupby("agency", observed=True).medical.mean()
    assert share["VA"] > 2 * share["AR"]
    schooling = frame.groupby("occupation", observed=True).education.mean()
    assert schooling["0602"] > schooling["0303"] + 3


def test_the_truth_is_found_by_the_model_that_analysts_fit(simulated: Table) -> None:
    """Least squares per year; the estimates are normal around the truth with the standard errors below.

    30 coefficients at 6 standard errors: false alarm 30 × 2e-9 = 6e-8; the seed is fixed besides.
    """
    table, truth = simulated
    for year in (1988, 2011):
        frame = table.filter(pc.equal(table["year"], year)).to_pandas()
        columns: dict[str, np.ndarray] = {"sex F": (frame.sex == "F").to_numpy(float)}
        columns |= {f"race {r}": (frame.race == r).to_numpy(float) for r in "ABCD"}
        age = frame.age.to_numpy(float)
        columns |= {"age": age, "age²": age**2, "education": frame.education.to_numpy(float)}
        columns |= {f"agency {a}": (frame.agency == a).to_numpy(float) for a in personnel.AGENCIES}
        columns |= {f"job {o}": (frame.occupation == o).to_numpy(float) for o in list(personnel.OCCUPATIONS)[1:]}
        design = np.column_stack(list(columns.values()))
        y = np.log(frame.pay.to_numpy())
        inverse = np.linalg.inv(design.T @ design)
        coefficient = inverse @ (design.T @ y)
        residual = y - design @ coefficient
        spread = residual.std(ddof=design.shape[1])
        errors = spread * np.sqrt(np.diag(inverse))
        found = dict(zip(columns, zip(coefficient, errors, strict=True), strict=True))
        expected = {
            "sex F": truth.sex[year],
            "age": truth.age,
            "age²": truth.age_squared,
            "education": truth.education,
        }
        expected |= {f"race {r}": truth.race[year][r] for r in "ABCD"}
        base = truth.occupation["0000"]
        expected |= {f"job {o}": truth.occupation[o] - base for o in ("0318", "0602", "2210")}
        expected |= {f"agency {a}": truth.agency[a] + truth.intercept[year] + base for a in ("NN", "VA")}
        for name, value in expected.items():
            estimate, error = found[name]
            assert abs(estimate - value) < 6 * error, (year, name, estimate, value, error)
        assert abs(spread - truth.residual_sd) < 0.01


def test_gaps_shrink() -> None:
    truth = personnel.PersonnelTruth.of((1988, 2011))
    assert truth.sex == {1988: -0.08, 2011: pytest.approx(-0.05)}
    assert all(truth.race[1988][r] < truth.race[2011][r] < 0 for r in "ABCD")


def test_one_seed_one_table() -> None:
    first, again, other = (personnel.simulate(500, seed=s)[0] for s in (3, 3, 4))
    assert first.equals(again)
    assert not first.equals(other)


def test_schema_fits_the_rows(simulated: Table) -> None:
    from dipsmith.codec import Encoder

    schema = personnel.schema()
    codes, keep = Encoder(schema).encode(simulated[0])
    assert keep.all()
    assert codes.lawful().all()
    assert len(schema.rules) == 1
    assert schema.neighbours == "label"
    assert schema.private == ("sex", "race")
    assert str(schema.unit) == "employee_id per year, at most 1 row"
    used = {name: len(np.unique(codes[name])) for name in codes.names}
    assert all(used[n] == schema[n].size for n in ("year", "education", "agency", "occupation", "sex", "race"))


def test_write(tmp_path: Path) -> None:
    truth = personnel.write(tmp_path / "demo", 200)
    assert truth == personnel.PersonnelTruth.of(personnel.YEARS)
    assert Schema.read(tmp_path / "demo" / "personnel.yaml") == personnel.schema()
    assert pyarrow.parquet.read_table(tmp_path / "demo" / "personnel.parquet").num_rows == 800
    text = pyarrow.csv.read_csv(tmp_path / "demo" / "personnel.csv")
    assert text.num_rows == 800
    assert text.column_names[0] == "employee_id"


def test_careers_described_as_a_panel(tmp_path: Path) -> None:
    truth = personnel.write_panel(tmp_path, 400, range(2008, 2012), seed=3)
    made = Schema.read(tmp_path / "panel.yaml")
    assert made == personnel.panel_schema(range(2008, 2012))
    assert made.unit.order == "year"
    frame = pyarrow.parquet.read_table(tmp_path / "panel.parquet").to_pandas()
    assert (frame.groupby("employee_id")[["sex", "race", "education"]].nunique() == 1).all(axis=None)
    stays = frame.merge(frame.assign(year=frame.year - 1), on=["employee_id", "year"], suffixes=("", "_next"))
    rank = {"none": 0, "leader": 1, "supervisor": 2}
    raised = stays.supervisory_next.map(rank).astype(int) - stays.supervisory.map(rank).astype(int)
    assert set(raised) == {0, 1}
    from_none = raised[stays.supervisory == "none"].mean()
    assert abs(from_none - truth.promoted[0]) < 6 * (truth.promoted[0] / (stays.supervisory == "none").sum()) ** 0.5
    assert frame.pay.between(made["pay"].domain.minimum, made["pay"].domain.maximum).mean() > 0.999
