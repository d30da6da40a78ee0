"""Pages of studies whose results are kept: each is what its command makes of them, to the last byte."""

from pathlib import Path

import pytest

from dipsmith.experiments.experiment import Experiment
from dipsmith.experiments.results import TABLE, Results
from dipsmith.report import figures

ROOT = Path(__file__).parents[2]
KEPT = sorted(path.parent for path in (ROOT / "studies").glob(f"*/{TABLE}"))


def test_results_are_kept_where_a_page_says_so():
    assert {"how_many_sets", "methods_at_equal_epsilon", "propensity_metrics"} <= {folder.name for folder in KEPT}


@pytest.mark.slow
@pytest.mark.parametrize("folder", KEPT, ids=lambda folder: folder.name)
def test_the_page_is_made_from_the_committed_results(folder, tmp_path, monkeypatch):
    """Figures, which depend on the version of the drawing library, are not drawn; their numbers are compared."""
    study, results = folder / "study.yaml", Results.load(folder / TABLE)
    experiment = Experiment.read(study, tmp_path / "results")
    assert results.study == experiment.laboratory.study, "the study was changed after it was run"
    assert results.table.num_rows
    page = ROOT / "docs" / "studies" / f"{results.study.name}.md"
    monkeypatch.setattr(figures, "available", lambda: False)
    made = tmp_path / page.name
    given = f"dipsmith experiment run {study.relative_to(ROOT)} --page {page.relative_to(ROOT)}"
    experiment.write_page(results, made, given)
    text = page.read_text("utf-8")
    pictures = [line for line in text.splitlines() if line.startswith("![")]
    assert len(pictures) == len(results.study.figures)
    assert made.read_text("utf-8").splitlines() == _without(text.splitlines(), pictures)
    for numbers in made.with_suffix("").glob("*.csv"):
        assert numbers.read_text("utf-8") == (page.with_suffix("") / numbers.name).read_text("utf-8")


def _without(lines, pictures):
    """The lines of a page without its pictures and the empty line after each."""
    return [line for i, line in enumerate(lines) if line not in pictures and (i == 0 or lines[i - 1] not in pictures)]
