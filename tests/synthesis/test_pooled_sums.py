"""Planned sums pooled with the labeller's own tables: the same sums, with less noise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from tests.analyses.test_direct import people, schema

import dipsmith as ds
from dipsmith.schema import Unit
from dipsmith.synthesis.label_tables import DeterminedSums
from dipsmith.synthesis.planned import Calibration, PlannedSums

pytestmark = pytest.mark.filterwarnings("ignore::dipsmith.errors.HopelessNoise")  # tables of a few hundred rows

FORMULAS = ["log(pay) ~ sex + race + age | agency + year", "I(sex == 'F') ~ age + agency"]
METHODS = [ds.LogLinear(targets=["sex", "race"], interactions=0), ds.Forest(targets=["sex", "race"])]


def both_ways(
    monkeypatch: pytest.MonkeyPatch, method: ds.Method, budget: ds.Budget, most: int | None = None
) -> tuple[Calibration, Calibration]:
    """What a run knows of the planned sums: from all tables, and from those alone that were bought for them."""
    frame, how = people(1500, 5), schema()
    if most is not None:
        frame["id"] = np.arange(len(frame)) // 3
        how = replace(how, unit=Unit("id", most))
    seen: list[tuple[Calibration, Calibration]] = []
    estimate = PlannedSums.estimate

    def noted(self: PlannedSums, measured: object) -> Calibration:
        pooled = estimate(self, measured)  # type: ignore[arg-type]
        seen.append((pooled, estimate(self, ())))
        return pooled

    monkeypatch.setattr(PlannedSums, "estimate", noted)
    table = pa.Table.from_pandas(frame, preserve_index=False)
    ds.synthesize(table, how, method, budget=budget, analyses=FORMULAS, testing=True, noise_seed=3, seed=3)
    return seen[0]


@pytest.mark.slow
@pytest.mark.parametrize("most", [None, 2])
@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
def test_all_tables_tell_the_same_sums(method: ds.Method, most: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the rows that count, by the right groups, weights and labels: sums of hundreds differ by noise of a few.

    A sum as it was bought is farther than 15 standard deviations of its Laplace noise with a probability below 1e-9.
    """
    pooled, bought = both_ways(monkeypatch, method, ds.PureDP(20), most)
    for all_tables, own in zip(pooled.known, bought.known, strict=True):
        assert isinstance(all_tables, DeterminedSums)
        assert len(all_tables.used_tables) > len(own.measured_sums())  # the labeller's own are among them
        clear, known, noise = 0, all_tables.measured_sums(), own.redraw(np.random.default_rng(1), 200)
        for key, values in own.measured_sums().items():
            sd = noise[key].std(axis=0)
            clear += sd.max() < 0.1 * np.abs(values).max()
            assert (np.abs(known[key] - values)[0] <= 15 * sd + 1e-6).all(), key
        assert clear > 0


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
def test_no_sum_is_noisier_than_as_it_was_bought(method: ds.Method, monkeypatch: pytest.MonkeyPatch) -> None:
    """4,000 draws: a ratio of standard deviations is off by 5 % with a probability below 1e-6 (.011 each, 250 sums)."""
    pooled, bought = both_ways(monkeypatch, method, ds.ZCDP(0.05))
    gains = []
    for all_tables, own in zip(pooled.known, bought.known, strict=True):
        a, b = (one.redraw(np.random.default_rng(8), 4000) for one in (all_tables, own))
        for key in b:
            before, after = (np.sqrt((x[key] ** 2).mean(axis=0)) for x in (b, a))
            assert (after <= 1.07 * before + 1e-9).all(), key
            gains.append(float((after / np.maximum(before, 1e-9)).mean()))
    assert min(gains) < 0.9
