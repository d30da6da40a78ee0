"""The coverage study: its rules give the published values, its page is the one that its results make."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from studies.coverage import lines, rules  # noqa: E402
from studies.coverage.page import page  # noqa: E402
from studies.coverage.whole_path import whole_path  # noqa: E402

PAGE = ROOT / "docs" / "studies" / "coverage.md"


def test_the_rules_give_the_values_of_the_literature():
    # 20,000 repeats: five standard errors of a share near .95 are .0077, of one near .864 are .012 (6e-7)
    found = {line.kind: line for line in rules.rules(1000, 0.1, first=7)}
    assert found[rules.SPLIT].share == pytest.approx(0.953, abs=0.0077)
    assert found[rules.REFUSED].share == pytest.approx(0.864, abs=0.012)
    assert found[rules.AWARE].share == pytest.approx(0.945, abs=0.0082)
    assert found[rules.AWARE].width == pytest.approx(0.083, abs=0.001)
    assert found[rules.AWARE].width < 0.55 * found[rules.SPLIT].width


def test_pieces_add_up(tmp_path):
    (one, *_) = rules.rules(1000, 1.0, first=0, repeats=200)
    other = replace(one, repeats=600, share=0.5, width=0.2)
    (both,) = lines.merged([one, other])
    assert both.repeats == 800
    assert both.share == pytest.approx((200 * one.share + 600 * 0.5) / 800)
    lines.write([both], tmp_path / "r.csv")
    (again,) = lines.read(tmp_path / "r.csv")
    assert again.scenario == both.scenario
    assert again.share == pytest.approx(both.share, rel=1e-4)


def test_a_piece_of_the_whole_path():
    found = {line.kind: line for line in whole_path("replace", first=0, repeats=2)}
    assert len(found) == 5
    assert all(line.repeats == 2 and line.width > 0 for line in found.values())


def test_the_page_is_made_from_the_results():
    assert PAGE.read_text("utf-8") == page(lines.read()), "run: python -m studies.coverage rules"


def test_the_results_show_what_the_tutorial_says():
    """Noise-aware intervals of the whole path cover; the refused rule does not (standard errors as measured)."""
    found = [line for line in lines.read() if line.part == "whole path"]
    assert found
    for line in found:
        error = (0.95 * 0.05 / line.repeats) ** 0.5
        if "Var_noise" in line.kind:
            assert line.share > 0.95 - 5 * error
        if line.kind == rules.REFUSED:
            assert line.share < 0.95 - 3 * error
