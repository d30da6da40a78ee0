"""What a person in every period pays, against the laws of the noise themselves."""

import numpy as np
import pytest

from dipsmith.privacy.budget import ZCDP, PureDP
from dipsmith.privacy.events import Partitioned
from dipsmith.privacy.person_total import PersonTotal
from dipsmith.schema import Schema

YEARS = {"name": "year", "type": "integer", "minimum": 2001, "maximum": 2003, "role": "public"}
SEX = {"name": "sex", "type": "string", "enum": ["F", "M"], "other": "M", "role": "private"}


def schema(unit):
    return Schema.from_dict({"name": "t", "unit": unit, "neighbours": "label", "fields": [YEARS, SEX]})


PER_YEAR = {"column": "who", "max_rows": 1, "per": "year"}


def test_a_trait_in_three_rows_of_one_table_costs_three_epsilon_and_nine_rho():
    """One count of all years: changing three rows moves it by 3, which is 3·ε of Laplace noise and 9·ρ of Gaussian."""
    epsilon = 0.5
    at = np.arange(-60, 61)
    law = np.exp(-epsilon * np.abs(at))
    moved = np.exp(-epsilon * np.abs(at - 3))
    loss = float(np.log(law / moved).max())
    told = PersonTotal.of(schema(PER_YEAR), PureDP("0.5"), 0)
    assert float(told.total.exact) == pytest.approx(loss)
    rho = 0.2
    variance = 1 / (2 * rho)
    assert float(PersonTotal.of(schema(PER_YEAR), ZCDP("0.2"), 0).total.exact) == pytest.approx(3**2 / (2 * variance))


def test_blocks_of_one_year_each_see_one_row():
    """Three counts, one a year, each moved by 1: ρ adds up."""
    apart = Partitioned(attribute="year", rule="maximum", budget=ZCDP("0.2"))
    assert PersonTotal.of_events(schema(PER_YEAR), ZCDP("0.2"), [apart]).total == ZCDP("0.6")
    half = Partitioned(attribute="year", rule="maximum", budget=ZCDP("0.1"))
    assert PersonTotal.of_events(schema(PER_YEAR), ZCDP("0.2"), [half]).total == ZCDP("1.2")  # 3 × .1 + 9 × .1
    elsewhere = Partitioned(attribute="sex", rule="maximum", budget=ZCDP("0.2"))
    assert PersonTotal.of_events(schema(PER_YEAR), ZCDP("0.2"), [elsewhere]).total == ZCDP("1.8")


def test_without_periods_there_is_nothing_to_add():
    assert PersonTotal.of(schema("row"), PureDP(1), 0) is None
    assert PersonTotal.of(schema({"column": "who", "max_rows": 3}), PureDP(1), 0) is None


def test_the_sentence_names_unit_period_and_sum():
    said = PersonTotal.of(schema(PER_YEAR), PureDP("0.5"), 0).sentence
    assert said == (
        "ε = 0.5 is for one who in one year: of what does not change, one with rows in all 3 (year) pays ε = 1.5 in all."
    )
