"""Simulated young voters, in the shape and with the sparsity of the survey extract used to study STEPS.

The original is the youth subset of the voting supplement of the Current Population Survey, 2000–2012, with
44,821 people and 15 columns (Holbein and Hillygus, American Journal of Political Science 60, 2016; Bowen,
Liu and Su, arXiv 1803.06763, section 4). Nobody votes, or registers at a motor vehicle office, without
being registered; without the former impossibility the cross-table has 1,720,320 cells, with it 1,290,240, of
which the original occupies 21,329, two thirds of them with a single person.

These people are invented. They belong to twelve latent classes with their own tendencies in every column,
set so that the columns have the published margins, corrected where the published table cannot be right
(complements that do not add up to 100 %). What the classes make of the joint distribution is arbitrary, but
about as sparse as the original: the number of cells with one, two, … people is within a tenth of the
published one (`PUBLISHED_CELLS`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from dipsmith.arrays import Floats, Ints
from dipsmith.examples import write_example
from dipsmith.schema import Schema

PEOPLE: Final = 44_821
CLASSES: Final = 12
TILT: Final = 1.25
"""Standard deviation, on the logit scale, of a class's tendency in one column."""

# fmt: off
AGES: Final = {"18": 0.205, "19": 0.197, "20": 0.200, "21": 0.200, "22": 0.198}
RESIDENCE: Final = {
    "under 1 month": 0.027, "1-6 months": 0.200, "7-11 months": 0.069, "1-2 years": 0.150, "3-4 years": 0.098,
    "5 years or more": 0.456,
}
INCOME: Final = {
    "under 5,000": 0.052, "5,000-7,499": 0.032, "7,500-9,999": 0.031, "10,000-12,499": 0.039,
    "12,500-14,999": 0.034, "15,000-19,999": 0.046, "20,000-24,999": 0.058, "25,000-29,999": 0.063,
    "30,000-34,999": 0.060, "35,000-39,999": 0.072, "40,000-49,999": 0.076, "50,000-59,999": 0.084,
    "60,000-74,999": 0.088, "75,000 or more": 0.265,
}
"""Fourteen brackets; only the smallest, median and largest share (3.1, 5.9, 26.5 %) are published."""

COLUMNS: Final[Mapping[str, float | Mapping[str, float]]] = {
    "voted": 0.347, "preregistration_state": 0.105, "age": AGES, "married": 0.075, "female": 0.507,
    "family_income": INCOME, "college_degree": 0.031, "white": 0.693, "hispanic": 0.146, "registered": 0.524,
    "metropolitan": 0.779, "length_of_residence": RESIDENCE, "business_or_farm": 0.126,
    "in_person_interview": 0.367, "dmv_registration": 0.127,
}
"""Share of people with each of the twelve yes/no properties, and the shares of the levels of the other columns."""
# fmt: on

NAMES: Final = tuple(COLUMNS)
YES: Final = {name: share for name, share in COLUMNS.items() if isinstance(share, float)}
PUBLISHED_CELLS: Final = {"1": 14_061, "2": 3_545, "3": 1_508, "4": 740, "5": 425, "more": 1_050}
"""How many cells of the original hold so many people."""

_LISTED: Final = {"age": AGES, "length_of_residence": RESIDENCE, "family_income": INCOME}
_ONLY_REGISTERED: Final = ("voted", "dmv_registration")


def simulate(people: int = PEOPLE, seed: int = 0) -> pa.Table:
    """Simulate young voters; the population they are drawn from is the same for every seed.

    >>> table = simulate(1000)
    >>> table.num_rows, table.num_columns
    (1000, 15)
    """
    columns = dict[str, pa.Array]()
    for name, column in codes(people, seed).items():
        if name == "age":
            columns[name] = pa.array(18 + column)
        elif name in _LISTED:
            labels = pa.array(list(_LISTED[name]))
            columns[name] = pa.DictionaryArray.from_arrays(column.astype(np.int8), labels)
        else:
            columns[name] = pa.array(column.astype(bool))
    return pa.table(columns)


def codes(people: int = PEOPLE, seed: int = 0) -> dict[str, Ints]:
    """The simulated people as codes of `schema()`, column by column."""
    weights, yes, listed = _population()
    rng = np.random.default_rng([seed, 20_120])
    member = rng.choice(CLASSES, people, p=weights)
    columns = {name: (rng.random(people) < p[member]).astype(np.int64) for name, p in yes.items()}
    for name in _ONLY_REGISTERED:
        columns[name] &= columns["registered"]
    for name, p in listed.items():
        limits = np.cumsum(p, axis=1)[:, :-1]
        columns[name] = (rng.random(people)[:, None] >= limits[member]).sum(axis=1)
    return {name: columns[name] for name in NAMES}


def schema(neighbours: str = "replace") -> Schema:
    """Describe the simulated people: 15 columns, and nobody votes who is not registered."""
    fields: list[dict[str, object]] = []
    for name in NAMES:
        if name in _LISTED:
            labels = list(_LISTED[name])
            kind = "integer" if name == "age" else "string"
            fields.append({"name": name, "type": kind, "enum": labels, "ordered": True, "other": labels[0]})
        else:
            fields.append({"name": name, "type": "boolean"})
    rules = [{"never": {"voted": "true", "registered": "false"}}]
    data = {"name": "voters", "unit": "row", "neighbours": neighbours, "fields": fields, "rules": rules}
    return Schema.from_dict(data)


def write(folder: str | Path, people: int = PEOPLE, *, seed: int = 0) -> None:
    """Write voters.parquet and voters.yaml into a folder."""
    write_example(folder, simulate(people, seed), schema())


def _population(seed: int = 291) -> tuple[Floats, dict[str, Floats], dict[str, Floats]]:
    """The classes' weights, and for every column the distribution in each class."""
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.full(CLASSES, 2.0))
    yes: dict[str, Floats] = {}
    for name in ("registered", *(n for n in YES if n != "registered")):
        among = weights * yes["registered"] if name in _ONLY_REGISTERED else weights
        tilt, share = rng.normal(0, TILT, CLASSES), YES[name] / among.sum()
        binary = np.stack([np.zeros(CLASSES), tilt], axis=1)
        yes[name] = _tilt(binary, among / among.sum(), np.array([1 - share, share]))[:, 1]
    listed = {}
    for name, shares in _LISTED.items():
        margin = np.array(list(shares.values()))
        listed[name] = _tilt(rng.normal(0, TILT, (CLASSES, margin.size)), weights, margin)
    return weights, yes, listed


def _tilt(tilt: Floats, weights: Floats, margin: Floats) -> Floats:
    """Probabilities whose logits are `tilt` plus a constant for each label, so that their weighted mean is `margin`.

    By iterative proportional fitting.
    """
    constant = np.log(margin)
    made = np.empty_like(tilt)
    for _ in range(300):
        odds = np.exp(constant + tilt)
        made = odds / odds.sum(axis=1, keepdims=True)
        constant += np.log(margin / margin.sum()) - np.log(weights @ made)
    return made
