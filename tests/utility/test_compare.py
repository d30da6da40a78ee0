"""compare: the look comes first, the page is confidential and whole, nothing leaks into what is released."""

import html.parser
import json
import re
import stat
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import dipsmith as ds
from dipsmith.errors import SourceError, UsageError
from dipsmith.report.content import Section
from dipsmith.report.sections import frame, section
from dipsmith.report.sections import page as whole_page
from dipsmith.utility.comparison import comparison_page, glance_table, how_section, lead_sentences
from dipsmith.utility.marginal_error import TableError, TableErrors
from dipsmith.utility.regression import Regression
from dipsmith.utility.regression import analyses as analyses_chapter

FIELDS = [
    {"name": "year", "type": "integer", "enum": [1996, 2003], "other": 1996, "role": "public"},
    {"name": "age", "type": "integer", "minimum": 20, "maximum": 69, "bins": {"width": 10}, "role": "public"},
    {"name": "job", "type": "string", "enum": ["01", "02", "03", "04"], "other": "01", "role": "public"},
    {"name": "pay", "type": "number", "minimum": 0, "maximum": 100, "bins": {"width": 10}, "role": "public"},
    {"name": "sex", "type": "string", "enum": ["F", "M"], "other": "M"},
    {"name": "race", "type": "string", "enum": ["A", "B", "C"], "other": "C"},
]
CANARY = "Zuleika-Canary-7731"


def schema(neighbours="label"):
    return ds.Schema.from_dict({"name": "staff", "unit": "row", "neighbours": neighbours, "fields": FIELDS})


def staff(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    job = np.array(["01", "02", "03", "04"])[rng.integers(0, 4, n)]
    sex = np.where(rng.random(n) < np.where(job == "02", 0.8, 0.35), "F", "M")
    race = np.array(["A", "B", "C"])[rng.choice(3, n, p=[0.1, 0.3, 0.6])]
    age = rng.integers(20, 70, n)
    pay = 40 + 0.3 * age - 6 * (sex == "F") + 3 * (job == "03") + rng.normal(0, 5, n)
    return pa.table(
        {
            "year": rng.choice([1996, 2003], n),
            "age": age,
            "job": job,
            "pay": np.clip(pay, 1, 99),
            "sex": sex,
            "race": race,
            "id": np.arange(n),
        }
    )


def released(neighbours="label", epsilon=2, **more):
    method = ds.Forest(targets=["sex", "race"]) if neighbours == "label" else ds.Marginals(cliques=[["job", "sex"]])
    return ds.synthesize(
        staff(),
        schema(neighbours),
        method,
        budget=ds.PureDP(epsilon),
        testing=True,
        noise_seed=3,
        seed=1,
        **more,
    )


@pytest.fixture(scope="module")
def label_release():
    return released()


@pytest.fixture(scope="module")
def row_release():
    return released("replace")


@pytest.fixture
def ledger(tmp_path):
    return ds.Ledger(tmp_path / "budget.db")


def quick(authentic, *releases, ledger, **more):
    chosen = {"classifiers": ["logistic"], "draws": 5, "sensitive": [], **more}
    return ds.compare(authentic, *releases, ledger=ledger, **chosen)


class Watched:
    """A table that tells whether its rows were read, and what the ledger knew at that moment."""

    def __init__(self, table, ledger):
        self.table, self.ledger, self.seen = table, ledger, []

    @property
    def columns(self):
        return tuple(self.table.column_names)

    def check(self, required):
        missing = [c for c in required if c not in self.columns]
        if missing:
            raise SourceError(f"no column {missing[0]}")

    def batches(self, columns, progress=None):
        self.seen.append(self.ledger.looks("staff"))
        yield from self.table.select(list(columns)).combine_chunks().to_batches()

    def describe(self):
        return "watched"


def test_the_look_is_logged_before_the_first_row_is_read(label_release, ledger):
    watched = Watched(staff(), ledger)
    found = quick(watched, label_release, ledger=ledger, analyses=["pay ~ sex + age"])
    assert watched.seen
    assert all(looks == 1 for looks in watched.seen)
    assert found.looks == 1
    quick(watched, label_release, ledger=ledger)
    assert ledger.looks("staff") == 2
    assert "2 confidential looks" in str(ledger.show("staff"))


def test_progress_names_the_chapters_that_there_are(label_release, ledger):
    said = []
    quick(staff(), label_release, ledger=ledger, progress=lambda stage, share: said.append(stage))
    told = {stage.rpartition(": ")[2] for stage in said}
    assert {"Marginals", "Who is served worst"} <= told
    assert not {"Households", "Careers", "Weighted by the survey's weights"} & told


def test_progress_goes_on_and_counts_what_takes_long(label_release, ledger):
    told = []
    asked = {
        "classifiers": ["logistic", "cart"],
        "draws": 2,
        "progress": lambda stage, share: told.append((stage, share)),
    }
    ds.compare(staff(), label_release, ledger=ledger, **asked)
    shares = [share for stage, share in told if stage.startswith("comparing")]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, 1.0)
    within = [share for stage, share in told if stage.endswith("tell them apart?")]
    assert len(set(within)) == 2, "one step for each classifier"
    assert within[-1] - within[0] > 0.2, "they take most of the time"


def test_looks_are_counted_on_the_next_card(label_release, ledger):
    quick(staff(), label_release, ledger=ledger)
    ledger.grant("staff", ds.PureDP(1))
    release = ds.synthesize(staff(), schema(), ds.Forest(targets=["sex"]), budget=ds.PureDP(1), ledger=ledger)
    assert release.card.looks == 1


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"ledger": None}, "a ledger is required"),
        ({"analyses": ["pay ~ badge"]}, "names 'badge'"),
        ({"analyses": ["pay"]}, "0 tildes"),
        ({"analyses": [{"formula": "pay ~ sex", "wrong": 1}]}, "an analysis is a formula"),
        ({"classifiers": ["oracle"]}, "'oracle' is unknown"),
        ({"third_file": "x.csv"}, "needs match_on"),
        ({"third": "x.csv"}, "a file is --third-file"),
        ({"pairs": [("age", "badge")]}, "a pair names 'badge'"),
        ({"pairs": [("age", "age")]}, "expected two columns"),
        ({"names": ["a", "b"]}, "1 different names"),
    ],
)
def test_mistakes_are_found_before_anything_is_read_or_logged(label_release, ledger, change, match):
    watched = Watched(staff(), ledger)
    with pytest.raises(UsageError, match=match):
        ds.compare(watched, label_release, **{"ledger": ledger, **change})
    assert not watched.seen
    assert ledger.looks("staff") == 0


def test_releases_must_be_one_to_four_and_mean_the_same(label_release, ledger):
    with pytest.raises(UsageError, match="0 releases were given"):
        ds.compare(staff(), ledger=ledger)
    with pytest.raises(UsageError, match="5 releases"):
        ds.compare(staff(), *[label_release] * 5, ledger=ledger)
    wide = [{**f, "bins": {"width": 25}} if f["name"] == "age" else f for f in FIELDS]
    other = ds.Schema.from_dict({"name": "staff", "unit": "row", "neighbours": "label", "fields": wide})
    coarse = ds.synthesize(staff(), other, ds.Forest(targets=["sex", "race"]), budget=ds.PureDP(1), testing=True)
    with pytest.raises(UsageError, match="column 'age' has other levels"):
        ds.compare(staff(), label_release, coarse, ledger=ledger)
    both = quick(staff(), label_release, coarse, ledger=ledger, schema=other)
    assert len(both.findings) == 2


def test_tables_without_rows_are_refused(label_release, row_release, ledger):
    none = replace(row_release, tables=(row_release.tables[0].slice(0, 0),))
    with pytest.raises(UsageError, match="a set without rows"):
        quick(staff(), none, ledger=ledger)
    with pytest.raises(UsageError, match="authentic table has no row"):
        quick(staff().slice(0, 0), label_release, ledger=ledger)


def test_a_missing_column_is_found_before_the_look(label_release, ledger):
    with pytest.raises(SourceError, match="'race'"):
        ds.compare(staff().drop_columns("race"), label_release, ledger=ledger)
    assert ledger.looks("staff") == 0


def test_public_columns_are_not_compared_with_themselves(label_release, row_release, ledger):
    (found,) = quick(staff(), label_release, ledger=ledger).findings
    assert found.given == ("year", "age", "job", "pay")
    assert {t.names for t in found["marginals"][0].tables} == {("sex",), ("race",)}
    (other,) = quick(staff(), row_release, ledger=ledger).findings
    assert other.given == ()
    assert len(other["marginals"][0].tables) == 6


class Requests(html.parser.HTMLParser):
    """Everything in a page that would make a browser fetch something."""

    def __init__(self):
        super().__init__()
        self.found, self.open, self.ids = [], [], []

    def handle_starttag(self, tag, attrs):
        named = dict(attrs)
        if "id" in named:
            self.ids.append(named["id"])
        for key in ("src", "href", "xlink:href", "data", "srcset"):
            value = named.get(key)
            if value and not value.startswith(("#", "data:", "numbers/")):
                self.found.append((tag, value))


@pytest.mark.slow
def test_the_saved_page_is_whole_and_confidential(label_release, ledger, tmp_path):
    found = ds.compare(
        staff(),
        label_release,
        ledger=ledger,
        classifiers=["logistic", "cart"],
        draws=10,
        analyses=[
            "pay ~ sex + race + age | job",
            Regression("pay ~ sex + age", by="year", reference={"sex": "M"}),
        ],
        third_file=staff(),
        match_on="id",
    )
    folder = found.save(tmp_path / "comparison")
    text = (folder / "comparison.html").read_text("utf-8")
    assert len(text.encode()) < 2_000_000
    assert "CONFIDENTIAL — reads authentic rows, not for release" in text
    assert "@top-center { content: 'CONFIDENTIAL" in text  # on every printed page
    requests = Requests()
    requests.feed(text)
    assert not requests.found
    assert "url(" not in re.sub(r"url\(#[^)]+\)", "", text)
    assert "@import" not in text
    assert len(requests.ids) == len(set(requests.ids))
    assert '<html lang="en">' in text
    svgs = re.findall(r"<svg [^>]*>", text)
    assert len(svgs) >= 8
    assert all('role="img"' in svg and 'aria-label="' in svg for svg in svgs)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert "CONFIDENTIAL" in (folder / "CONFIDENTIAL.txt").read_text()
    for figure in found.page.figures():
        numbers = (folder / f"{figure.file}.csv").read_text().splitlines()
        assert len(numbers) == len(figure.numbers.rows) + 1
        held = json.loads((folder / f"{figure.file}.json").read_text())
        assert held["confidential"] is True
        assert len(held["rows"]) == len(figure.numbers.rows)
        assert figure.caption
        assert figure.parameters is not None
    facts = json.loads((folder / "comparison.json").read_text())
    assert facts["confidential"] is True
    assert facts["releases"][0]["matched"]["matched"] == 1
    assert 0 <= facts["analyses"][0]["agreements"][0]["overlap"] <= 1
    assert {a["level"] for a in facts["analyses"][1]["agreements"]} == {"1996", "2003"}
    with pytest.raises(ds.errors.OutputError):
        found.save(folder)


@pytest.mark.slow
def test_the_same_comparison_gives_the_same_bytes(label_release, ledger):
    pages = [quick(staff(), label_release, ledger=ledger).page for _ in range(2)]
    texts = ["".join(section(s) for s in p.sections[:-1]) for p in pages]  # the last section counts the looks
    assert texts[0] == texts[1]


@pytest.mark.slow
def test_it_prints_and_shows_itself(label_release, row_release, ledger):
    found = quick(staff(), label_release, ledger=ledger)
    assert str(found).startswith("CONFIDENTIAL comparison")
    assert "SPECKS, logistic" in str(found)
    assert found._repr_html_() == frame(whole_page(found.page))
    assert "CONFIDENTIAL" in found._repr_html_().partition("srcdoc=")[0]  # the frame is named so, too
    assert found.page.title == "Comparison with authentic rows: staff"


@pytest.mark.slow
def test_several_releases_stand_side_by_side(label_release, ledger):
    other = released(epsilon=0.05)
    found = quick(staff(), label_release, other, ledger=ledger, names=["good", "poor"], analyses=["pay ~ sex + age"])
    good, poor = found.findings
    assert good["slopes"].rmse < poor["slopes"].rmse
    assert "poor" in str(found)
    misses = {}
    for name in ("good", "poor"):
        sex = next(c for c in found.regressions[0].of(name).coefficients if c.name.startswith("sex"))
        misses[name] = abs(sex.synthetic - sex.authentic)
    assert misses["good"] < misses["poor"] / 2
    text = whole_page(found.page)
    assert text.count("good") > 10
    assert "served worst" in text


def test_the_authentic_rows_released_as_they_are_score_perfectly(label_release, ledger):
    from dataclasses import replace

    table = staff()
    same = replace(label_release, tables=(table.select(label_release.tables[0].column_names),))
    found = quick(table, same, ledger=ledger, analyses=["pay ~ sex + race + age | job"])
    assert found.findings[0]["specks"][0].value == 0
    assert [m.mean for m in found.findings[0]["marginals"]] == [0, 0, 0]
    assert found.findings[0]["associations"].rank_correlation == pytest.approx(1)
    assert found.findings[0]["slopes"].slope == pytest.approx(1)
    agreement = found.regressions[0].agreements[0]
    assert (agreement.overlap, agreement.covered, agreement.same_conclusion) == (1, 1, 1)
    assert agreement.width_ratio == pytest.approx(1)


def test_collapsed_labels_and_bins_are_compared_as_released(ledger, tmp_path):
    fields = [
        {
            "name": "code",
            "type": "string",
            "enum": ["0101", "0102", "0201"],
            "collapse": {"prefix": 2},
            "other": "0101",
        },
        {"name": "age", "type": "integer", "minimum": 0, "maximum": 99, "bins": {"width": 25}},
    ]
    declared = ds.Schema.from_dict({"name": "t", "unit": "row", "neighbours": "replace", "fields": fields})
    rng = np.random.default_rng(0)
    table = pa.table(
        {
            "code": np.array(["0101", "0102", "0201"])[rng.integers(0, 3, 900)],
            "age": rng.integers(0, 100, 900),
        }
    )
    release = ds.synthesize(table, declared, ds.Flat(), budget=ds.PureDP(30), testing=True, noise_seed=1)
    release.save(tmp_path / "csv", format="csv")
    found = quick(table, tmp_path / "csv", ledger=ledger, analyses=["age ~ code"])
    assert found.findings[0]["marginals"][0].mean < 0.05  # the label 01 is read back as text, not as the number 1
    (agreement,) = found.regressions[0].agreements
    assert [c.name for c in agreement.coefficients] == ["Intercept", "code[T.02]"]


def test_sets_are_averaged_and_combined(ledger):
    release = released("replace", epsilon=4, sets=3, each="split")
    found = quick(staff(), release, ledger=ledger, analyses=["pay ~ sex"])
    assert "3 sets" in found.findings[0].card.sets_text
    # what all sets lose alike no difference between them shows: the mechanism is run again
    assert "over 3 sets that were sanitised separately, by 20 runs of marginals" in found.regressions[0].rule
    printed = quick(staff(), release, ledger=ledger, analyses=[{"formula": "pay ~ sex", "separate": "combine"}])
    assert "T = ū + B/m" in printed.regressions[0].rule
    single = quick(staff(), released("replace", epsilon=4), ledger=ledger, analyses=["pay ~ sex"])
    assert "Ordinary intervals" in single.regressions[0].rule


@pytest.mark.slow
def test_a_regression_that_cannot_be_fitted_says_so(label_release, ledger):
    table = staff(60)
    tiny = quick(table, label_release, ledger=ledger, analyses=[Regression("pay ~ sex*race*job*age", by="age")])
    assert tiny.regressions[0].notes
    assert "Left out" in whole_page(tiny.page) or "Could not be fitted" in whole_page(tiny.page)


@pytest.mark.slow
def test_many_points_are_drawn_as_an_image(ledger, monkeypatch, label_release):
    monkeypatch.setattr("dipsmith.report.figures.RASTERISED", 20)
    text = whole_page(quick(staff(), label_release, ledger=ledger).page)
    assert "data:image/png;base64" in text


def test_without_matplotlib_there_are_tables(label_release, ledger, monkeypatch):
    monkeypatch.setattr("dipsmith.report.figures.available", lambda: False)
    text = whole_page(quick(staff(), label_release, ledger=ledger, analyses=["pay ~ sex"]).page)
    assert "<svg" not in text
    assert "pip install 'dipsmith[analysis]'; this page has tables only" in text.replace("&#x27;", "'").replace(")", "")
    assert "Coefficients" in text


@pytest.mark.slow
def test_confidential_pages_can_be_sorted_and_say_what_they_are(label_release, ledger):
    text = whole_page(quick(staff(), label_release, ledger=ledger).page)
    assert text.count("<script>") == 1
    assert "aria-sort" in text
    assert '<button type="button">' in text


# One snapshot per section ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(tmp_path_factory, label_release):
    ledger = ds.Ledger(tmp_path_factory.mktemp("looks") / "budget.db")
    return quick(
        staff(),
        label_release,
        ledger=ledger,
        analyses=[Regression("pay ~ sex + race + age | job", reference={"sex": "M"})],
        third_file=staff(),
        match_on="id",
        sensitive=["sex"],
    )


def chapter(comparison, heading):
    return next(s for s in comparison.page.sections if s.heading == heading)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "columns",
        "glance",
        "classifiers",
        "marginals",
        "associations",
        "full_table",
        "panels",
        "subgroups",
        "analyses",
        "disclosure",
        "method",
    ],
)
def test_sections_are_as_they_were(whole, snapshot, name):
    heading = {
        "columns": "Every column, authentic and synthetic",
        "classifiers": "Can a classifier tell them apart?",
        "marginals": "Marginals",
        "associations": "Associations",
        "full_table": "The full cross-tabulation",
        "panels": "Panels: authentic against synthetic",
        "subgroups": "Who is served worst",
        "disclosure": "Attribute disclosure",
    }
    if name in heading:
        made = chapter(whole, heading[name])
    else:
        made = {
            "glance": lambda: Section("At a glance", (glance_table(whole),)),
            "analyses": lambda: analyses_chapter(whole.regressions, whole.findings),
            "method": lambda: how_section(whole),
        }[name]()
    text = section(made, sortable=True)
    if name == "disclosure":  # what boosted trees guess depends on the version of scikit-learn
        text = re.sub(r'(?<=data-v=")[^"]*|(?<=>)[01]\.\d+(?=<)', "0", text)
    snapshot(name, text)


def test_the_disclosure_section(whole):
    text = section(chapter(whole, "Attribute disclosure"))
    # its numbers depend on the version of scikit-learn; the table's shape does not
    assert "Guessing a person&#x27;s label" in text
    assert "joined by id: 3,000 rows, 100.0% matched" in text
    assert "Correctly synthesised labels" in text


@pytest.mark.slow
def test_the_page_opens_with_three_sentences(whole):
    page = comparison_page(whole)
    assert len(page.lead) == 3
    assert "ε = 2, unit row, neighbours label" in page.lead[0]
    assert page.lead[1].startswith("Kept: ")
    assert "served worst: " in page.lead[2]
    one = whole.findings[0]
    near, far = (TableErrors(1, (TableError(("sex",), tvd, 0.03),), 1) for tvd in (0.04, 0.15))
    for score, kept in ((near, True), (far, False)):
        told = lead_sentences(replace(whole, findings=(replace(one, results={**one.results, "marginals": (score,)}),)))
        assert ("mean TVD" in told[1]) == kept
        assert ("are off (mean TVD 0.15, by chance 0.03)" in told[2]) != kept
    assert page.confidential
    made = whole_page(page)
    assert made.index("<figure") < made.index("<nav"), "the first picture stands above the list of chapters"


# Nothing confidential leaves ---------------------------------------------------------------------------------------------


def planted():
    """Authentic rows with a canary in every private column, and numbers that occur nowhere else."""
    table = staff()
    sex, race = table["sex"].to_pylist(), table["race"].to_pylist()
    sex[17], race[18] = CANARY, CANARY
    return table.set_column(4, "sex", pa.array(sex)).set_column(5, "race", pa.array(race))


@pytest.mark.slow
def test_canaries_appear_in_no_releasable_file_and_no_message(tmp_path, ledger, capsys, caplog):
    ledger.grant("staff", ds.PureDP(20))
    release = ds.synthesize(planted(), schema(), ds.Forest(targets=["sex", "race"]), budget=ds.PureDP(5), ledger=ledger)
    folder = release.save(tmp_path / "release", format="csv")
    found = ds.compare(
        planted(), release, ledger=ledger, classifiers=["logistic"], draws=3, analyses=["pay ~ sex + age"]
    )
    found.save(tmp_path / "comparison")
    said = [str(release), release._repr_html_(), str(ledger.show("staff")), str(found)]
    for analyses in (["pay ~ nothing"], ["sex ~ pay"], ["pay ~ log(sex)"]):
        try:
            ds.compare(planted(), release, ledger=ledger, classifiers=[], analyses=analyses)
        except ds.errors.DipsmithError as error:
            said.append(str(error))
    out = capsys.readouterr()
    said += [out.out, out.err, caplog.text]
    assert not any(CANARY in text for text in said)
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        assert CANARY.encode() not in path.read_bytes(), path.name
    assert CANARY.encode() not in (tmp_path / "budget.db").read_bytes()
    # the comparison speaks of codes, so even there a value outside the domain does not appear
    for path in (tmp_path / "comparison").rglob("*.*"):
        assert CANARY.encode() not in path.read_bytes(), path.name


def test_cells_that_the_schema_does_not_hold_are_told_first(row_release, ledger):
    """By codes such cells agree perfectly: they count as the minimum in both tables."""
    rows = staff(400)
    pay = [f"${v:,.2f}" if i < 300 else f"{v:.2f}" for i, v in enumerate(rows["pay"].to_pylist())]
    jobs = ["99" if i < 3 else job for i, job in enumerate(rows["job"].to_pylist())]
    age = [10 if i < 40 else 30 for i in range(400)]
    for name, values in (("pay", pay), ("job", jobs), ("age", age)):
        rows = rows.set_column(rows.column_names.index(name), name, pa.array(values))
    found = quick(rows, row_release, ledger=ledger)
    assert [(m.column, m.what, m.cells) for m in found.unfit] == [
        ("pay", "unreadable", 300), ("age", "outside the bounds", 40), ("job", "outside the list", 3),
    ]  # fmt: skip
    first, second = comparison_page(found).lead[:2]
    assert "are compared with" in first
    assert (
        "300 cells of pay (75.0%) cannot be read as a number; 40 cells of age (10.0%) lie outside the bounds." in second
    )
    assert "job" not in second, "three cells in 400 are no headline"
    assert "3 cells of job (0.8%) are not in the list" in str(how_section(found).blocks[0])
    assert "300 cells of pay" in str(found).split("\n\n")[1]
    assert json.loads(found.to_json())["unfit"][0]["cells"] == 300


def test_a_comparison_of_rows_as_the_schema_says_has_no_such_sentence(row_release, ledger):
    found = quick(staff(400), row_release, ledger=ledger)
    assert found.unfit == ()
    assert not any("Not as the schema says" in sentence for sentence in comparison_page(found).lead)
    assert "none" in str(how_section(found).blocks[0])
