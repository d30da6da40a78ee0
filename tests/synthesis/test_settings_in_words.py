"""Settings on cards, reports and pages: no name that only a programmer would use."""

from dataclasses import fields

import pytest

from dipsmith.methods.catalogue import METHODS
from dipsmith.synthesis.settings_in_words import WORDS, chosen_settings, settings_in_words


@pytest.mark.parametrize("method", METHODS)
def test_every_setting_of_a_method_has_words(method):
    names = [f.name for f in fields(METHODS[method])]
    said = chosen_settings(dict.fromkeys(names, 1_048_576))
    assert len(said) == len(names), "no two settings are said alike"
    assert not [word for word in said if "_" in word]
    assert {n for n in names if "_" in n} <= set(WORDS), "a new setting needs words of its own"
    assert set(said.values()) == {"1,048,576"}


def test_what_is_left_open_is_left_out():
    assert (
        settings_in_words({"n_b": None, "one_way": 0.35, "shrink": False}) == "share for single columns 0.35, shrink no"
    )
