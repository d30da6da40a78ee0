"""What a budget means where it is chosen: as odds, with what was spent before, and beside what others published.

The odds are those of the page for officials. Practice is what the publishers say themselves; most of it is an ε for one
day or one answer, which adds up, and no recommendation.
"""

from __future__ import annotations

from typing import Any

from dipsmith.errors import BudgetError
from dipsmith.privacy.accountant import convert
from dipsmith.privacy.budget import Budget, PureDP, rho_to_approx
from dipsmith.privacy.statement import USUAL_DELTA, Statement
from dipsmith.synthesis.passport.officials import chance

BETS = {
    "add-remove": "that a person is in the table",
    "replace": "on which of two rows is a person’s",
    "label": "on which of two values a person has in the private columns",
}
RELATIONS = {
    "add-remove": (
        "whether it is in the table",
        "whether a person is in the table at all, and all that it says of them",
    ),
    "replace": ("all that the table says of it", "all that the table says of a person; the number of rows is public"),
    "label": (
        "its private columns",
        "the private columns of a person; public columns and the number of rows are released as they are",
    ),
}
"""What is hidden of a person, in a few words and in more."""
_PRACTICE = (
    ("0.1", "one answer of a service: LinkedIn’s audience counts, 0.15 each (35 in a month)"),
    ("1", "one day of statistics: Google’s search trends of symptoms, 1.68"),
    ("3", "one day of statistics: Google’s mobility reports, 2.64"),
    ("10", "a whole table, once: births in Israel in 2014, as synthetic rows, 9.98; the US census of 2020, 19.61"),
)


def practice() -> list[tuple[str, str, str]]:
    """An ε, its odds, and who published with about as much.

    >>> [(epsilon, odds) for epsilon, odds, _ in practice()]
    [('0.1', '52:48'), ('1', '73:27'), ('3', '95:5'), ('10', '> 99:1')]
    """
    return [(epsilon, _odds(float(epsilon)), words) for epsilon, words in _PRACTICE]


def meaning(statement: Statement, budget: Budget) -> dict[str, Any]:
    """The ε of a run, and of it with everything that was spent before; None where nothing was, or no price is known."""
    together = None
    if statement.currency is not None and statement.spent_units:
        try:
            units = convert(budget, statement.currency)
            together = statement.epsilon_of(statement.spent_units + units)
        except BudgetError:
            pass
    return {"epsilon": _epsilon(budget), "together": together}


def _epsilon(budget: Budget) -> float:
    return budget.epsilon if isinstance(budget, PureDP) else rho_to_approx(budget, USUAL_DELTA)


def _odds(epsilon: float) -> str:
    won = chance(epsilon)
    return f"{won}:{100 - won}" if won < 100 else "> 99:1"
