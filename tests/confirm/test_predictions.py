"""Claims about a model of the release: classes of rows, and what noisy counts of them tell."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from confirm_tables import schema_of, table_of

from dipsmith.confirm.confirm import prepare, rehearse
from dipsmith.confirm.design import VoteDesign
from dipsmith.confirm.predictions import Predictor, area_under, roc_curve, share_exceeds
from dipsmith.confirm.question import Inquiry
from dipsmith.counting.count import BatchRows
from dipsmith.errors import UnsupportedError, UsageError
from dipsmith.privacy.budget import ZCDP, PureDP
from dipsmith.privacy.noise import DiscreteLaplace
from dipsmith.privacy.value_question import Classification
from dipsmith.sources import source

MODEL = (("Intercept", 1.3), ("x", 0.5))
ACCURACY = Inquiry("people", "0" * 64, "y ~ x", "accuracy within 1 > 0.5", PureDP(5), measure="counts", model=MODEL)
RESIDUALS = replace(ACCURACY, claim="residuals", edges=(("fitted", (1.0, 1.5)), ("residual", (-1.0, 0.0, 1.0))))
ROC = replace(
    ACCURACY,
    formula="s ~ y",
    family="logistic",
    claim="roc > 0.6",
    model=(("y", -1.0),),
    edges=(("score", (0.05, 0.1, 0.2, 0.3, 0.5, 0.7)),),
)


def classes(question, table, relation="label"):
    schema = schema_of(relation)
    predictor = Predictor.of(question, VoteDesign.of(question.formula, schema, question.family, {}))
    return Classification(predictor).count(BatchRows(source(table), schema, b"k"), None), predictor


def test_equal_rows_have_equal_classes_wherever_they_stand():
    """An edge right at the fitted value of all rows: a value that is rounded by its place would move many at once."""
    names = ("Intercept", *(f"I(x + {k})" for k in range(1, 8)))
    model = tuple(zip(names, np.random.default_rng(0).normal(size=8).tolist(), strict=True))
    for seed in range(6):
        row = table_of(1, seed)
        x, fitted = row["x"][0].as_py(), model[0][1]
        for k in range(1, 8):
            fitted += (x + k) * model[k][1]
        asked = replace(
            RESIDUALS,
            formula=f"y ~ {' + '.join(names[1:])}",
            model=model,
            edges=(("fitted", (float(np.nextafter(fitted, -99)), fitted)), ("residual", (0.0,))),
        )
        for n in (1, 5, 9):
            counts, _ = classes(asked, pa.concat_tables([row] * n).combine_chunks())
            assert counts.reshape(3, 2)[1].sum() == n


@pytest.mark.parametrize("question", [ACCURACY, RESIDUALS, ROC], ids=["accuracy", "residuals", "roc"])
@pytest.mark.parametrize("relation", ["add-remove", "replace", "label"])
def test_no_neighbour_moves_the_counts_farther_than_a_histogram(question, relation):
    """Every row removed, or its label and, under replace, everything else changed."""
    table, schema = table_of(12), schema_of(relation)
    counts, predictor = classes(question, table, relation)
    moved = []
    for row in range(12):
        columns = {n: table[n].to_pylist() for n in table.column_names}
        if relation == "add-remove":
            for values in columns.values():
                del values[row]
        else:
            columns["s"][row] = "F" if columns["s"][row] == "M" else "M"
            if relation == "replace":
                columns |= {"y": [-columns["y"][i] + 3 if i == row else v for i, v in enumerate(columns["y"])]}
        other, _ = classes(question, type(table).from_pydict(columns), relation)
        moved.append(np.abs(counts - other).sum())
    for budget in (PureDP(1), ZCDP(1)):
        _, event = Classification(predictor).price(relation, schema.unit.max_rows, budget, "")
        assert max(moved) <= event.sensitivity
    assert max(moved) == (1 if relation == "add-remove" else 0 if question is not ROC and relation == "label" else 2)


def test_classes_are_those_of_arithmetic():
    table = table_of(300)
    x, y = (table[n].to_numpy() for n in "xy")
    residual = y - (1.3 + 0.5 * x)
    assert classes(ACCURACY, table)[0].tolist() == [(np.abs(residual) > 1).sum(), (np.abs(residual) <= 1).sum()]
    grid = classes(RESIDUALS, table)[0].reshape(3, 4)
    assert grid.sum() == 300
    assert grid[:, 3].sum() == (residual > 1).sum()


@pytest.mark.parametrize("claim", ["accuracy within 1 > 0.5", "accuracy within 1 > 0.8"])
def test_accuracy_is_judged(claim):
    found = rehearse(replace(ACCURACY, claim=claim), table_of(3000), schema_of("label"), seed=1)
    assert found.verdict == ("confirmed" if "0.5" in claim else "contradicted")
    low, high = found.interval
    assert low < found.estimate < high
    assert high - low < 0.01


def test_a_share_on_the_threshold_is_confirmed_in_one_of_twenty_at_most():
    """By exact sums over the difference of two noises, which is all that decides at a share of one half."""
    law = DiscreteLaplace(Fraction(3))
    z = np.arange(-150, 151)
    difference = np.convolve(law.pmf(z), law.pmf(z))
    at = np.arange(-300, 301)
    sure = np.array([share_exceeds(0.5, 500 + int(d), 500, law) if abs(d) < 60 else float(d > 0) for d in at])
    assert difference[sure > 0.95].sum() <= 0.05
    assert difference[sure > 0.95].sum() > 0.03
    assert (np.diff(sure) >= -1e-12).all()


def test_the_area_is_the_chance_that_scores_are_in_order():
    rng = np.random.default_rng(0)
    score, outcome = rng.integers(0, 7, 500), rng.integers(0, 2, 500)
    score = score + outcome
    counts = np.zeros((8, 2), np.int64)
    np.add.at(counts, (score, outcome), 1)
    yes, no = score[outcome == 1][:, None], score[outcome == 0][None, :]
    expected = float(((yes > no) + 0.5 * (yes == no)).mean())
    law = DiscreteLaplace(Fraction(2))
    area, error = area_under(counts, law)
    assert area == pytest.approx(expected)
    drawn = [area_under(counts + rng.choice([-1, 1], (8, 2)) * rng.geometric(0.3, (8, 2)), law)[0] for _ in range(300)]
    assert 0.5 * error < np.std(drawn) < 3 * error
    x, y = roc_curve(*counts.T.astype(float))
    slopes = np.diff(y) / np.maximum(np.diff(x), 1e-9)
    assert (np.diff(slopes) <= 1e-9).all()
    assert (x[0], y[0], x[-1], y[-1]) == (0, 0, 1, 1)


def test_noise_that_hides_an_outcome_is_said():
    assert np.isnan(area_under(np.array([[5, 0], [4, 1]]), DiscreteLaplace(Fraction(9)))[0])
    few = rehearse(replace(ROC, budget=PureDP("0.01")), table_of(30), schema_of("label"), seed=1)
    assert few.verdict == "cannot tell"
    assert few.estimate is None


def test_an_area_and_a_grid_are_told():
    table = table_of(3000, effect=1.5)
    assert rehearse(ROC, table, schema_of("label"), seed=1).verdict == "confirmed"
    shown = rehearse(replace(ROC, claim="roc"), table, schema_of("label"), seed=1)
    assert shown.verdict == "shown"
    grid = rehearse(RESIDUALS, table, schema_of("label"), seed=1)
    assert grid.sentence.startswith("Shown: how the rows scatter")
    assert len(grid.numbers["rows in each class"]) == 12


@pytest.mark.parametrize(
    ("question", "error", "told"),
    [
        (replace(ACCURACY, formula="y ~ x | g", model=(("x", 1.0),)), UnsupportedError, "no fixed effects"),
        (replace(ACCURACY, model=(("z", 1.0),)), UsageError, "no coefficient"),
        (replace(RESIDUALS, edges=()), UsageError, "edges: expected fitted and residual"),
        (replace(RESIDUALS, edges=(("fitted", (1.0, 0.0)), ("residual", (0.0,)))), UsageError, "must increase"),
        (replace(ROC, family="ols", formula="y ~ x", model=MODEL), UsageError, "two levels"),
        (
            replace(RESIDUALS, edges=tuple((n, tuple(map(float, range(60)))) for n in ("fitted", "residual"))),
            UsageError,
            "at most 2,000",
        ),
    ],
)
def test_what_cannot_be_predicted_is_refused(question, error, told):
    with pytest.raises(error, match=told):
        prepare(question, schema_of("label"))
