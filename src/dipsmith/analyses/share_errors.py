"""Errors of shares: an answer of yes or no varies by p(1 − p), most where half of a group say yes and hardly where few do.

Least squares of such an answer (`I(sex == "F") ~ agency`) takes all errors to vary alike. So they never do: an interval of
a small group of which half say yes, beside large ones where hardly anybody does, then held .53 of the time. Here each row
varies by what its own fitted share says (Goldberger 1964), and the sampling variance is (X′X)⁻¹X′WX(X′X)⁻¹ with these W.

Privacy
-------
Reads estimates: post-processing.
"""

from __future__ import annotations

import numpy as np

from dipsmith.analyses.design import Float
from dipsmith.analyses.sums import Layout

LEAST = 0.25
"""No row is believed to vary by less than so much of what all together do: a fitted share of 0 is chance."""


def is_yes_or_no(answers: Float) -> bool:
    """Whether a response is 0 or 1.

    >>> is_yes_or_no(np.array([0.0, 1.0, 1.0])), is_yes_or_no(np.array([0.0, 2.0]))
    (True, False)
    """
    return bool((np.isclose(answers, 0.0) | np.isclose(answers, 1.0)).all())


def vary_by(shares: Float, whole: float) -> Float:
    """How much answers of yes or no vary, by their fitted shares and by the share of all rows.

    >>> vary_by(np.array([0.5, 0.1, -0.3]), 0.1)
    array([0.25  , 0.09  , 0.0225])
    """
    p, q = np.clip(shares, 0.0, 1.0), min(max(whole, 0.0), 1.0)
    return np.maximum(p * (1 - p), LEAST * q * (1 - q))


def sampling_of_shares(layout: Layout, cross: Float) -> Float:
    """The sampling covariance of the shares of a private label given public columns Z, from its Z′y."""
    columns, often = layout.run_columns, layout.run_often
    fitted = columns.times(layout.inverse.times(cross))
    spread = often * vary_by(fitted, float(often @ fitted) / max(layout.design.rows, 1.0))
    each = columns.times(layout.told_inverse)
    return np.asarray((each * spread) @ each.T)
