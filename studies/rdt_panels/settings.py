"""The releases that the first report's figures compare: pairs of settings that differ in one parameter."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

import dipsmith as ds
from dipsmith.experiments.datasets import Dataset, dataset
from dipsmith.experiments.study import DataEntry
from dipsmith.sources import source
from dipsmith.synthesis.release import Release
from dipsmith.utility.metric import SideBySide
from dipsmith.utility.pair import authentic_codes

ROWS = 100_000
YEAR = 1988
SEED = 2018
COLLAPSE = {
    "10k": {"pay": {"bins": {"round": 10_000}}},
    "25k, rare merged": {"pay": {"bins": {"round": 25_000}}, "rare": {"agency": 2_500, "occupation": 5_000}},
}
"""As in the report; its thresholds, 500 and 200 employees, would merge nothing here, where agencies are larger."""
EVEN = {"occupation": 20, "pay": 10}
AGENCY = {"agency": 60, "occupation": 20}


@dataclass(frozen=True)
class Setting:
    """One release of the report: trees, ε of each, n_B, how labels are collapsed, and the weights of the attributes."""

    trees: int = 5
    epsilon: float = 0.1
    n_b: int = 1_000
    collapse: str = "25k, rare merged"
    weights: dict[str, int] = field(default_factory=lambda: dict(EVEN), hash=False)

    @property
    def total(self) -> float:
        """What two ensembles of so many trees cost."""
        return 2 * self.trees * self.epsilon

    @property
    def weighted(self) -> str:
        """The weights in words."""
        return ", ".join(f"{name} {weight}" for name, weight in self.weights.items()) or "all alike"


@dataclass(frozen=True)
class Compared:
    """One figure of the report: what it varies, the two settings, and what is drawn of them."""

    number: int
    varied: str
    names: tuple[str, str]
    settings: tuple[Setting, Setting]
    panels: str = "cd"
    predictors: tuple[str, ...] = ()

    @property
    def file(self) -> str:
        """The name of its drawing."""
        return f"report-figure-{self.number}"


def _first(**keys: object) -> Setting:
    return Setting(trees=10, epsilon=0.4, **keys)  # type: ignore[arg-type]


_COLLAPSED = (_first(collapse="10k"), _first())
_BY_COLLAPSE = ("pay in $10,000", "pay in $25,000, rare labels merged")
_BY_WEIGHT = ("occupation 20, pay 10", "agency 60, occupation 20")


def _logistic(number: int, epsilon: float, weights: tuple[dict[str, int], dict[str, int]], *on: str) -> Compared:
    settings = tuple(Setting(epsilon=epsilon, weights=one) for one in weights)
    names = tuple(f"weights: {one.weighted}" for one in settings)
    return Compared(number, "weights", names, settings, "logistic", on)  # type: ignore[arg-type]


FIGURES = (
    Compared(3, "collapsing", _BY_COLLAPSE, _COLLAPSED, "ab"),
    Compared(4, "collapsing", _BY_COLLAPSE, _COLLAPSED),
    Compared(5, "ensemble size", ("5 trees", "10 trees"), (Setting(epsilon=0.4), _first())),
    Compared(6, "weights, labels collapsed", _BY_WEIGHT, (Setting(), Setting(weights=AGENCY))),
    Compared(
        7,
        "weights, only pay collapsed",
        _BY_WEIGHT,
        (Setting(collapse="10k"), Setting(collapse="10k", weights=AGENCY)),
    ),
    Compared(
        8, "ε", ("ε = 0.1 a tree", "ε = 0.4 a tree"), (Setting(weights=AGENCY), Setting(epsilon=0.4, weights=AGENCY))
    ),
    Compared(9, "n_B", ("n_B = 1,000", "n_B = 2,000"), (Setting(), Setting(n_b=2_000))),
    _logistic(10, 0.1, ({"agency": 60}, {}), "agency"),
    _logistic(11, 0.4, ({"agency": 60}, {}), "agency"),
    _logistic(12, 0.1, (AGENCY, {"occupation": 20}), "agency", "occupation"),
    _logistic(13, 0.4, ({"occupation": 60}, {}), "agency", "occupation"),
    _logistic(14, 0.4, ({"occupation": 60}, {}), "occupation"),
)
"""Every figure of section 6. Those whose panels the report's text does not name (5, 8, 9) show (c) and (d)."""


@lru_cache(maxsize=2)
def people(collapse: str, rows: int = ROWS) -> Dataset:
    """Simulated employees of one year under the schema that collapses their labels so."""
    return dataset(DataEntry(example="personnel", rows=rows, years=[YEAR]), SEED, change=COLLAPSE[collapse])


def release(setting: Setting, rows: int = ROWS) -> tuple[SideBySide, tuple[float, float]]:
    """Make a release, put it beside the authentic rows, and say how many labels of sex and of race agree."""
    data = people(setting.collapse, rows)
    forest = ds.Forest(
        targets=["sex", "race"],
        leaves="sequential",
        trees=setting.trees,
        n_b=setting.n_b,
        weights=setting.weights,
        shrink=False,
        marginal_share=0,
    )
    budget = ds.PureDP(setting.total)
    made = ds.synthesize(data.rows, data.schema, forest, budget=budget, testing=True, noise_seed=SEED, seed=SEED)
    names = [n for n in data.schema.names if n in made.tables[0].column_names]
    codes = authentic_codes(source(data.rows), data.schema, names)[0]
    return SideBySide(codes, made, data.schema, third="occupation"), agreement(data, made)


def agreement(data: Dataset, made: Release) -> tuple[float, float]:
    """The report's *pTrueClassified*: shares of rows whose synthetic sex, and race, is the authentic one."""
    # By the model: a release does not label its own rows in the order of the table.
    labelled = made.models[0].label(source(data.rows), SEED)
    found = [
        float(np.mean(data.rows[name].to_numpy(zero_copy_only=False) == labelled[name].to_numpy(zero_copy_only=False)))
        for name in ("sex", "race")
    ]
    return found[0], found[1]
