"""The classifiers that try to tell synthetic rows from authentic ones, by name.

Which classifier is used decides what is seen (Bowen and Snoke, Journal of Privacy and Confidentiality 11,
2021): main effects see one-way marginals, first-order interactions two-way ones, trees and boosting higher
ones. Any scikit-learn classifier can be given instead of a name.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dipsmith.errors import MissingExtraError, UsageError
from dipsmith.schema import Codes

LOGISTIC = ("logistic", "interactions")
"""Computed by this package: main effects, and main effects with products of two columns."""
LEARNED = ("cart", "forest", "svm", "boosting")
"""Computed by scikit-learn."""
CLASSIFIERS = (*LOGISTIC, *LEARNED)

Features = Literal["codes", "one-hot"]


def available() -> tuple[str, ...]:
    """The classifiers that can be used here: without scikit-learn only the logistic ones."""
    return CLASSIFIERS if find_spec("sklearn") is not None else LOGISTIC


def classifier_of(given: Any, codes: Codes, seed: int) -> tuple[str, Any, Features]:
    """A scikit-learn classifier, its name, and whether it reads codes or one-hot columns."""
    if not isinstance(given, str):
        scores = hasattr(given, "predict_proba") or hasattr(given, "decision_function")
        if not (hasattr(given, "fit") and scores):
            raise UsageError(
                f"a classifier needs fit and predict_proba (or decision_function), as scikit-learn's have; got {type(given).__name__}"
            )
        return type(given).__name__, given, "one-hot"
    require_known([given])
    if find_spec("sklearn") is None:
        raise MissingExtraError.of(f"The classifier '{given}'", "analysis")
    from sklearn import ensemble, kernel_approximation, pipeline, svm, tree

    nominal = [not codes.schema[n].domain.ordered and codes.schema[n].size <= 255 for n in codes.names]
    boosting = {"max_iter": 100, "categorical_features": nominal, "early_stopping": False}
    kernel = {"gamma": 1 / max(1, len(codes.names)), "n_components": 200, "random_state": seed}
    made = {
        "cart": tree.DecisionTreeClassifier(min_samples_leaf=20, max_leaf_nodes=1000, random_state=seed),
        "forest": ensemble.RandomForestClassifier(100, min_samples_leaf=10, n_jobs=2, random_state=seed),
        "boosting": ensemble.HistGradientBoostingClassifier(**boosting, random_state=seed),
        "svm": pipeline.make_pipeline(kernel_approximation.Nystroem(**kernel), svm.LinearSVC(C=1.0, random_state=seed)),
    }
    return given, made[given], "one-hot" if given == "svm" else "codes"


def matrix(codes: Codes, features: Features) -> Any:
    """Rows as a classifier reads them: a dense matrix of codes, or a sparse one of level indicators."""
    if features == "codes":
        wide = any(codes.schema[n].size > 1 << 15 for n in codes.names)
        return np.column_stack([codes[n].astype(np.float64 if wide else np.float32) for n in codes.names])
    import scipy.sparse

    sizes = [codes.schema[n].size for n in codes.names]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    columns = np.column_stack([codes[n].astype(np.int64) + at for n, at in zip(codes.names, starts, strict=False)])
    pointers = np.arange(0, columns.size + 1, len(sizes))
    return scipy.sparse.csr_matrix((np.ones(columns.size), columns.ravel(), pointers), (len(codes), int(starts[-1])))


def fit_copy(classifier: Any, features: Any, outcome: NDArray[np.integer]) -> Any:
    """A fitted copy.

    One thread: scikit-learn's boosting waits for all of its threads after every split, and on a machine with
    other work that takes thirty times as long as doing without.
    """
    from sklearn.base import clone
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    with threadpool_limits(1):
        return clone(classifier).fit(features, outcome)


def scores_of(classifier: Any, features: Any) -> NDArray[np.float64]:
    """P(outcome 1) where the classifier gives one, else its margin."""
    if hasattr(classifier, "predict_proba"):
        return np.asarray(classifier.predict_proba(features), dtype=np.float64)[:, 1]
    return np.asarray(classifier.decision_function(features), dtype=np.float64)


def require_known(classifiers: Sequence[Any]) -> None:
    """Refuse unknown names before anything is read."""
    for given in classifiers:
        if isinstance(given, str) and given not in CLASSIFIERS:
            raise UsageError(
                f"classifier '{given}' is unknown; choose one of {', '.join(CLASSIFIERS)}, or give a scikit-learn classifier"
            )
