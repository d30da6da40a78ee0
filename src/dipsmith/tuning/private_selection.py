"""Private selection: trying many settings on the private rows for the price of two or three runs.

Each run draws one of the settings, fits it and scores it, all within ε₀. A secret random number of runs
is made and only the best is released, at (2 + η)·ε₀ in pure ε (`dipsmith.privacy.repetition`). Everything
else that is ever seen of the other runs would have to be paid for, so nothing is: one event in the ledger,
no progress, no time. Tuning on a public stand-in (`public_tuning`) is free; try that first.

A selection is a method like any other: ``synthesize(data, schema, Selected([...], LogLoss()), budget=PureDP(3))``.
Which setting won is part of what is released, and paid for: the card names the candidates and the winner, whose kind
of model is saved. Proof: ``docs/proofs/private-selection.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar
from warnings import warn

from dipsmith.errors import UnsupportedError, UsageError
from dipsmith.methods.method import Method, Model, Planned, PublicFacts, require_relation
from dipsmith.privacy.budget import Budget, PureDP
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.repetition import Repetitions
from dipsmith.schema import Schema
from dipsmith.tuning.scores import LogLoss, ModelScore

if TYPE_CHECKING:
    from dipsmith.synthesis.release import Release


@dataclass(frozen=True)
class Selected:
    """The best of several methods or settings, chosen on the private rows.

    Runs of the `candidates` (methods with their settings) are compared by a `score`: `LogLoss` for labellers,
    `MarginalFit` for tables, or another class whose score is differentially private within the curator it is given, for
    which a `score_share` of ε₀ is spent. The price is (2 + η)·ε₀: with η = 0 a run gets half of ε and one run alone is
    likely; with 1 it gets a third, and the number of runs is geometric. There are `runs` on average (default: twice as
    many as candidates). A release takes as long as the share `conceal` of all numbers of runs would at most, so that how
    long it took does not tell how many there were.

    Examples
    --------
    >>> from dipsmith.methods.forest.forest import Forest
    >>> from dipsmith.tuning.scores import LogLoss
    >>> chosen = Selected([Forest(targets=["sex"], n_b=n) for n in (50, 500)], LogLoss())
    >>> print(chosen.law.each(PureDP(3)))
    ε = 1
    """

    candidates: Sequence[Method]
    score: ModelScore
    eta: Fraction | float = 1
    runs: float | None = None
    score_share: float = 0.1
    conceal: float = 0.95

    name: ClassVar[str] = "private selection"
    summary: ClassVar[str] = "The best of several methods or settings, chosen on the private rows."

    def __post_init__(self) -> None:
        object.__setattr__(self, "candidates", tuple(self.candidates))
        if not self.candidates:
            raise UsageError("selected: no candidates; give at least one method")
        if not 0 < self.score_share < 1:
            raise UsageError(f"selected: score_share is {self.score_share}, expected a share between 0 and 1")
        if not 0 <= self.conceal < 1:
            raise UsageError(f"selected: conceal is {self.conceal}, expected a share from 0 to below 1")
        if not self.relations:
            raise UnsupportedError("selected: no neighbouring relation is supported by all candidates")
        object.__setattr__(self, "eta", Fraction(str(self.eta)) if isinstance(self.eta, float) else Fraction(self.eta))
        self.law.mean  # noqa: B018 — refuses impossible laws when made, not when run

    @property
    def relations(self) -> tuple[str, ...]:
        """The neighbouring relations that all candidates support."""
        return tuple(r for r in self.candidates[0].relations if all(r in c.relations for c in self.candidates))

    @property
    def models(self) -> tuple[type[Model], ...]:
        """The models of all candidates."""
        return tuple(dict.fromkeys(m for c in self.candidates for m in c.models))

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the guarantee takes on trust: all that the candidates were given."""
        return tuple(dict.fromkeys(a for c in self.candidates for a in getattr(c, "assumptions", ())))

    @property
    def law(self) -> Repetitions:
        """The law of the number of runs."""
        runs = 2.0 * len(self.candidates) if self.runs is None else self.runs
        return Repetitions.with_mean(runs, Fraction(self.eta))

    @property
    def parameters(self) -> dict[str, Any]:
        """What the card says of the selection, besides the winners."""
        return {
            "candidates": [repr(c) for c in self.candidates],
            "score": repr(self.score),
            "eta": str(self.eta),
            "mean_runs": self.law.mean,
            "score_share": self.score_share,
        }

    def fit(self, curator: Curator) -> Model:
        """Spend the curator's budget on the best of a secret number of runs."""
        return self.choose(curator)[1]

    def choose(self, curator: Curator) -> tuple[int, Model]:
        """Which candidate won, and its model.

        Privacy
        -------
        One `Curator.best_of` with the curator's whole budget, pure ε only.
        """
        require_relation(self, curator.relation)
        budget, tried = _require_pure(curator.budget), len(self.candidates)
        return curator.best_of(
            self._run, self.law, budget, candidates=tried, score=self.score.name, conceal=self.conceal
        )

    def plan(self, schema: Schema, budget: Budget, public: PublicFacts) -> list[Planned]:
        """One line: everything that the runs ask is inside it; refuses what a run would refuse."""
        each = self.law.each(_require_pure(budget))
        for candidate in self.candidates:
            candidate.plan(schema, each.split([1 - self.score_share, self.score_share])[0], public)
            able = all(hasattr(model, "label") for model in candidate.models)
            labels = able and (schema.neighbours == "label" or bool(getattr(candidate, "targets", None)))
            if isinstance(self.score, LogLoss) and not labels:
                raise UnsupportedError(
                    f"selected: log loss is for models that label rows, and {candidate.name} makes whole ones here; name "
                    "its targets, or use MarginalFit"
                )
        what = (
            f"the best by {self.score.name} of a secret number of runs ({self.law.mean:.3g} on average) among "
            f"{len(self.candidates)} settings, {each} each"
        )
        alone = "one candidate: nothing is chosen, and the price is paid all the same"
        return [Planned(self.name, what, budget, note="" if len(self.candidates) > 1 else alone)]

    def _run(self, curator: Curator) -> tuple[tuple[int, Model], float]:
        """Draw a candidate, fit it, score it, within the curator's budget."""
        drawn = int(curator.coins("candidate").integers(len(self.candidates)))
        for_fit, for_score = curator.budget.split([1 - self.score_share, self.score_share])
        model = self.candidates[drawn].fit(curator.nested(for_fit, "fit"))
        return (drawn, model), self.score.of(model, curator.nested(for_score, "score"))


def _require_pure(budget: Budget) -> PureDP:
    if isinstance(budget, PureDP):
        return budget
    raise UnsupportedError(
        f"selected: a private selection has a price in pure ε only, got {budget}; use PureDP, or tune on "
        "a public stand-in"
    )


def select(data: Any, schema: Schema, selected: Selected, **options: Any) -> Release:
    """Deprecated: `synthesize(data, schema, selected, …)` does the same."""
    from dipsmith.synthesis.synthesize import synthesize

    warn("select(data, schema, selected, …) is now synthesize(data, schema, selected, …)", DeprecationWarning, 2)
    return synthesize(data, schema, selected, **options)
