"""Simulated personnel records with known truth, in the shape of the federal pay-disparity studies.

Four yearly snapshots of a civil service. People recur over the years, age, change agency and get
raises; sex, race, education, occupation and agency depend on one another; and log pay follows exactly
the model that analysts fit,

    log(pay) = intercept(year) + sex(year) + race(year) + a·age + b·age² + c·education
               + agency + occupation + person + noise,

so that every estimate can be held against the coefficient that made the data. Supervisors are chosen
by age and by the part of pay that the model does not explain, so leaving them out biases nothing. The
setting follows Barrientos et al., Annals of Applied Statistics 12 (2018); all numbers are invented.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dipsmith.examples import write_example
from dipsmith.schema import Schema

YEARS = (1988, 1996, 2003, 2011)
RACES = ("A", "B", "C", "D", "E")
EDUCATION = (10, 12, 13, 14, 16, 18, 20)
STATUS = ("none", "leader", "supervisor")

# fmt: off
# code: (typical years of education, tilt towards women, effect on log pay, share)
OCCUPATIONS: Mapping[str, tuple[float, float, float, float]] = {
    "0000": (13, 0.2, -0.10, 0.03), "0081": (12, -2.2, 0.02, 0.03), "0083": (13, -1.6, 0.05, 0.03),
    "0201": (15, 0.9, 0.10, 0.03), "0203": (12, 1.6, -0.22, 0.03), "0301": (14, 0.3, 0.04, 0.06),
    "0303": (12, 1.4, -0.30, 0.09), "0318": (12, 2.8, -0.26, 0.07), "0343": (16, 0.3, 0.20, 0.05),
    "0501": (15, 0.4, 0.08, 0.03), "0510": (16, -0.1, 0.16, 0.03), "0525": (12, 1.7, -0.25, 0.03),
    "0602": (20, -0.6, 0.62, 0.02), "0610": (15, 2.3, 0.22, 0.05), "0621": (12, 1.5, -0.32, 0.03),
    "0801": (16, -1.9, 0.30, 0.03), "0810": (16, -1.7, 0.26, 0.02), "0855": (16, -1.8, 0.31, 0.03),
    "0905": (20, -0.1, 0.44, 0.03), "0962": (13, 1.3, -0.08, 0.03), "1102": (15, 0.5, 0.12, 0.04),
    "1301": (17, -0.9, 0.24, 0.03), "1550": (16, -0.6, 0.28, 0.02), "1801": (14, -0.5, 0.10, 0.03),
    "1811": (16, -1.4, 0.27, 0.04), "2152": (14, -1.5, 0.40, 0.02), "2210": (15, -0.5, 0.22, 0.05),
}

# code: (effect on log pay, share, occupation family it hires three times as often)
AGENCIES: Mapping[str, tuple[float, float, str]] = {
    "AF": (-0.03, 0.09, "21"), "AG": (-0.05, 0.06, "03"), "AR": (-0.04, 0.12, "08"),
    "CM": (0.03, 0.02, "13"), "DD": (0.00, 0.05, "11"), "DJ": (0.05, 0.05, "18"),
    "DN": (0.07, 0.01, "13"), "ED": (0.04, 0.01, "03"), "EP": (0.06, 0.01, "13"),
    "GS": (0.02, 0.01, "11"), "HE": (0.05, 0.04, "06"), "HS": (0.01, 0.07, "18"),
    "HU": (0.03, 0.01, "05"), "IN": (-0.04, 0.04, "08"), "LB": (0.04, 0.01, "05"),
    "NN": (0.12, 0.01, "08"), "NV": (-0.02, 0.10, "08"), "OM": (0.03, 0.01, "02"),
    "SB": (0.02, 0.01, "09"), "ST": (0.08, 0.01, "03"), "SZ": (-0.01, 0.04, "09"),
    "TD": (0.10, 0.03, "21"), "TR": (0.00, 0.06, "05"), "VA": (-0.02, 0.13, "06"),
}
# fmt: on

PERSON_SD, NOISE_SD = 0.17, 0.11
QUIT, RETIRE_FROM, MOVED = 0.055, 60, 0.125
PROMOTED = (0.05, 0.08)
CAREER_YEARS = tuple(range(2002, 2012))
AGE, AGE_SQUARED, SCHOOLING = 0.036, -0.00034, 0.034
FIRST_AGE, LAST_AGE = 17, 75


@dataclass(frozen=True)
class PersonnelTruth:
    """The coefficients of log pay that made the data; men, race E and intercepts per year are the reference.

    `sex[year]` is the effect of being a woman; `race[year][label]` of race A to D.
    """

    sex: Mapping[int, float]
    race: Mapping[int, Mapping[str, float]]
    intercept: Mapping[int, float]
    age: float
    age_squared: float
    education: float
    agency: Mapping[str, float]
    occupation: Mapping[str, float]
    residual_sd: float

    @classmethod
    def of(cls, years: Sequence[int]) -> PersonnelTruth:
        """Fix the coefficients for some years: gaps shrink from 1988 to 2011, pay rises."""
        gone = {year: (year - 1988) / (2011 - 1988) for year in years}
        first = {"A": -0.035, "B": -0.020, "C": -0.030, "D": -0.050}
        return cls(
            sex={year: -0.08 + 0.03 * t for year, t in gone.items()},
            race={year: {r: v * (1 - 0.4 * t) for r, v in first.items()} for year, t in gone.items()},
            intercept={year: 8.85 + 0.95 * t for year, t in gone.items()},
            age=AGE,
            age_squared=AGE_SQUARED,
            education=SCHOOLING,
            agency={code: effect for code, (effect, _, _) in AGENCIES.items()},
            occupation={code: effect for code, (_, _, effect, _) in OCCUPATIONS.items()},
            residual_sd=float(np.hypot(PERSON_SD, NOISE_SD)),
        )


@dataclass(frozen=True)
class CareerTruth:
    """What made the careers: coefficients of pay, and yearly chances of being promoted, moved and gone.

    `promoted` are the chances from none to leader and from leader to supervisor. Everyone younger than `retire_from` stays with
    the chance exp(−`quit`), and less from then on. New staff begin without a status; sex, race, education and occupation are
    theirs for life.
    """

    pay: PersonnelTruth
    promoted: tuple[float, float] = PROMOTED
    moved: float = MOVED
    quit: float = QUIT
    retire_from: int = RETIRE_FROM


People = dict[str, NDArray[Any]]


def simulate(
    rows_per_year: int = 25_000, years: Sequence[int] = YEARS, seed: int = 0
) -> tuple[pa.Table, PersonnelTruth]:
    """Simulate snapshots of personnel records in increasing years, and return the coefficients behind pay with them.

    >>> table, truth = simulate(1000)
    >>> table.num_rows, round(truth.sex[1988], 3)
    (4000, -0.08)
    """
    rng = np.random.default_rng(seed)
    truth = PersonnelTruth.of(years)
    staff: People = {}
    tables, hired, before = [], 0, years[0]
    for year in years:
        stayed = _stay(staff, year - before, rows_per_year, rng) if staff else {}
        missing = rows_per_year - len(stayed.get("age", ()))
        joined = _hire(missing, year, first=not staff, rng=rng) | {"employee_id": hired + np.arange(missing)}
        staff = {name: np.concatenate([stayed[name], new]) if stayed else new for name, new in joined.items()}
        hired, before = hired + missing, year
        tables.append(_snapshot(staff, year, truth, rng))
    return pa.concat_tables(tables, promote_options="none").unify_dictionaries(), truth


def simulate_careers(
    rows_per_year: int = 2_500, years: Sequence[int] = CAREER_YEARS, seed: int = 0
) -> tuple[pa.Table, CareerTruth]:
    """Simulate personnel records of successive years: people enter, are promoted, move, and leave; sex and race stay.

    >>> table, truth = simulate_careers(500, range(2005, 2009))
    >>> table.num_rows, truth.promoted
    (2000, (0.05, 0.08))
    """
    rng = np.random.default_rng(seed)
    truth = CareerTruth(PersonnelTruth.of(years))
    staff: People = {}
    tables, hired = [], 0
    for year in years:
        if staff:
            staff = _stay(staff, 1, rows_per_year, rng)
            status = staff["status"]
            chance = np.array([*truth.promoted, 0.0])[status]
            staff["status"] = (status + (rng.random(len(status)) < chance)).astype(np.int8)
        missing = rows_per_year - len(staff.get("age", ()))
        joined = _hire(missing, year, first=not staff, rng=rng) | {"employee_id": hired + np.arange(missing)}
        # The first year begins with people who have been there for some time.
        joined["status"] = rng.choice(3, missing, p=[0.72, 0.16, 0.12] if not staff else [1, 0, 0]).astype(np.int8)
        staff = {name: np.concatenate([staff[name], new]) if staff else new for name, new in joined.items()}
        hired += missing
        tables.append(_snapshot(staff, year, truth.pay, rng))
    return pa.concat_tables(tables, promote_options="none").unify_dictionaries(), truth


def _hire(n: int, year: int, *, first: bool, rng: np.random.Generator) -> People:
    """Hire new staff; the first year starts with people of all ages."""
    t = (year - 1988) / 23
    shares = np.array([0.020, 0.035 + 0.03 * t, 0.055 + 0.03 * t, 0.17 + 0.01 * t, 0.0])
    shares[4] = 1 - shares.sum()
    race = rng.choice(5, n, p=shares).astype(np.int8)
    female = rng.random(n) < 0.44 + 0.02 * t + 0.16 * (race == 3) - 0.04 * (race == 1)
    spread = rng.beta(2.2, 2.6, n) * 46 + 19 if first else rng.beta(1.4, 3.2, n) * 44 + 18
    schooling = 14.1 + 0.7 * t + 0.5 * (race == 1) - 0.5 * (race == 2) - 0.6 * (race == 3) - 0.5 * (race == 0)
    wanted = schooling - (0.9 - 0.7 * t) * female + rng.normal(0, 2.3, n)
    levels = np.array(EDUCATION)
    education = np.searchsorted((levels[1:] + levels[:-1]) / 2, wanted).astype(np.int8)
    occupation = _draw_by(education * 2 + female, _occupation_odds(), rng)
    medical = np.array([code.startswith("06") for code in OCCUPATIONS])[occupation]
    agency = _draw_by(occupation, _agency_odds(), rng)
    age = np.maximum(np.floor(spread), np.where(medical, 22, 16 + levels[education] // 3))
    return {
        "age": age.astype(np.int16),
        "female": female,
        "race": race,
        "education": education,
        "occupation": occupation,
        "agency": agency,
        "person": rng.normal(0, PERSON_SD, n),
    }


def _stay(staff: People, gap: int, limit: int, rng: np.random.Generator) -> People:
    """Keep who is still in service after `gap` years, older; one in eight has moved to another agency."""
    age = staff["age"] + gap
    chance = np.exp(-QUIT * gap) * np.clip((LAST_AGE - age) / (LAST_AGE - RETIRE_FROM), 0, 1)
    kept = np.flatnonzero(rng.random(len(age)) < chance)[:limit]
    older = {name: values[kept] for name, values in staff.items()} | {"age": age[kept].astype(np.int16)}
    moved = rng.random(len(kept)) < MOVED
    agency = _draw_by(older["occupation"], _agency_odds(), rng)
    return older | {"agency": np.where(moved, agency, older["agency"])}


def _occupation_odds() -> NDArray[np.float64]:
    """P(occupation | education, sex), one row per (education, sex)."""
    typical, tilt, _, share = np.array(list(OCCUPATIONS.values())).T
    fit = -(((np.array(EDUCATION)[:, None] - typical) / 2.4) ** 2) / 2
    odds = np.log(share) + fit[:, None, :] + 0.5 * tilt * np.array([-1, 1])[None, :, None]
    weights = np.exp(odds).reshape(-1, len(OCCUPATIONS))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _agency_odds() -> NDArray[np.float64]:
    """P(agency | occupation), one row per occupation."""
    share = np.array([s for _, s, _ in AGENCIES.values()])
    liked = np.array([[code.startswith(family) for _, _, family in AGENCIES.values()] for code in OCCUPATIONS])
    weights = share * np.where(liked, 3.0, 1.0)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _draw_by(group: NDArray[Any], odds: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int8]:
    """Draw a column for everyone from the row of `odds` that their group names."""
    drawn = np.empty(len(group), dtype=np.int8)
    share = rng.random(len(group))
    for row, limits in enumerate(np.cumsum(odds, axis=1)):
        chosen = group == row
        drawn[chosen] = np.searchsorted(limits[:-1], share[chosen], side="right")
    return drawn


def _snapshot(staff: People, year: int, truth: PersonnelTruth, rng: np.random.Generator) -> pa.Table:
    n = len(staff["age"])
    age = staff["age"].astype(np.float64)
    unexplained = staff["person"] + rng.normal(0, NOISE_SD, n)
    log_pay = (
        truth.intercept[year]
        + truth.sex[year] * staff["female"]
        + np.array([*truth.race[year].values(), 0.0])[staff["race"]]
        + truth.age * age
        + truth.age_squared * age**2
        + truth.education * np.array(EDUCATION)[staff["education"]]
        + np.array(list(truth.agency.values()))[staff["agency"]]
        + np.array(list(truth.occupation.values()))[staff["occupation"]]
        + unexplained
    )
    rank = unexplained / truth.residual_sd + (age - 45) / 15 + rng.normal(0, 1, n)
    status = staff.get("status", np.digitize(rank, [1.6, 2.0]))
    columns = {
        "employee_id": staff["employee_id"] + 100_000,
        "year": np.full(n, year, dtype=np.int64),
        "age": staff["age"].astype(np.int64),
        "education": np.array(EDUCATION, dtype=np.int64)[staff["education"]],
        "agency": _words(staff["agency"], tuple(AGENCIES)),
        "occupation": _words(staff["occupation"], tuple(OCCUPATIONS)),
        "supervisory": _words(status, STATUS),
        "pay": np.round(np.exp(log_pay)),
        "sex": _words(1 - staff["female"], ("F", "M")),
        "race": _words(staff["race"], RACES),
    }
    return pa.table(columns).take(rng.permutation(n))


def _words(codes: NDArray[Any], words: Sequence[str]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(codes.astype(np.int8), pa.array(words))


def schema(years: Sequence[int] = YEARS) -> Schema:
    """Describe the simulated records for label protection: sex and race are private, the rest public."""
    public: dict[str, dict[str, object]] = {
        "year": {"type": "integer", "enum": list(years), "ordered": True, "other": years[-1]},
        "age": {"type": "integer", "minimum": FIRST_AGE, "maximum": LAST_AGE, "bins": {"width": 5}},
        "education": {"type": "integer", "enum": list(EDUCATION), "ordered": True, "other": 12},
        "agency": {"type": "string", "enum": list(AGENCIES), "other": "DD"},
        "occupation": {"type": "string", "enum": list(OCCUPATIONS), "collapse": {"prefix": 2}, "other": "0000"},
        "supervisory": {"type": "string", "enum": list(STATUS), "other": "none"},
        "pay": {"type": "number", "minimum": 0, "maximum": 250_000, "bins": {"round": 5_000}},
    }
    fields = [{"name": name, "role": "public"} | field for name, field in public.items()]
    fields.append({"name": "sex", "type": "string", "enum": ["F", "M"], "other": "M"})
    fields.append({"name": "race", "type": "string", "enum": list(RACES), "other": "E"})
    return Schema.from_dict(
        {
            "name": "personnel",
            "unit": {"column": "employee_id", "max_rows": 1, "per": "year"},
            "neighbours": "label",
            "fields": fields,
            "rules": [{"never": {"age": {"below": 22}, "occupation": "06"}}],
        }
    )


def career_schema(years: Sequence[int] = CAREER_YEARS) -> Schema:
    """Describe the careers for label protection: it is public who is who over the years, sex and race are theirs for life."""
    plain = schema(years).to_dict()
    fields: Any = plain["fields"]
    shared = [{**field, "fixed": True} if field["name"] in ("sex", "race") else field for field in fields]
    unit = {"column": "employee_id", "max_rows": len(years), "link": "public"}
    return Schema.from_dict({**plain, "name": "careers", "unit": unit, "fields": shared})


def panel_schema(years: Sequence[int] = CAREER_YEARS) -> Schema:
    """Describe the careers as a panel, all of it private: what is protected is a person over all years.

    Pay is cut into bins of a tenth, about twice a usual raise; sex, race and education are theirs for life.
    """
    pay = [10_000, *(round(12_000 * 1.1**i, -2) for i in range(30)), 250_000]
    described = schema(years).to_dict()
    fields: Any = described["fields"]
    kept = {field["name"]: {k: v for k, v in field.items() if k != "role"} for field in fields}
    kept["pay"] = {"name": "pay", "type": "number", "bins": {"edges": pay, "law": "log"}}
    fixed = [{**kept[name], "fixed": True} for name in ("sex", "race", "education")]
    changing = [kept[name] for name in ("year", "age", "agency", "supervisory", "pay")]
    return Schema.from_dict(
        {
            "name": "panel",
            "unit": {"column": "employee_id", "max_rows": len(years), "order": "year"},
            "neighbours": "add-remove",
            "fields": [*changing, *fixed],
        }
    )


def write_panel(
    folder: str | Path, rows_per_year: int = 2_500, years: Sequence[int] = CAREER_YEARS, *, seed: int = 0
) -> CareerTruth:
    """Write panel.parquet and panel.yaml into a folder: the careers, described as a panel."""
    table, truth = simulate_careers(rows_per_year, years, seed)
    write_example(folder, table, panel_schema(years))
    return truth


def write_careers(folder: str | Path, rows_per_year: int = 2_500, *, seed: int = 0) -> CareerTruth:
    """Write careers.parquet and careers.yaml into a folder."""
    table, truth = simulate_careers(rows_per_year, seed=seed)
    write_example(folder, table, career_schema())
    return truth


def write(folder: str | Path, rows_per_year: int = 25_000, *, csv: bool = True, seed: int = 0) -> PersonnelTruth:
    """Write personnel.parquet, personnel.yaml and (unless told not to) personnel.csv into a folder."""
    import pyarrow.csv

    table, truth = simulate(rows_per_year, seed=seed)
    write_example(folder, table, schema())
    if csv:
        pyarrow.csv.write_csv(table, Path(folder) / "personnel.csv")
    return truth
