"""Study files: what is read, and what is said in one line when something is wrong."""

import re
from pathlib import Path

import pytest
from experiment_studies import SMALL, altered

from dipsmith.errors import InputError
from dipsmith.experiments.design import settings
from dipsmith.experiments.study import (
    RUN_PARAMETERS,
    AnalysisEntry,
    ClaimEntry,
    DataEntry,
    FigureEntry,
    MethodEntry,
    StudyEntry,
    parse,
    read,
)
from dipsmith.experiments.trial import Laboratory
from dipsmith.registry import entry_points_of

ROOT = Path(__file__).parents[2]
STUDIES = sorted((ROOT / "studies").glob("*/*.yaml"))


def test_a_study_is_read():
    study = parse(SMALL)
    assert [m.label for m in study.methods] == ["table", "columns"]
    assert len(settings(study)) == 2 * 2 + 2
    assert len(Laboratory(study).runs) == 12


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("question:", "qestion:", "line 3: qestion: unknown key; did you mean 'question'?"),
        ("question: Does more ε help?", "", "question: missing; one sentence"),
        ("method: flat", "method: flt", "line 7: methods[1]: method 'flt' is unknown; choose one of"),
        (
            "vary: {post",
            "vary: {pots",
            "line 7: methods[1]: flat has no parameter 'pots'; did you mean 'post'?",
        ),
        ("repeats: 2", "repeats: two", "line 9: repeats: must be integer, got 'two'"),
        ("repeats: 2", "repeats: 0", "repeats is 0, expected 1 or more"),
        ("repeats: 2", "repeats: 2\nrepeats: 3", "line 10, character 1: 'repeats' is given twice"),
        ("seed: 4", "design: {fractional: 3, random: 2}", "line 10: design: design is 'full'"),
        ("seed: 4", "design: {fractional: 1}", "at least 2 settings"),
        ("name: columns", "name: table", "two methods have the same name"),
        ("example: regression", "example: regresion", "line 4: data.example: must be 'personnel'"),
        ("example: regression, rows: 300", "rows: 300", "line 4: data: give either 'example'"),
        ("example: regression, rows: 300", "file: a.csv", "a file needs 'schema'"),
        ("example: regression, rows: 300", "file: a.csv, schema: a.yaml", "either 'ledger'"),
        ("rows: 300", "rows: 300, ledger: b.db", "simulated rows are free"),
        ("metrics: [tvd-1, tvd-2]", "", "nothing is measured"),
        ("vary: {epsilon: [0.5, 2]}", "", "method 'table' needs a budget"),
        (
            "vary: {epsilon: [0.5, 2]}",
            "vary: {epsilon: [1], count_share: [0.1]}",
            "'count_share' is varied for all methods",
        ),
        ("name: small", "name: Small Study", "name is 'Small Study'"),
        ("data: {", "data: {{", "line 4, character 8: a key must be plain text"),
        ("data: {", "data: {a: [", "line 4, character 42: not valid YAML"),
        (
            "example: regression, rows: 300",
            "neighbours: 2011-02-30",
            "line 4, character 20: '2011-02-30' is not a date",
        ),
        ("rows: 300", "rows: &a 300", "line 4, character 35: anchors and aliases"),
        ("rows: 300", "rows: !!str 300", "line 4, character 35: tags"),
        ("seed: 4", "data: 3", "line 10, character 1: 'data' is given twice"),
        (
            "data: {example: regression, rows: 300}",
            "data: 3",
            "line 4: data: must be a mapping of keys to values, got '3'",
        ),
        ("seed: 4", "claims: [{says: x, metric: tvd-1}]", "line 10: claims[1]: a claim has 'term'"),
        (
            "[0.5, 2]",
            "{from: 0.5, to: 2}",
            "'epsilon' is a range, which has no grid; add 'design: {random: 40}'",
        ),
        ("[0.5, 2]", "{from: 0.5}", "line 5: vary.epsilon.to: missing"),
        ("[0.5, 2]", "{from: 2, to: 0.5}", "line 5: vary.epsilon: from is 2 and to is 0.5; 'from' must be"),
        ("[0.5, 2]", "{from: 0, to: 2, scale: log}", "line 5: vary.epsilon: from is 0; a logarithmic range"),
        ("[0.5, 2]", "{from: 0.5, to: .inf}", "line 5: vary.epsilon: a range ends"),
        ("[0.5, 2]", "{from: '0.5', to: 2}", "line 5: vary.epsilon.from: must be"),
        ("[0.5, 2]", "{from: 1, to: 2, scale: lin}", "line 5: vary.epsilon.scale: must be 'linear' or 'log'"),
        (
            "[0.5, 2]",
            "{from: 1, to: 2, scael: log}",
            "vary.epsilon.scael: unknown key; did you mean 'scale'?",
        ),
        (
            "{post: [project, clip]}",
            "{post: {from: 1, to: 2}}",
            "line 7: methods[1]: 'post' of flat is no number; list its levels",
        ),
        (
            "{post: [project, clip]}",
            "{sets: {from: 1.5, to: 4}}",
            "line 7: methods[1]: sets: from is 1.5, but 'sets' of flat takes whole numbers from 1 on",
        ),
    ],
)
def test_wrong_files_are_told_in_one_line(old, new, said):
    with pytest.raises(InputError) as told:
        parse(altered(SMALL, old, new), "study.yaml")
    message = str(told.value)
    assert said in message
    assert message.startswith("study.yaml")
    assert "\n" not in message


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("tvd-1", "tvd1", "metric 'tvd1' is unknown; did you mean 'tvd-1'?"),
        ("[0.5, 2]", "[0.5, -2]", "epsilon is '-2', expected a number above 0"),
        ("[0.5, 2]", "[1, 1.0]", "'epsilon' has the same level twice"),
        ("vary: {post: [project, clip]}", "vary: {post: [project, crop]}", "post is 'crop'"),
        ("vary: {post: [project, clip]}", "set: {post: clip}, vary: {post: [clip]}", "both fixed"),
        ("seed: 4", "set: {epsilon_times: trees}", "epsilon_times names 'trees'"),
    ],
)
def test_what_a_file_names_is_checked_before_anything_is_run(old, new, said):
    with pytest.raises(Exception, match=r".") as told:
        Laboratory(parse(altered(SMALL, old, new)))
    assert said in str(told.value)


def test_a_file_that_is_no_study_is_told(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        read(tmp_path / "none.yaml")
    with pytest.raises(InputError, match="a study is a mapping"):
        parse("- 1")


def test_the_reference_page_names_every_key_and_metric():
    page = (ROOT / "docs" / "reference" / "study.md").read_text("utf-8")
    for entry in (StudyEntry, DataEntry, MethodEntry, AnalysisEntry, FigureEntry, ClaimEntry):
        for name in entry.model_fields:
            assert f"`{name.rstrip('_')}`" in page, f"{entry.__name__}.{name}"
    for name in (*entry_points_of("metrics"), *RUN_PARAMETERS):
        assert f"`{name}`" in page, name


@pytest.mark.parametrize(
    "path", [p for p in STUDIES if p.name != "adult.yaml"], ids=lambda p: f"{p.parent.name}/{p.name}"
)
def test_committed_studies_are_sound(path):
    study = read(path)
    extra = {}
    if study.name == "programming-dp":
        import sys

        sys.path.insert(0, str(ROOT))
        from studies.programming_dp.measures import MEASURES

        extra = MEASURES
    laboratory = Laboratory(study, path.parent, extra=extra)
    assert laboratory.cost is None
    assert len({r.id for r in laboratory.runs}) == len(laboratory.runs)
    page = ROOT / "docs" / "studies" / f"{study.name}.md"
    text = page.read_text("utf-8")
    assert f"{len(laboratory.settings)} settings" in text
    assert f"= {len(laboratory.runs)} runs" in text
    plain = re.sub(r"\\([\[\]<])", r"\1", text)  # as Markdown shows it
    for line in (claim.says for claim in study.claims):
        assert f"| {line} |" in plain
