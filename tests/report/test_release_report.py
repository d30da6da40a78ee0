"""The releasable report: a function of the release alone."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import dipsmith as ds
from dipsmith.privacy.curator import Curator
from dipsmith.privacy.measurement import Measurement, NoisyAnswer
from dipsmith.report.sections import page, section
from dipsmith.synthesis.spent import column_noise, least_visible_count, table_noise

FIELDS = [
    {"name": "age", "type": "integer", "minimum": 20, "maximum": 69, "bins": {"width": 10}},
    {"name": "job", "type": "string", "enum": ["01", "02", "03"], "other": "01"},
    {"name": "sex", "type": "string", "enum": ["F", "M"], "other": "M"},
]


def schema(neighbours="replace", **more):
    fields = [{**f, "role": "public" if neighbours == "label" and f["name"] != "sex" else "private"} for f in FIELDS]
    return ds.Schema.from_dict({"name": "staff", "unit": "row", "neighbours": neighbours, "fields": fields, **more})


def staff(n=1500, seed=0):
    rng = np.random.default_rng(seed)
    job = np.array(["01", "02", "03"])[rng.integers(0, 3, n)]
    sex = np.where(rng.random(n) < np.where(job == "02", 0.8, 0.3), "F", "M")
    return pa.table({"age": rng.integers(20, 70, n), "job": job, "sex": sex})


def synthesize(table, method=None, declared=None, **more):
    return ds.synthesize(
        table,
        declared or schema(),
        method or ds.Marginals(cliques=[["job", "sex"]]),
        budget=ds.PureDP(1),
        testing=True,
        noise_seed=5,
        seed=2,
        **more,
    )


@pytest.fixture(scope="module")
def release():
    return synthesize(staff())


@pytest.mark.slow
@pytest.mark.parametrize(
    "heading",
    [
        "What was done",
        "What the noise does",
        "The synthetic columns",
        "Associations in the synthetic rows",
        "How to analyse it",
        "What this release carries",
    ],
)
def test_sections_are_as_they_were(release, snapshot, heading):
    found = next(s for s in release.report_page().sections if s.heading == heading)
    snapshot("report-" + heading.lower().replace(" ", "-"), section(found))


def test_the_columns_section(release):
    found = next(s for s in release.report_page().sections if s.heading == "The synthetic columns")
    text = section(found)
    assert "<svg" in text
    assert "n = 1,500 synthetic rows, ε = 1" in text
    figure = next(b for b in found.blocks if hasattr(b, "svg"))
    by_level = {(r[0], r[1]): r[2] for r in figure.numbers.rows}
    counts = {v["values"]: v["counts"] for v in release.tables[0]["sex"].value_counts().to_pylist()}
    assert by_level[("sex", "F")] == counts["F"]


@pytest.mark.slow
def test_associations_are_those_of_the_synthetic_rows(release):
    from scipy.stats.contingency import association

    found = next(s for s in release.report_page().sections if s.heading.startswith("Associations"))
    table = found.blocks[0]
    frame = release.tables[0].to_pandas()
    expected = association(frame.groupby(["job", "sex"], observed=True).size().unstack().to_numpy(), method="cramer")
    assert dict(table.rows)["job and sex"] == pytest.approx(expected)


def test_the_page_opens_with_guarantee_and_limits(release):
    lead = release.report_page().lead
    headings = {s.heading for s in release.report_page().sections}
    assert len(headings) == 6  # each has its snapshot above
    assert len(lead) == 3
    assert "ε = 1, unit row, neighbours replace" in lead[0]
    assert "job × sex" in lead[1]
    assert "rare groups are served worst" in lead[2]


def test_rows_of_labels_are_not_said_to_be_nobody(release):
    """Under `label` every row has the public columns of somebody."""
    assert release.report_page().lead[2].endswith("No row is a person.")
    labels = synthesize(staff(), ds.LogLinear(["sex"]), schema("label")).report_page().lead[2]
    assert "No row is a person" not in labels
    assert labels.endswith("Rows stand for somebody: public columns are as they are, only private ones were drawn.")


def test_tables_that_are_mostly_noise_are_not_called_kept():
    """Of 12 rows at ε = 1 the noise on six cells moves more than half; of 1,500 it does not."""
    few, many = (synthesize(staff(n)).report_page().lead[1] for n in (12, 1500))
    assert few == (
        "Kept, up to known noise: next to nothing. Measured, but mostly noise: job × sex; age; sums over them say more."
    )
    assert many == "Kept, up to known noise: job × sex; age."


def test_it_has_no_script_and_no_band(release):
    text = page(release.report_page())
    assert "<script" not in text
    assert "CONFIDENTIAL" not in text
    assert "http" not in text


def test_a_testing_release_is_stamped(release):
    assert "NOT PRIVATE" in page(release.report_page())


def test_without_matplotlib_it_has_tables_and_says_so(release, monkeypatch):
    monkeypatch.setattr("dipsmith.report.figures.available", lambda: False)
    text = page(release.report_page())
    assert text.count("<svg") == text.count('class="map"') == 1  # which no library draws
    assert "this report has tables only" in text
    assert "Most frequent levels" in text


def test_the_noise_is_that_of_the_mechanism(release):
    tables = {t.what: t for t in table_noise(release.card, release.schema)}
    lines = {line["what"].removeprefix("counts of "): line for line in release.card.spending}
    for what, table in tables.items():
        q = np.exp(-lines[what]["cost"] / lines[what]["sensitivity"])
        assert table.sd == pytest.approx(np.sqrt(2 * q) / (1 - q))
    # ε = 1, Δ = 1: variance 1.8413
    columns = column_noise(list(tables.values()), release.schema)
    assert columns["sex"] == pytest.approx(tables["job × sex"].sd * np.sqrt(3))
    assert columns["age"] == pytest.approx(tables["age"].sd)
    assert least_visible_count(list(tables.values())) == pytest.approx(2 * max(t.sd for t in tables.values()))


def test_a_card_names_the_columns_of_a_measured_table(release):
    lines = release.card.spending
    assert {tuple(line["attributes"]) for line in lines} == {("age",), ("job", "sex")}
    renamed = [{**line, "what": "counts of cells"} for line in lines]
    told = table_noise(replace(release.card, spending=tuple(renamed)), release.schema)
    assert {t.attributes for t in told} == {("age",), ("job", "sex")}


def test_cards_of_versions_before_0_2_name_the_columns_by_text_alone(release):
    older = [{k: v for k, v in line.items() if k != "attributes"} for line in release.card.spending]
    card = replace(release.card, spending=tuple(older))
    assert table_noise(card, release.schema) == table_noise(release.card, release.schema)


def test_the_expected_distance_is_that_of_the_noise(release):
    """Twenty thousand tables of noise: the mean of half the sum of absolute values is within 2 % (25 standard errors)."""
    found = next(s for s in release.report_page().sections if s.heading == "What the noise does")
    asked = found.blocks[0]
    rng = np.random.default_rng(0)
    for row in asked.rows:
        cells, sd, tvd = row[1], row[3], row[6]
        noise = rng.laplace(0, sd / np.sqrt(2), (20_000, cells))
        assert tvd == pytest.approx(np.abs(noise).sum(axis=1).mean() / 2 / 1500, rel=0.02)


def test_noise_under_zcdp():
    release = ds.synthesize(staff(), schema(), ds.Flat(), budget=ds.ZCDP("0.5"), testing=True, noise_seed=1)
    (table,) = table_noise(release.card, release.schema)
    assert table.mechanism == "discrete Gaussian"
    assert table.sd**2 == pytest.approx(2 + 2 / 11)  # as much as a normal variance of Δ₂²/(2ρ) = 2 hides, under replace


def test_expected_errors_cover_what_the_noise_does():
    """The 95 % margin of a level's share holds in repeated runs.

    60 runs × 2 levels; each exceeds its margin with probability ≤ .05 (drawn shares are taken from the model, so that
    drawing adds nothing). More than 18 of 60 independent runs has probability < 1e-9.
    """
    table = staff(4000)
    truth = sum(v == "F" for v in table["sex"].to_pylist()) / 4000
    outside = 0
    for seed in range(60):
        made = ds.synthesize(
            table, schema(), ds.Marginals(), budget=ds.PureDP("0.2"), testing=True, noise_seed=seed, seed=0
        )
        noise = column_noise(table_noise(made.card, made.schema), made.schema)["sex"]
        share = made.model.count({"sex": "F"}).value / 4000
        outside += abs(share - truth) > 1.96 * noise / 4000
    assert outside <= 18


# A function of the release alone ---------------------------------------------------------------------------------------


class Frozen:
    """Mechanism outputs of one run, played back in the next."""

    verbs = ("_remember", "choose")

    def __init__(self, monkeypatch):
        self.tape, self.at, self.patch = [], 0, monkeypatch
        self.real = {verb: getattr(Curator, verb) for verb in self.verbs}

    def record(self):
        for verb, real in self.real.items():

            def recorded(curator, *arguments, _real=real, **options):
                answer = _real(curator, *arguments, **options)
                self.tape.append(answer)
                return answer

            self.patch.setattr(Curator, verb, recorded)

    def replay(self):
        for verb, real in self.real.items():

            def replayed(curator, *arguments, _real=real, **options):
                _real(curator, *arguments, **options)  # events and charges as before, the answer from the tape
                self.at += 1
                answer = self.tape[self.at - 1]
                if isinstance(answer, Measurement):
                    curator.answers[-1] = NoisyAnswer(answer, curator.block)
                return answer

            self.patch.setattr(Curator, verb, replayed)


@pytest.mark.parametrize(
    ("neighbours", "method"),
    [
        ("replace", lambda: ds.Marginals(cliques=[["job", "sex"]])),
        ("replace", lambda: ds.Flat()),
        ("label", lambda: ds.Forest(targets=["sex"])),
    ],
    ids=["marginals", "flat", "forest"],
)
def test_swapping_the_authentic_rows_changes_no_byte(monkeypatch, tmp_path, neighbours, method):
    first = staff(seed=0)
    if neighbours == "label":  # the public columns are public: only labels are swapped
        other = first.set_column(2, "sex", pa.array(np.random.default_rng(9).choice(["F", "M"], 1500)))
    else:
        other = staff(seed=99)
    frozen = Frozen(monkeypatch)
    frozen.record()
    one = synthesize(first, method(), schema(neighbours))
    frozen.replay()
    two = synthesize(other, method(), schema(neighbours))
    assert frozen.at == len(frozen.tape) > 0
    assert page(one.report_page()) == page(two.report_page())
    # and so is everything else in the folder but the card, which has the time and the request
    folders = [release.save(tmp_path / name, format="csv") for name, release in (("one", one), ("two", two))]
    told = {"croissant.json", "datacite.json", "ro-crate-metadata.json"}  # they tell the request, as the card does
    for path in sorted(p for p in folders[0].rglob("*") if p.is_file()):
        if path.name.startswith("card") or path.name in told:
            continue
        again = folders[1] / path.relative_to(folders[0])
        if path.suffix == ".npz":
            with np.load(path) as a, np.load(again) as b:
                assert sorted(a.files) == sorted(b.files)
                assert all(np.array_equal(a[n], b[n]) for n in a.files)
        else:
            assert path.read_bytes() == again.read_bytes(), path.name
    cards = [json.loads((f / "card.json").read_text()) for f in folders]
    changed = {k for k in cards[0] if cards[0][k] != cards[1][k]}
    assert changed <= {"created", "request", "files"}


def test_without_freezing_the_bytes_do_change():
    assert page(synthesize(staff(seed=0)).report_page()) != page(synthesize(staff(seed=99)).report_page())


def test_the_report_of_a_folder_is_the_report_that_was_saved(tmp_path, release):
    for ending in ("csv", "parquet"):
        folder = release.save(tmp_path / ending, format=ending)
        assert page(ds.Release.load(folder).report_page()) == (folder / "report.html").read_text("utf-8")


@pytest.mark.parametrize("columns", [["age", "job"], ["pay in $", "class"], ["job"], ["job", "sex"]], ids=" and ".join)
def test_the_code_that_the_report_proposes_can_be_run(columns):
    """Whatever the columns are called, and where none is a number."""
    like = {"pay in $": "age", "class": "job"}
    fields = [{**f, "name": c} for c in columns for f in FIELDS if f["name"] == like.get(c, c)]
    declared = ds.Schema.from_dict({"name": "t", "unit": "row", "neighbours": "replace", "fields": fields})
    rows = staff(300)
    found = synthesize(pa.table({c: rows[like.get(c, c)] for c in columns}), ds.Flat(), declared)
    codes = [b.text for s in found.report_page().sections for b in s.blocks if "ds.fit(" in getattr(b, "text", "")]
    if len(columns) == 1:  # there is nothing to relate it to
        assert codes == []
        return
    (code,) = codes
    proposed = code.splitlines()[-1].replace("release,", "release, rule='sampling', formula=")
    assert "300 rows" in str(eval(proposed, {"ds": ds, "release": found}))
