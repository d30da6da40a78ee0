"""A purse: what a curator may still spend."""

from __future__ import annotations

from dipsmith.errors import BudgetError
from dipsmith.privacy.budget import Budget


class Purse:
    """A budget that is taken from, in one currency, until nothing is left."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self._spent = 0

    @property
    def remaining(self) -> Budget | None:
        """What is left to spend, None when nothing is."""
        left = self.budget.units - self._spent
        return type(self.budget).of_units(left) if left > 0 else None

    def take(self, budget: Budget) -> None:
        """Take an amount out; refuses another currency, and more than is left."""
        if type(budget) is not type(self.budget):
            raise BudgetError(
                f"asked for {budget} from a curator that holds {self.budget}: one currency per run"
            )
        if self._spent + budget.units > self.budget.units:
            raise BudgetError(
                f"asked for {budget}, but only {self.remaining or 'nothing'} of {self.budget} is left"
            )
        self._spent += budget.units
