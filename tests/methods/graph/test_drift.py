"""Drift: careers that grow as fast as measured, and no faster than noise lets one know."""

from dataclasses import replace

import numpy as np
import pytest

from dipsmith.methods.graph.aim import AIM
from dipsmith.methods.graph.careers import measure_growth, split_career
from dipsmith.methods.graph.drift import STEEPEST, Growth, _moves, find_drift, tilt
from dipsmith.privacy.budget import PureDP
from dipsmith.privacy.curator import Curator
from dipsmith.schema import Codes, Schema
from dipsmith.schema.growth import level_scores
from dipsmith.schema.steps import before

PERIODS, LEVELS = 5, 12


def panel():
    return Schema.from_dict(
        {
            "name": "careers",
            "unit": {"column": "person", "max_rows": PERIODS, "order": "year"},
            "neighbours": "add-remove",
            "fields": [
                {"name": "year", "type": "integer", "minimum": 2001, "maximum": 2000 + PERIODS},
                {"name": "sex", "type": "string", "enum": ["F", "M"], "other": "M", "fixed": True},
                {"name": "pay", "type": "integer", "minimum": 0, "maximum": 10 * LEVELS - 1, "bins": {"width": 10}},
            ],
        }
    )


def careers(people=4_000, seed=0):
    """Pay that climbs by about 4 a year; everybody is there in all years."""
    random = np.random.default_rng(seed)
    start, person = random.uniform(0, 60, people), np.repeat(np.arange(people), PERIODS)
    year = np.tile(np.arange(PERIODS), people)
    pay = start[person] + 4.0 * year + random.normal(0, 5, len(person))
    columns = {"year": year, "sex": np.repeat(random.integers(0, 2, people), PERIODS)}
    columns["pay"] = np.clip(pay // 10, 0, LEVELS - 1).astype(np.int64)
    return replace(Codes.of(panel(), columns), units=person)


@pytest.fixture(scope="module")
def model():
    """A model of few careers with much noise."""
    return AIM(rounds=4).fit(Curator.rehearse(careers(1_500), PureDP("0.5"), seed=2))


@pytest.mark.slow
@pytest.mark.parametrize("slope", [2.0, 4.0, 6.0])
def test_careers_grow_as_measured(model, slope):
    grown = replace(model, drift={}).with_growth([Growth("pay", slope, 0.0)])
    made = grown.sample(40_000, seed=5)
    # 8,000 people: a slope of them has a standard error of about .05
    assert _moves(made, panel(), "pay")[0] == pytest.approx(slope, abs=0.4)


@pytest.mark.slow
def test_what_noise_may_explain_is_left_alone(model):
    plain = replace(model, drift={})
    own = _moves(plain.sample(40_000, seed=5), panel(), "pay")[0]
    assert plain.with_growth([Growth("pay", own + 1.0, 4.0)]).drift == {"pay": 0.0}
    assert plain.with_growth([]).drift == {}


def test_a_tilt_changes_odds_and_nothing_else(model):
    tilted, scores = tilt(model.steps, {"pay": 0.05}), level_scores(panel()["pay"])
    assert tilt(model.steps, {"pay": 0.0}) is model.steps
    names = ("pay", before("pay"))
    was, now = model.steps.marginal(names), tilted.marginal(names)
    odds = np.log(now[:, :LEVELS] / was[:, :LEVELS])
    # every level by exp(drift · number), whatever it was before
    assert np.allclose(np.diff(odds, axis=0), 0.05 * np.diff(scores)[:, None], atol=1e-9)
    assert now.sum() == pytest.approx(1)


def test_the_growth_of_a_number_is_measured_with_little_noise():
    codes, budget = careers(), PureDP(1)
    curator = Curator.rehearse(codes, budget, seed=1)
    costs = split_career(panel(), budget)[3]
    (found,) = measure_growth(curator.with_panel_steps(budget), panel(), costs)
    exact = _moves(codes, panel(), "pay")[0]
    # noise of .06 ε on 4,000 people of whom each adds at most 2 · 2¹⁶ steps: 15 standard deviations of a Laplace law, 1e-9
    assert abs(found.slope - exact) < 15 * found.variance**0.5
    assert 0 < found.variance**0.5 < 0.3


def test_without_numbers_nothing_is_asked():
    assert find_drift([], panel(), lambda _: careers(10)) == {}
    words = Schema.from_dict({**panel().to_dict(), "fields": panel().to_dict()["fields"][:2]})
    assert split_career(words, PureDP(1))[3] == []


@pytest.mark.slow
@pytest.mark.parametrize("slope", [-0.5, 0.5])
def test_where_nobody_moves_careers_stay(slope):
    """Noise alone says that a number grows which never changes: no tilt leads there, and none may make rows impossible."""
    codes = careers(300)
    still = replace(codes, columns={**codes.columns, "pay": np.full(len(codes), LEVELS // 2)})
    plain = replace(AIM(rounds=2).fit(Curator.rehearse(still, PureDP(200), seed=3)), drift={})
    grown = plain.with_growth([Growth("pay", slope, 0.0)])
    scores = level_scores(panel()["pay"])
    assert abs(grown.drift["pay"]) * np.ptp(scores) <= STEEPEST
    made = grown.sample(1_500, seed=5)
    assert np.mean(made["pay"] == LEVELS // 2) > 0.95
