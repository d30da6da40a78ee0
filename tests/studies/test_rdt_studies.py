"""The two reports on random decision trees: their figures, and what training on synthetic labels loses."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from studies.rdt_association import page as association_page  # noqa: E402
from studies.rdt_association import runs as association  # noqa: E402
from studies.rdt_panels import page as panels_page  # noqa: E402
from studies.rdt_panels.drawing import draw, points_of  # noqa: E402
from studies.rdt_panels.settings import FIGURES, release  # noqa: E402


def test_training_on_synthetic_labels_loses_the_association_and_the_package_does_not():
    """20,000 people at ε = 8: the standard error of a log-odds ratio is about .04 in each of four tables; six are .24."""
    found = {r.variant: r.log_odds for r in association.run_all(20_000, 1, (8.0,))}
    reported, applied, joint = (found[name] for name in association.VARIANTS)
    assert found[association.AUTHENTIC] == pytest.approx(2.0, abs=0.24)
    assert reported == pytest.approx(0.0, abs=0.24)
    assert applied == pytest.approx(2.0, abs=0.3)
    assert joint == pytest.approx(2.0, abs=0.3)


def test_the_page_on_the_association_is_made_from_the_committed_results():
    runs = association.read(ROOT / "studies" / "rdt_association" / "results.csv")
    assert len(runs) == association.REPEATS * (1 + len(association.VARIANTS) * len(association.EPSILONS))
    assert (ROOT / "docs" / "studies" / "rdt-association.md").read_text("utf-8") == association_page.page(runs)


def test_the_reports_figures_are_drawn_from_releases():
    """A small twin of figures 4 and 12: panels with agency and occupation told apart."""
    for compared in (FIGURES[1], FIGURES[9]):
        # Among so few rows every agency is rare: labels are not merged.
        both, agreement = release(replace(compared.settings[1], collapse="10k"), rows=4_000)
        panels = points_of(compared, both)
        assert all(0.3 < rate < 1 for rate in agreement)
        assert {"agency", "occupation"} <= {group for _, points in panels for group, _ in points.by_group()}
        assert "<svg" in draw(compared, [panels, panels])


def test_the_section_of_the_reports_figures_is_made_from_the_committed_summary():
    made = panels_page.section(panels_page.read(ROOT / "studies" / "rdt_panels" / "results.csv"))
    for path in (panels_page.PAGE, panels_page.TEXT):
        assert made in (ROOT / path).read_text("utf-8"), path
    for compared in FIGURES:
        assert (ROOT / panels_page.PAGE.with_suffix("") / f"{compared.file}.svg").exists()


@pytest.mark.parametrize("path", sorted(ROOT.glob("studies/*/*.yaml")), ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_every_page_of_a_study_file_has_its_text_and_its_figures(path):
    study = yaml.safe_load(path.read_text("utf-8"))
    if "question" not in study:
        return  # a schema
    page = ROOT / "docs" / "studies" / f"{study['name']}.md"
    text = page.read_text("utf-8")
    assert (path.parent / study["text"]).read_text("utf-8").strip() in text
    assert "Processor time of the runs" in text
    for i in range(1, len(study.get("figures", ())) + 1):
        assert (page.with_suffix("") / f"figure-{i}.svg").exists()
