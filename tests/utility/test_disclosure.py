"""Attribute disclosure and correctly synthesised labels: what is seen when a release memorises, and when it does not."""

import numpy as np
import pyarrow as pa
import pytest

import dipsmith as ds
from dipsmith.errors import SourceError
from dipsmith.schema import Codes
from dipsmith.sources import source
from dipsmith.utility.disclosure import disclosure
from dipsmith.utility.matching import expected_correct, join_by_identifier
from dipsmith.utility.pair import Pair, authentic_codes


def tables(small, n=3000, seed=0, labels=2):
    """People whose label depends on a column only a little, and is otherwise their own."""
    schema = small.lists([200, 10, labels], neighbours="label", public=(0, 1))
    rng = np.random.default_rng(seed)
    public = {"x0": rng.permutation(np.arange(n) % 200), "x1": rng.integers(0, 10, n)}
    truth = (rng.random(n) < 0.3 + 0.04 * public["x1"]).astype(int)
    return schema, rng, public, truth


@pytest.mark.parametrize("learned", [True, False])
def test_a_release_that_memorises_is_above_the_ceiling(small, monkeypatch, learned):
    if not learned:
        monkeypatch.setattr("dipsmith.utility.disclosure.find_spec", lambda name: None)
    schema, _rng, public, truth = tables(small, n=1500)
    authentic = Codes.of(schema, {**public, "x2": truth}, len(truth))
    found = disclosure(Pair.of(authentic, authentic, schema.public), "x2")
    assert found.attack == ("boosting" if learned else "naive Bayes")
    assert found.linked == 1
    assert found.linked_right > 0.8  # most combinations of x0 and x1 occur once
    assert found.linked_right > found.ceiling + 0.1


def test_a_release_of_fresh_labels_stays_below_the_ceiling(small):
    schema, rng, public, truth = tables(small)
    fresh = (rng.random(3000) < 0.3 + 0.04 * public["x1"]).astype(int)
    pair = Pair.of(
        Codes.of(schema, {**public, "x2": truth}, 3000),
        Codes.of(schema, {**public, "x2": fresh}, 3000),
        schema.public,
    )
    found = disclosure(pair, "x2")
    assert found.linked_right < found.ceiling + 0.03
    assert abs(found.auc - found.ceiling_auc) < 0.05
    assert found.baseline == pytest.approx(max(truth.mean(), 1 - truth.mean()))


def test_labels_that_tell_nothing_give_the_baseline(small):
    schema, rng, public, truth = tables(small)
    noise = rng.integers(0, 2, 3000)
    pair = Pair.of(
        Codes.of(schema, {**public, "x2": truth}, 3000),
        Codes.of(schema, {**public, "x2": noise}, 3000),
        schema.public,
    )
    found = disclosure(pair, "x2")
    # AUC of a useless rule: ½ with s.e. about .0105 at 3,000 rows; six of them
    assert found.auc == pytest.approx(0.5, abs=0.065)
    assert found.ceiling_auc > 0.53


@pytest.mark.parametrize("constant", ["authentic", "synthetic"])
def test_a_label_that_never_differs_is_attacked_by_its_frequency(small, constant):
    schema, _rng, public, truth = tables(small, n=300)
    varied = Codes.of(schema, {**public, "x2": truth}, 300)
    same = Codes.of(schema, {**public, "x2": np.ones(300, dtype=int)}, 300)
    authentic, synthetic = (same, varied) if constant == "authentic" else (varied, same)
    found = disclosure(Pair.of(authentic, synthetic, schema.public), "x2")
    if constant == "authentic":
        assert found.baseline == found.ceiling == 1
    else:
        assert found.attacker == pytest.approx(truth.mean())
        assert found.auc == 0.5


def test_a_single_column_is_attacked_by_its_frequency(small):
    schema = small.lists([3])
    codes = Codes.of(schema, {"x0": np.array([0, 0, 1, 2, 0])}, 5)
    assert disclosure(Pair.of(codes, codes), "x0").attacker == 0.6


def test_auc_is_scikit_learns(small):
    from sklearn.metrics import roc_auc_score

    from dipsmith.utility.disclosure import _roc

    rng = np.random.default_rng(1)
    truth = rng.integers(0, 2, 500)
    p = np.round(rng.random(500) * 0.5 + truth * 0.3, 2)
    guess = np.column_stack([1 - p, p])
    curve, area = _roc(guess, truth, np.bincount(truth))
    assert area == pytest.approx(roc_auc_score(truth, p))
    assert (np.diff(curve) >= -1e-12).all()


def test_many_labels_are_attacked_by_naive_bayes(small):
    schema, rng, public, _ = tables(small, n=600, labels=15)
    labels = rng.integers(0, 15, 600)
    authentic = Codes.of(schema, {**public, "x2": labels}, 600)
    assert disclosure(Pair.of(authentic, authentic, schema.public), "x2").attack == "naive Bayes"


# Correct labels ----------------------------------------------------------------------------------------------------------

FIELDS = [
    {"name": "job", "type": "string", "enum": ["a", "b", "c"], "other": "a", "role": "public"},
    {"name": "sex", "type": "string", "enum": ["F", "M"], "other": "M"},
]


def staff(n=1200, seed=0):
    rng = np.random.default_rng(seed)
    job = np.array(["a", "b", "c"])[rng.integers(0, 3, n)]
    sex = np.where(rng.random(n) < np.where(job == "b", 0.9, 0.2), "F", "M")
    return pa.table({"id": np.arange(n), "job": job, "sex": sex})


@pytest.fixture(scope="module")
def release():
    schema = ds.Schema.from_dict({"name": "staff", "unit": "row", "neighbours": "label", "fields": FIELDS})
    return ds.synthesize(staff(), schema, ds.Forest(targets=["sex"]), budget=ds.PureDP(50), testing=True, noise_seed=1)


def test_expected_share_of_right_labels(release):
    schema = release.model.schema
    codes, left_out = authentic_codes(source(staff()), schema, schema.names)
    assert left_out == 0
    (found,) = expected_correct(release.model.inner, codes)
    # with hardly any noise P(right) = Σ p² over the labels given the job: .82 for b, .68 for a and c
    assert found.share == pytest.approx((0.82 + 2 * 0.68) / 3, abs=0.04)
    assert found.by_chance == pytest.approx(0.5, abs=0.05)
    assert found.share > found.by_chance + 0.1


def test_a_third_file_is_joined_by_its_identifier(release):
    table = staff()
    schema = release.model.schema
    codes, _ = authentic_codes(source(table), schema, schema.names)
    third = pa.table({"id": np.r_[np.arange(600), [5000, 5001, 5002, 7, 7]], "job": np.array(["a"] * 605)})
    labelled = third.append_column("sex", pa.array(["F"] * 605))
    found = join_by_identifier(source(table), codes, source(third), labelled, schema, ["id"], ["sex"])
    assert found.rows == 605
    assert found.matched == pytest.approx(599 / 605)  # number 7 occurs three times, three ids are unknown
    assert found.ambiguous == pytest.approx(3 / 605)
    truth = np.delete(np.array(table["sex"].to_pylist()[:600]), 7)
    assert found.correct[0].share == pytest.approx((truth == "F").mean())


def test_a_missing_identifier_never_matches(release):
    schema = release.model.schema
    table = pa.table({"id": pa.array([1, None, 3]), "job": ["a", "b", "c"], "sex": ["F", "F", "M"]})
    codes, _ = authentic_codes(source(table), schema, schema.names)
    third = pa.table({"id": pa.array([None, 3]), "job": ["a", "c"], "sex": ["F", "M"]})
    found = join_by_identifier(source(table), codes, source(third), third, schema, ["id"], ["sex"])
    assert found.matched == 0.5
    with pytest.raises(SourceError, match="no column 'badge' to match on"):
        join_by_identifier(source(table), codes, source(third), third, schema, ["badge"], ["sex"])
