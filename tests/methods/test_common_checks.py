"""The published checks on every method that is installed, and that they can fail.

A new method that is registered is checked without another line here.
"""

from dataclasses import MISSING, dataclass, fields, replace

import numpy as np
import pytest

from dipsmith.errors import UsageError
from dipsmith.methods.catalogue import METHODS
from dipsmith.methods.graph.aim import AIM
from dipsmith.methods.graph.marginals import Marginals, MarginalsModel
from dipsmith.methods.graph.model import fit_tables
from dipsmith.methods.graph.mst import MST
from dipsmith.methods.method import PublicFacts
from dipsmith.privacy.budget import PureDP
from dipsmith.testing import IMPOSSIBLE, check_method, checks, example_schema


def method_for(name):
    """A method with default settings; targets where it has no default for them."""
    needed = any(f.name == "targets" and f.default is MISSING for f in fields(METHODS[name]))
    return METHODS[name](targets=("sex", "race")) if needed else METHODS[name]()


CASES = dict(case for name in METHODS for case in checks(method_for(name)))


@pytest.mark.parametrize("case", CASES)
def test_every_method_passes(case):
    CASES[case]()


LINKED = dict([*checks(AIM(rounds=1), "panel"), *checks(AIM(rounds=1), "weights"), *checks(MST(), "weights")])


@pytest.mark.slow
@pytest.mark.parametrize("case", LINKED)
def test_panels_and_weights_pass_too(case):
    LINKED[case]()


def test_panels_and_weights_are_checked_under_both_relations_of_whole_rows():
    assert len(LINKED) == 14 * 3 * 2


def test_all_nine_methods_are_checked_under_every_relation():
    assert len(METHODS) == 9
    assert len(CASES) == 14 * sum(len(METHODS[name].relations) for name in METHODS)


@pytest.mark.parametrize("name", METHODS)
def test_rules_that_leave_nothing_are_named(name):
    schema = example_schema(METHODS[name].relations[-1])
    schema = replace(schema, rules=(*schema.rules, IMPOSSIBLE))
    with pytest.raises(UsageError, match="no combination of values possible"):
        method_for(name).plan(schema, PureDP(1), PublicFacts(600))


# --- methods with one thing wrong -------------------------------------------------------------------------


class Loose(Marginals):
    """No dataclass by itself, so that it can be changed after it was made."""


def with_values(model, values):
    """The model with other numbers in its first table."""
    tables = (replace(model.tables[0], values=values), *model.tables[1:])
    return MarginalsModel(tables, fit_tables(tables, model.post), model.post)


@dataclass(frozen=True)
class Leaky(Marginals):
    """Reads an exact count."""

    def fit(self, curator):
        model = Marginals.fit(self, curator)
        (count,) = curator._rows.count([model.tables[0].marginal])
        return with_values(model, count.ravel())


@dataclass(frozen=True)
class Thrifty(Marginals):
    """Leaves half of the budget."""

    def fit(self, curator):
        return Marginals.fit(self, curator.nested(curator.budget.split(2)[0], "half"))


@dataclass(frozen=True)
class Unruly(Marginals):
    """Looks at its own coins instead of the curator's."""

    def fit(self, curator):
        model = Marginals.fit(self, curator)
        table = model.tables[0]
        noise = np.random.default_rng().normal(size=table.values.shape)
        return with_values(model, table.values + noise)


@dataclass(frozen=True)
class Careless(Marginals):
    """Takes rows for one per unit, whatever the unit is."""

    def fit(self, curator):
        curator.max_rows = 1
        return Marginals.fit(self, curator)


class OtherModel(MarginalsModel):
    """A class that the method does not name."""


@dataclass(frozen=True)
class Misnamed(Marginals):
    """Returns a model of another class than it says."""

    def fit(self, curator):
        model = Marginals.fit(self, curator)
        return OtherModel(model.tables, model.joint, model.post)


@dataclass(frozen=True)
class Blind(Marginals):
    """Plans half of what it spends."""

    def plan(self, schema, budget, public):
        return Marginals.plan(self, schema, budget.split(2)[0], public)


@dataclass(frozen=True)
class Peeping(AIM):
    """Takes who is away, exactly, for what noise says of it."""

    def fit(self, curator):
        model = AIM.fit(self, curator)
        table = model.presence.marginal
        (count,) = curator._rows.steps().with_fewer_steps(table.schema.unit.max_rows, away=True).count([table])
        return replace(model, presence=replace(model.presence, values=count.ravel()))


@pytest.mark.slow
def test_a_panel_with_one_thing_wrong_fails():
    with pytest.raises(AssertionError, match="depend on private rows"):
        check_method(Peeping(rounds=1), "panel")


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (Loose, "must be frozen"),
        (Leaky, "depend on private rows"),
        (Thrifty, "50% of ε = 1 was spent"),
        (Unruly, "the same noise gave another model"),
        (Careless, "ignores max_rows"),
        (Misnamed, "OtherModel, which models does not name"),
        (Blind, "the plan adds up to 50%"),
    ],
)
def test_a_method_with_one_thing_wrong_fails(wrong, told):
    with pytest.raises(AssertionError, match=told):
        check_method(wrong())
