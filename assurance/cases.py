"""What is audited: every method under every relation it supports, and the settings that ask other questions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from assurance.pairs import Pair, pair_schema
from assurance.planned_labels import PlannedLabels
from assurance.unit_pairs import career_pair, household_pair, person_pair, weighted_pair
from dipsmith.audit.trial import default_method, supported_relations
from dipsmith.methods.catalogue import METHODS
from dipsmith.methods.forest.forest import Forest
from dipsmith.methods.graph.aim import AIM
from dipsmith.methods.graph.marginals import Marginals
from dipsmith.methods.graph.mst import MST
from dipsmith.methods.graph.privbayes import PrivBayes
from dipsmith.methods.hierarchy.flat import Flat
from dipsmith.methods.hierarchy.steps import Steps
from dipsmith.methods.hierarchy.universal import Universal
from dipsmith.methods.loglinear.loglinear import LogLinear
from dipsmith.methods.public_table import PublicTable
from dipsmith.schema import Codes
from dipsmith.schema.analysis import PlannedAnalysis
from dipsmith.tuning.private_selection import Selected
from dipsmith.tuning.scores import LogLoss, MarginalFit

SECOND: Final = "d"
"""The second label, for methods that make one label after another."""

SHARES: Final = PlannedAnalysis("I(race == 'A') ~ 0 + C(grade)", model="ols")
"""Shares of a label by group: told however large the noise is, so that labels are adjusted to them."""

PLANNED: Final[dict[str, tuple[PlannedAnalysis | str, ...]]] = {
    "planned": ("log(age) ~ sex*grade + race", "sex ~ grade"),
    "planned by group": ("age ~ sex | by grade; width 3", SHARES),
}
"""Formulas under `label`: products, fixed effects and groups; private labels on either side."""

ATTACKED: Final = ("I(a == '1') ~ c", "c ~ b")
"""The same over the columns of the worlds that are attacked."""


@dataclass(frozen=True)
class Case:
    """A method with its settings under one relation.

    Attributes
    ----------
    price
        Where only the best of several runs is released: what a run's ε is multiplied by.
    plain
        Whether it is refused where there are rules, or units with several rows.
    analyses
        Planned analyses, formulas over the columns of `assurance.pairs`.
    pairs
        The neighbouring tables, where they are not those of `assurance.pairs`.
    """

    name: str
    relation: str
    method: Any
    price: float | None = None
    plain: bool = False
    analyses: tuple[PlannedAnalysis | str, ...] = ()
    pairs: Callable[[str, int], Pair] | None = None

    @property
    def key(self) -> str:
        """The name by which results are kept."""
        return f"{self.name} · {self.relation}"


def registered_cases(targets: Sequence[str]) -> list[Case]:
    """Every method of the catalogue under every relation it supports, with its default settings."""
    return [
        Case(name, relation, default_method(name, relation, targets))
        for name in sorted(METHODS)
        for relation in supported_relations(name)
    ]


def attack_cases(targets: Sequence[str], second: str) -> list[Case]:
    """What is attacked: the catalogue, and forests that label one target after another, asking the one before."""
    both = (*targets, second)
    return [
        *registered_cases(targets),
        Case("forest, sequential", "label", Forest(targets=both, leaves="sequential")),
        *(
            Case(f"{made.name}, planned", "label", PlannedLabels(made(targets=tuple(targets)), ATTACKED))
            for made in (LogLinear, Forest)
        ),
    ]


def planned_cases(targets: Sequence[str]) -> list[Case]:
    """Planned analyses: weighted sums and labels that carry them; of whole rows tables that are measured first."""
    t = tuple(targets)
    labelling: list[Any] = [LogLinear(targets=t), Forest(targets=t, n_b=2)]
    whole: list[Any] = [Marginals(), MST(), AIM(rounds=2), PrivBayes(degree=1)]
    made = [
        Case(f"{method.name}, {kind}", "label", method, analyses=formulas)
        for method in labelling
        for kind, formulas in PLANNED.items()
    ]
    made += [
        Case(f"{method.name}, planned", relation, method, analyses=("I(grade == 'a') ~ sex + race",))
        for method in whole
        for relation in ("add-remove", "replace")
    ]
    return made


def linked_cases() -> list[Case]:
    """Rows that belong together: neighbours differ in a whole career, a whole household, a person in one, or with a weight."""
    made: list[tuple[str, Any, Callable[[str, int], Pair]]] = [
        ("aim, careers", AIM(rounds=2), career_pair),
        ("aim, households", AIM(rounds=2), household_pair),
        ("aim, persons in households", AIM(rounds=2), person_pair),
        ("aim, weights", AIM(rounds=2), weighted_pair),
    ]
    return [Case(name, r, method, pairs=pairs) for name, method, pairs in made for r in ("add-remove", "replace")]


def _public_rows() -> PublicTable:
    """A public table of the audited columns, in which age, grade and sex go together."""
    schema = pair_schema("add-remove", None, ruled=False)
    which = np.arange(600) % 12
    columns = {"age": which % 4, "grade": which % 3, "sex": (which % 4 + which % 3) % 2, "race": which // 4}
    return PublicTable(Codes.of(schema, columns), what="public rows")


def variants(targets: Sequence[str]) -> list[Case]:
    """Settings under which a method asks other questions than by default."""
    both, t = ("add-remove", "replace"), tuple(targets)
    table: list[tuple[str, Sequence[str], Any]] = [
        ("flat, clipped", both, Flat(post="clip")),
        ("marginals, pairs", both, Marginals(cliques=2)),
        ("universal, deep", both, Universal(depth=3)),
        ("steps, own orders", both, Steps(layers=2, same_order=False)),
        ("steps, AIC", both, Steps(layers=2, select="aic")),
        ("steps, two groups", both, Steps(groups=2)),
        ("steps, BIC", ("replace",), Steps(layers=2, select="bic")),
        ("privbayes, mutual information", ("replace",), PrivBayes(score="mutual-information")),
        ("privbayes, degree 1", both, PrivBayes(degree=1, theta=0)),
        ("mst, mostly choices", both, MST(choice=0.5)),
        ("mst, public table", both, MST(prior=_public_rows())),
        ("aim, triples", both, AIM(degree=3, rounds=4)),
        ("aim, public table", both, AIM(rounds=2, prior=_public_rows())),
        ("forest, sequential", ("label",), Forest(targets=t, leaves="sequential", n_b=2)),
        ("forest, noisy growth", both, Forest(growth="noisy", n_b=2)),
        ("forest, three trees", (*both, "label"), Forest(targets=t, trees=3, n_b=2)),
        ("forest, two labels", ("label",), Forest(targets=t[:1], n_b=2)),
        ("loglinear, two labels", ("label",), LogLinear(targets=t[:1])),
        ("forest, strata", ("label",), Forest(targets=t, strata="grade", n_b=2)),
        ("forest, strata", both, Forest(strata="grade", n_b=2)),
        ("loglinear, strata", ("label",), LogLinear(targets=t, strata="grade")),
        ("loglinear, interaction", ("label",), LogLinear(targets=t, interactions=[("age", "grade")])),
    ]
    plain = ("steps, BIC", "privbayes, mutual information")
    made = [
        Case(name, relation, method, plain=name in plain) for name, relations, method in table for relation in relations
    ]
    fitting = Selected((Flat(), Marginals()), MarginalFit(), eta=1)
    labelling = Selected((Forest(targets=t, n_b=2), Forest(targets=t, n_b=50)), LogLoss(), eta=0)
    made += [Case("selected", relation, fitting, price=3.0) for relation in both]
    made.append(Case("selected", "label", labelling, price=2.0))
    return made
