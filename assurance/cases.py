"""What is audited: every method under every relation it supports, and the settings that ask other questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from dipsmith.audit.trial import make_method, supported_relations
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
from dipsmith.tuning.private_selection import Selected
from dipsmith.tuning.scores import LogLoss, MarginalFit

SECOND: Final = "d"
"""The second label, for methods that make one label after another."""


@dataclass(frozen=True)
class Case:
    """A method with its settings under one relation.

    Attributes
    ----------
    price
        Where only the best of several runs is released: what a run's ε is multiplied by.
    plain
        Whether it is refused where there are rules, or units with several rows.
    """

    name: str
    relation: str
    method: Any
    price: float | None = None
    plain: bool = False

    @property
    def key(self) -> str:
        """The name by which results are kept."""
        return f"{self.name} · {self.relation}"


def registered_cases(targets: Sequence[str]) -> list[Case]:
    """Every method of the catalogue under every relation it supports, with its default settings."""
    return [
        Case(name, relation, make_method(name, relation, targets))
        for name in sorted(METHODS)
        for relation in supported_relations(name)
    ]


def attack_cases(targets: Sequence[str], second: str) -> list[Case]:
    """What is attacked: the catalogue, and forests that label one target after another, asking the one before."""
    both = (*targets, second)
    return [
        *registered_cases(targets),
        Case("forest, sequential", "label", Forest(targets=both, leaves="sequential")),
    ]


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
        ("aim, triples", both, AIM(degree=3, rounds=4)),
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
