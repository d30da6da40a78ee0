"""What noise will hide of the columns that are learned, said before it is paid for: from the header and the budget alone."""

from __future__ import annotations

import numpy as np

from dipsmith.codec.forms import Forms
from dipsmith.privacy.budget import Budget
from dipsmith.privacy.discovery import Survey
from dipsmith.privacy.measurement import Measurement
from dipsmith.schema import Schema
from dipsmith.synthesis.learn import FORMS_SHARE
from dipsmith.synthesis.learned_fields import count_beyond_noise


def foresee_noise(blank: Schema, budget: Budget) -> str:
    """One sentence: how many rows noise hides in the first question, without which nothing is known of a column.

    >>> from dipsmith.privacy.budget import PureDP
    >>> from dipsmith.schema import Attribute, Categories, Unit
    >>> anything = Categories.of(["anything"], other="anything")
    >>> columns = tuple(Attribute(f"c{i}", "string", anything, "private") for i in range(15))
    >>> foresee_noise(Schema("people", columns, Unit(), "add-remove"), PureDP("0.1"))
    'Noise will hide about 16,800 rows in each column: of a table that has not many more, next to nothing is learned for it'
    """
    first, _ = budget.split([FORMS_SHARE, 1 - FORMS_SHARE])
    survey = Survey("forms", blank, tuple(map(Forms, blank.names)))
    law, _ = survey.price(str(blank.priced_as), blank.unit.max_rows, first, "")
    nothing_yet = Measurement(survey.cells, np.zeros(0, np.int64), law.variance, first, law.name)
    hidden = float(f"{count_beyond_noise(nothing_yet, survey.cells.size):.3g}")
    return (
        f"Noise will hide about {hidden:,.0f} rows in each column: of a table that has not many more, next to nothing is learned "
        "for it"
    )
