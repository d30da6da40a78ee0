"""The examples in the docstrings of reports, comparisons and inference hold."""

import doctest
import importlib
import pkgutil

import pytest

import dipsmith.inference
import dipsmith.report
import dipsmith.utility

MODULES = [
    *(
        f"{room.__name__}.{module.name}"
        for room in (dipsmith.report, dipsmith.utility, dipsmith.inference)
        for module in pkgutil.iter_modules(room.__path__)
    ),
    "dipsmith.synthesis.report",
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_hold(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_there_are_examples():
    assert sum(doctest.testmod(importlib.import_module(name)).attempted for name in MODULES) > 30
