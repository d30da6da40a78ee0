"""Private selection: trying many settings on the private rows for the price of two or three runs.

Each run draws one of the settings, fits it and scores it, all within ε₀. A secret random number of runs
is made and only the best is released, at (2 + η)·ε₀ in pure ε (`dipsmith.privacy.repetition`). Everything
else that is ever seen of the other runs would have to be paid for, so nothing is: one event in the ledger,
no progress, no time. Tuning on a public stand-in (`public_tuning`) is free; try that first.

Which setting won is part of what is released, and paid for. Proof: ``docs/proofs/private-selection.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

from dipsmith.errors import UnsupportedError, UsageError
from dipsmith.methods.method import Method, Model, Planned, PublicFacts, require_relation
from dipsmith.privacy.budget import Budget, PureDP
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.ledger import Ledger
from dipsmith.privacy.repetition import Repetitions
from dipsmith.schema import Schema
from dipsmith.synthesis.fitted import FittedModel
from dipsmith.synthesis.order import Each
from dipsmith.synthesis.release import Release
from dipsmith.synthesis.synthesize import synthesize
from dipsmith.tuning.scores import LogLoss, ModelScore


@dataclass(frozen=True)
class Selected:
    """The best of several methods or settings, chosen on the private rows.

    Parameters
    ----------
    candidates
        Methods with their settings.
    score
        By what runs are compared: `LogLoss` for labellers, `MarginalFit` for tables, or another class whose
        score is differentially private within the curator it is given.
    eta
        The price is (2 + η)·ε₀. With 0 a run gets half of ε and one run alone is likely; with 1 it gets
        a third, and the number of runs is geometric.
    runs
        How many runs there are on average; default: twice as many as candidates.
    score_share
        The share of ε₀ that is spent on the score.
    conceal
        A release takes as long as this share of all numbers of runs would at most, so that how long it took does
        not tell how many there were.

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

    name: ClassVar[str] = "selected"
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
        object.__setattr__(
            self, "eta", Fraction(str(self.eta)) if isinstance(self.eta, float) else Fraction(self.eta)
        )
        self.law.mean  # noqa: B018 — refuses impossible laws when made, not when run

    @property
    def relations(self) -> tuple[str, ...]:
        """The neighbouring relations that all candidates support."""
        return tuple(
            r for r in self.candidates[0].relations if all(r in c.relations for c in self.candidates)
        )

    @property
    def models(self) -> tuple[type[Model], ...]:
        """The models of all candidates."""
        return tuple(dict.fromkeys(m for c in self.candidates for m in c.models))

    @property
    def law(self) -> Repetitions:
        """The law of the number of runs."""
        runs = 2.0 * len(self.candidates) if self.runs is None else self.runs
        return Repetitions.with_mean(runs, Fraction(self.eta))

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
        if not isinstance(curator.budget, PureDP):
            raise UnsupportedError(
                f"selected: a private selection has a price in pure ε only, got {curator.budget}; use PureDP, or tune on "
                "a public stand-in"
            )
        return curator.best_of(
            self._run,
            self.law,
            curator.budget,
            candidates=len(self.candidates),
            score=self.score.name,
            conceal=self.conceal,
        )

    def plan(self, schema: Schema, budget: Budget, public: PublicFacts) -> list[Planned]:
        """One line: everything that the runs ask is inside it; refuses what a run would refuse."""
        if not isinstance(budget, PureDP):
            raise UnsupportedError("selected: a private selection has a price in pure ε only; use PureDP")
        each = self.law.each(budget)
        for candidate in self.candidates:
            candidate.plan(schema, each.split([1 - self.score_share, self.score_share])[0], public)
            if isinstance(self.score, LogLoss) and not _labels(candidate, schema.neighbours):
                raise UnsupportedError(
                    f"selected: log loss is for models that label rows, and {candidate.name} makes whole ones here; name "
                    "its targets, or use MarginalFit"
                )
        what = (
            f"the best by {self.score.name} of a secret number of runs ({self.law.mean:.3g} on average) among "
            f"{len(self.candidates)} settings, {each} each"
        )
        note = (
            ""
            if len(self.candidates) > 1
            else "one candidate: nothing is chosen, and the price is paid all the same"
        )
        return [Planned("private selection", what, budget, note=note)]

    def _run(self, curator: Curator) -> tuple[tuple[int, Model], float]:
        """Draw a candidate, fit it, score it, within the curator's budget."""
        drawn = int(curator.coins("candidate").integers(len(self.candidates)))
        for_fit, for_score = curator.budget.split([1 - self.score_share, self.score_share])
        model = self.candidates[drawn].fit(curator.nested(for_fit, "fit"))
        return (drawn, model), self.score.of(model, curator.nested(for_score, "score"))


def _labels(candidate: Method, relation: str) -> bool:
    """Whether a candidate's models label rows."""
    able = all(hasattr(model, "label") for model in candidate.models)
    return able and (relation == "label" or bool(getattr(candidate, "targets", None)))


def select(
    data: Any,
    schema: Schema,
    selected: Selected,
    *,
    budget: PureDP,
    ledger: Ledger | str | Path | None = None,
    sets: int = 1,
    each: Each | None = None,
    rows: int | None = None,
    onto: Any = None,
    request: str | None = None,
    another_grant: bool = False,
    seed: int | None = None,
    testing: bool = False,
    noise_seed: int | None = None,
) -> Release:
    """Make a release by the best of several methods or settings, as `synthesize` does by one.

    The ledger shows one reservation of the whole price and one event; the card names the candidates and
    the winner. No progress is shown, because it would tell how many runs there are.

    Parameters
    ----------
    selected
        The candidates and how to choose.
    data, schema, budget, ledger, sets, each, rows, onto, request, another_grant, seed, testing, noise_seed
        As for `synthesize`; the budget is pure ε, the price of the whole selection.

    Privacy
    -------
    The release satisfies `budget` for the schema's unit and neighbours.
    """
    chosen: list[int] = []

    def fit(curator: Curator) -> Model:
        winner, model = selected.choose(curator)
        chosen.append(winner)
        running.chosen.append(repr(selected.candidates[winner]))
        return model

    running = _Selecting(
        candidates=[repr(c) for c in selected.candidates],
        score=repr(selected.score),
        eta=str(selected.eta),
        mean_runs=selected.law.mean,
        score_share=selected.score_share,
        run=fit,
        relations=selected.relations,
        offered=lambda: selected.models,
        planned=selected.plan,
    )
    release = synthesize(
        data,
        schema,
        running,
        budget=budget,
        ledger=ledger,
        sets=sets,
        each=each,
        rows=rows,
        onto=onto,
        request=request,
        another_grant=another_grant,
        seed=seed,
        testing=testing,
        noise_seed=noise_seed,
    )
    if not chosen:  # the request was released before
        return release
    models = tuple(
        FittedModel(selected.candidates[winner].name, model.inner)
        for winner, model in zip(chosen, release.models, strict=True)
    )
    # The events of single runs are secret; what the candidates were given is stated all the same.
    said = dict.fromkeys(
        [*release.card.steward_says, *(a for c in selected.candidates for a in getattr(c, "assumptions", ()))]
    )
    card = replace(release.card, steward_says=tuple(said))
    return replace(release, models=models, card=card)


@dataclass(eq=False)
class _Selecting:
    """A selection while it runs: what the card will say of it, the winners as they become known."""

    candidates: list[str]
    score: str
    eta: str
    mean_runs: float
    score_share: float
    run: Callable[[Curator], Model]
    relations: tuple[str, ...]
    offered: Callable[[], tuple[type[Model], ...]]
    planned: Callable[[Schema, Budget, PublicFacts], list[Planned]]
    chosen: list[str] = field(default_factory=list)

    name: ClassVar[str] = "private selection"
    summary: ClassVar[str] = Selected.summary

    @property
    def models(self) -> tuple[type[Model], ...]:
        """The models of all candidates."""
        return self.offered()

    def fit(self, curator: Curator) -> Model:
        """Choose."""
        return self.run(curator)

    def plan(self, schema: Schema, budget: Budget, public: PublicFacts) -> list[Planned]:
        """As the selection plans."""
        return self.planned(schema, budget, public)
