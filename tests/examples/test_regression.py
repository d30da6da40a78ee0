"""The simulated regressions: the truth can be found again."""

import numpy as np
import pyarrow.parquet
import pytest

from dipsmith.examples import regression
from dipsmith.schema import Schema


@pytest.mark.parametrize("model", [1, 2])
def test_least_squares_finds_the_truth(model):
    table, truth = regression.simulate(60_000, model, seed=3)
    codes = np.ravel_multi_index([table[n].to_numpy() - 1 for n in regression.LEVELS], (2, 3, 4, 5))
    y = table["y"].to_numpy()
    x = regression.design()[codes] if model == 1 else np.eye(120)[codes]
    gram = np.linalg.inv(x.T @ x)
    found = gram @ (x.T @ y)
    z = (found - truth.coefficients) / np.sqrt(np.diag(gram))
    # standard normal each: |z| > 6.5 for one of 120 has probability below 1e-8
    assert np.abs(z).max() < 6.5
    residual = y - x @ found
    assert residual.std() == pytest.approx(1, abs=0.02)  # sd 1/√120000 = 0.003, six are 0.018


def test_coefficients_are_those_of_the_paper():
    truth = regression.truth(1)
    assert len(truth.names) == len(truth.coefficients) == 11
    assert truth.coefficients.tolist() == [0, 0.5, 0.5, -0.8, 1, 0.5, 0.5, 0.5, 0.7, 0.8, 0.5]
    assert truth.means[0] == 0
    assert truth.means[-1] == pytest.approx(0.5 - 0.8 + 0.5 + 0.5)
    saturated = regression.truth(2)
    assert saturated.means.size == 120
    assert abs(saturated.means.mean()) < 0.55  # six sd of a mean of 120 standard normals
    assert np.array_equal(saturated.means, regression.truth(2).means)


def test_predictors_are_uniform_and_independent():
    table, _ = regression.simulate(120_000, seed=1)
    cells = np.ravel_multi_index([table[n].to_numpy() - 1 for n in regression.LEVELS], (2, 3, 4, 5))
    counts = np.bincount(cells, minlength=120)
    # χ² with 119 degrees of freedom, sd 15.4: above 230 has probability below 1e-8
    assert ((counts - 1000) ** 2 / 1000).sum() < 230


def test_schema_and_files(tmp_path):
    schema = regression.schema()
    assert schema.size() == 1800
    assert schema["y"].size == 15
    made_by = regression.write(tmp_path, 200, model=2)
    assert made_by.means.size == 120
    assert Schema.read(tmp_path / "regression.yaml") == schema
    assert pyarrow.parquet.read_table(tmp_path / "regression.parquet").num_rows == 200
