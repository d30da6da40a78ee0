"""What the pages say and export, without a browser: schema reports, plans, commands, scripts, downloads."""

import inspect
import json
import re
import runpy
import shlex
import sys
import types
from xml.etree import ElementTree as ET

import pytest
from starlette.routing import Route

import dipsmith as ds
from dipsmith.errors import InputError, UsageError
from dipsmith.privacy.budget import PureDP, decimal_text
from dipsmith.privacy.ledger import Ledger
from dipsmith.privacy.protection import Replace
from dipsmith.report.content import Figure, Page, Section, Table
from dipsmith.schema import Schema
from dipsmith.studio import app, budget_bar, choices, fragments, jobs, schema
from dipsmith.studio.workspace import Workspace
from dipsmith.synthesis.verify import verify


@pytest.fixture
def cli(monkeypatch, capsys, shared):
    """Type a command in the workspace's folder, in this process; gives the exit code and what it said."""
    from dipsmith.cli.main import main

    monkeypatch.chdir(shared.folder)

    def run(command: str) -> tuple[int, str]:
        words = shlex.split(command)
        assert words[0] == "dipsmith"
        monkeypatch.setattr(sys, "argv", words)
        with pytest.raises(SystemExit) as stopped:
            main()
        said = capsys.readouterr()
        return int(stopped.value.code or 0), said.out + said.err

    return run


def command_on(page: str) -> str:
    import html

    return html.unescape(re.search(r'<code id="command"[^>]*>([^<]+)</code>', page)[1])


def test_every_page_has_a_command_and_the_commands_work(shared, cli):
    """The commands of schema, plan and run are typed as the pages show them, beside the exported schema."""
    project = shared.project()
    shared.choose(project)
    pages = {step: shared.client.get(f"/p/{project}/{step}").text for step in ("schema", "plan", "run", "compare")}
    assert "dipsmith ledger show" in command_on(shared.client.get("/").text)
    (shared.folder / f"{project}.yaml").write_bytes(shared.client.get(f"/p/{project}/schema.yaml").content)
    for step in ("schema", "plan", "run"):
        code, said = cli(command_on(pages[step]))
        assert code == 0, (step, command_on(pages[step]), said)
    assert command_on(pages["compare"]).startswith("dipsmith compare people.csv ")
    release = shared.folder / f"{project}-release"
    assert verify(release, shared.folder / "budget.db").ledger
    # it is a release like any other: the page shows it, and its own command checks it
    shown = shared.client.get(f"/p/{project}/release")
    assert "released under differential privacy: ε = 0.5, unit row, neighbours add-remove" in shown.text
    assert cli(command_on(shown.text))[0] == 0


def test_script_and_choices_say_the_same_and_the_script_runs(shared, tmp_path, monkeypatch, capsys):
    project = shared.project()
    asked = {
        "releases": ["x"],
        "analyses": [{"formula": "age ~ sex", "by": None, "reference": {}}],
        "classifiers": ["logistic"],
    }
    jobs.submit(Workspace.of(shared.folder), "a" * 32, "compare", project, asked)
    shared.choose(
        project,
        method="marginals",
        settings={"cliques": 2},
        amount="0.25",
        sets=2,
        each="split",
        format="csv",
    )
    kept = shared.client.get(f"/p/{project}/choices.yaml").text
    for line in (
        "method: marginals",
        "epsilon: '0.25'",
        "sets: 2",
        "each: split",
        "format: csv",
        "cliques: 2",
    ):
        assert line in kept
    script = tmp_path / "script.py"
    script.write_text(shared.client.get(f"/p/{project}/script.py").text)
    assert "formula: age ~ sex" in kept
    monkeypatch.chdir(shared.folder)
    # the comparison itself is part of the journey in the browser; here: that it is asked for as `compare` can be
    asked_for = []
    signature = inspect.signature(ds.compare)

    def bound(*given, **named):
        asked_for.append(signature.bind(*given, **named))
        return types.SimpleNamespace(save=asked_for.append)

    monkeypatch.setattr(ds, "compare", bound)
    runpy.run_path(str(script), run_name="__main__")
    assert "300 rows by marginals; ε = 0.25, unit row" in capsys.readouterr().out
    card = verify(shared.folder / f"{project}-release", shared.folder / "budget.db")
    assert card.sets == 2
    assert asked_for[0].arguments["analyses"][0]["formula"] == "age ~ sex"
    assert asked_for[1] == "comparison"
    assert "ε = 0.25" in card.guarantee


@pytest.mark.parametrize(
    ("given", "options"),
    [
        ({"method": "mst", "amount": "0.1"}, "--method mst --epsilon 0.1"),
        (
            {"method": "aim", "currency": "approx", "amount": "1", "delta": "1e-9"},
            "--method aim --epsilon 1 --delta 1e-9",
        ),
        ({"method": "mst", "currency": "rho", "amount": "0.02"}, "--method mst --rho 0.02"),
        (
            {
                "method": "forest",
                "sets": 3,
                "each": "draw",
                "settings": {"n_b": 500, "targets": ["sex", "race"]},
            },
            "--method forest --epsilon 1 --sets 3 --each draw --set n_b=500 --set 'targets=[sex, race]'",
        ),
    ],
)
def test_choices_as_options(given, options):
    assert shlex.join(choices.Choices.of(given).options()) == options


@pytest.mark.parametrize(
    "wrong",
    [
        {"sets": 0},
        {"sets": True},
        {"rows": -1},
        {"currency": "gold"},
        {"amount": 1},
        {"each": "x", "sets": 2},
        {"settings": []},
    ],
)
def test_choices_refuse_what_they_do_not_understand(wrong):
    with pytest.raises(UsageError):
        choices.Choices.of(wrong)


def test_plan_tells_what_will_be_spent_and_what_remains(shared):
    from dipsmith.methods.catalogue import METHODS
    from dipsmith.methods.method import PublicFacts
    from dipsmith.planning.plan import plan

    project = shared.project()
    told = shared.choose(project, method="mst", amount="0.75", rows=50_000)
    left = Ledger(shared.folder / "budget.db").show("people")
    after = decimal_text(left.remaining_units - 750_000_000_000)
    assert told["spending"]["allowed"]
    assert (
        f"spends ε = 0.75 of the ε = {decimal_text(left.granted_units)} granted to 'people'"
        in told["spending"]["sentence"]
    )
    assert f"unit 'row' and neighbours 'add-remove'; ε = {after} remains" in told["spending"]["sentence"]
    made = plan(
        Schema.read(shared.folder / "people.yaml"),
        METHODS["mst"](),
        PureDP("0.75"),
        public=PublicFacts(rows=50_000),
    )
    assert told["stages"] == json.loads(json.dumps([s.to_dict() for s in made.stages]))
    worst = max(e.tvd for e in made.errors if len(e.attributes) == 1)
    assert told["errors"]["1"]["worst"][0]["tvd"] == worst
    refused = shared.choose(project, method="mst", amount="1000")
    assert not refused["spending"]["allowed"]
    assert "the ledger will refuse it" in refused["spending"]["sentence"]
    shared.ask("POST", f"/api/p/{project}/plan", {"choices": {"method": "loglinear", "amount": "1"}}, expect=400)


def test_downloads_of_the_explorer(shared):
    from dipsmith.planning.leaf_interval import interval

    numbers = shared.client.get("/interval.csv?p0=0.1&lam=0.4&n=650&kind=equal&law=discrete").text.splitlines()
    for line in numbers[1:]:
        p0, lam, n, lo, hi, *_ = line.split(",")
        exact = interval(float(p0), float(lam), int(n), kind="equal", noise="discrete")
        assert (float(lo), float(hi)) == (exact.lo, exact.hi)
    svg = shared.client.get("/interval.svg?p0=0.1&lam=0.4&n=650").text
    ET.fromstring(svg)
    assert 'class="band"' not in svg
    assert "style=" not in svg
    for wrong in ("p0=x", "n=0", "n=99999999", "lam=0", "law=gauss", "kind=odd", "p0=2", "level=7"):
        assert shared.client.get(f"/interval.csv?{wrong}").status_code == 400, wrong


# The schema page ----------------------------------------------------------------------------------------------


def test_a_draft_from_the_header_says_what_each_column_lacks(shared):
    made = shared.ask("POST", "/api/projects", {"data": "people.csv", "name": "Fresh Start"})["project"]
    assert made == "fresh-start"
    page = shared.client.get(f"/p/{made}/schema").text
    state = json.loads(re.search(r'<script type="application/json" id="state">(.*?)</script>', page)[1])
    assert [c["name"] for c in state["report"]["columns"]] == ["id", "age", "sex", "grade"]
    assert all(c["error"] for c in state["report"]["columns"])
    assert state["report"]["share"] == 0
    # no value of the rows is on the page
    assert not re.search(r"\b87\b", page)
    shared.ask("DELETE", f"/api/projects/{made}")
    assert shared.client.get(f"/p/{made}/schema").status_code == 400


def test_each_column_is_checked_by_the_schema_reader(tmp_path):
    workspace = Workspace.of(tmp_path)
    fields = [
        {"name": "a", "type": "integer", "minimum": "3", "maximum": "1"},
        {"name": "b", "type": "string", "enum": ["x", "y"]},
        {"name": "c", "type": "boolean"},
        {"name": "d", "type": "number", "minimum": "0", "maximum": "10", "bins": {"width": "3"}},
        {"name": "e", "typ": "string"},
    ]
    rules = [{"never": {"c": "true", "d": {"below": "3"}}}, {"never": {"d": {"under": "3"}}}]
    told = schema.report(workspace, {"name": "t", "neighbours": "replace", "fields": fields, "rules": rules})
    errors = {c["name"]: c["error"] for c in told["columns"]}
    assert errors["a"] == "“from” (3) is above “to” (1)"
    assert errors["b"] == "say where a value outside the list goes: other, or missing"
    assert errors["c"] == errors["d"] == ""
    assert "did you mean 'type'" in errors["e"]
    assert told["columns"][3]["levels"] == 4
    assert told["rules"][0] == {"text": "c true and d [0, 3)", "error": ""}
    assert "unknown condition 'under'" in told["rules"][1]["error"]
    assert told["complete"] == 2
    assert told["share"] == pytest.approx(3 / 7)


@pytest.mark.parametrize(
    ("text", "enum", "labels"),
    [
        ("a\nb\n\nc", ["a", "b", "c"], {}),
        ("code,label\n0601,doctor\n0602,doctor", ["0601", "0602"], {"0601": "doctor", "0602": "doctor"}),
        ("A\tAir force\nB\tB", ["A", "B"], {"A": "Air force"}),
        ("x; y; z", ["x", "y", "z"], {}),
        ("F, M", ["F", "M"], {}),
        ("1 = men\n2 = women, all", ["1", "2"], {"1": "men", "2": "women, all"}),
        ("<=50K\n>50K", ["<=50K", ">50K"], {}),
    ],
)
def test_pasted_code_lists(shared, text, enum, labels):
    assert shared.ask("POST", "/api/codes", {"text": text}) == {"enum": enum, "labels": labels}


def test_pasted_code_lists_are_refused_where_they_are_wrong(shared):
    assert "twice" in shared.ask("POST", "/api/codes", {"text": "a\nb\na"}, expect=400)["error"]
    assert "no code" in shared.ask("POST", "/api/codes", {"text": " \n"}, expect=400)["error"]


def test_yaml_out_and_in_again_means_the_same(shared):
    project = shared.project(grant=None)
    text = shared.client.get(f"/p/{project}/schema.yaml").text
    (shared.folder / "again.yaml").write_text(text)
    assert Schema.read(shared.folder / "again.yaml") == Schema.read(shared.folder / "people.yaml")
    refused = shared.ask("POST", f"/api/p/{project}/schema/import", {"text": "a: [1"}, expect=400)
    assert "not valid YAML" in refused["error"]
    assert "fields" in shared.ask("POST", f"/api/p/{project}/schema/import", {"text": "a: 1"}, expect=400)["error"]


def test_a_schema_file_of_another_table_does_not_replace_the_draft(shared):
    """Columns that are not in the header are named; where all are, nothing is read."""
    project = shared.project(grant=None)
    address = f"/api/p/{project}/schema/import"
    other = "name: x\nunit: row\nneighbours: replace\nfields:\n- {name: height, type: boolean}\n"
    told = shared.ask("POST", address, {"text": other}, expect=400)["error"]
    assert told == "none of its columns is in people.csv; is it the schema of another table?"
    both = shared.ask("POST", address, {"text": other + "- {name: sex, type: boolean}\n"})
    assert both["foreign"] == ["height"]


@pytest.mark.parametrize(
    ("field", "says"),
    [
        ({"type": "string", "enum": None}, "its codes are missing: list them, from the code book"),
        (
            {"type": "integer", "minimum": "0"},
            "say from which value to which it goes: public bounds, not read from the data",
        ),
        ({"type": "integer", "minimum": "0", "maximum": "9,9"}, "to: '9,9' is not a whole number"),
        (
            {"type": "date", "minimum": "1900-01-01", "maximum": "2010-01-01"},
            "40,178 days are too many for one bin each; cut it into bins of width month, or year",
        ),
        (
            {"type": "integer", "minimum": "0", "maximum": "9", "bins": {"width": "0"}},
            "width of the cut must be above 0, got 0.0",
        ),
    ],
)
def test_what_a_column_lacks_is_said_without_keys_of_files(tmp_path, field, says):
    told = schema.report(Workspace.of(tmp_path), {"name": "t", "fields": [{"name": "a", **field}]})
    assert told["columns"][0]["error"] == says
    assert told["problem"] == "whose presence is protected (unit) is not chosen yet"


def test_of_two_tabs_the_second_is_told(shared):
    project = shared.project(grant=None)
    document = {"name": "people", "fields": [{"name": "age"}]}
    shared.ask("POST", f"/api/p/{project}/schema", {"revision": 2, "document": document})
    told = shared.ask("POST", f"/api/p/{project}/schema", {"revision": 2, "document": document}, expect=400)
    assert "another tab" in told["error"]
    # the Plan page beside it does not count as a change of the draft
    project = shared.project()
    shared.choose(project)
    document = {"name": "people", "fields": [{"name": "age"}]}
    assert shared.ask("POST", f"/api/p/{project}/schema", {"revision": 2, "document": document})["revision"] == 3
    assert "flat" in (shared.folder / ".dipsmith-studio" / "projects" / f"{project}.json").read_text()


def test_workspace_needs_a_folder(tmp_path):
    with pytest.raises(InputError, match="not a folder"):
        Workspace.of(tmp_path / "none")
    with pytest.raises(InputError, match="leads out"):
        Workspace.of(tmp_path, "../budget.db")


# Drawing ------------------------------------------------------------------------------------------------------


def test_budget_bar_is_in_proportion():
    from dipsmith.schema import Unit

    ledger = Ledger(":memory:")
    ledger.grant("t", PureDP(2))
    for request, amount in (("a", "0.5"), ("b", "0.25"), ("c", "0.25")):
        run = ledger.reserve(
            "t", PureDP(amount), protects=Replace(Unit()), source=None, request_id=request, method="flat"
        )
        if request == "a":
            run.read()
    ledger.cancel("c")
    bar = budget_bar.budget_bar(ledger.show("t"))
    found = re.findall(r'class="(\w+)" x="([\d.]+)" y="4" width="([\d.]+)"', bar)
    assert [(kind, float(x)) for kind, x, _ in found] == [("spent", 0.0), ("held", 250.0)]
    assert [float(w) for _, _, w in found] == [248.5, 123.5]
    assert 'aria-label="ε = 2 granted, 0.5 spent, 0.25 held, 1.25 left"' in bar
    for amount, width in ((10**12, "500.00"), (5 * 10**12, "625.00")):
        assert f'data-from="375.00" x="375.00" y="4" width="{width}"' in budget_bar.budget_bar(
            ledger.show("t"), planned=amount
        )


def test_report_fragments_need_no_inline_style_and_no_data_address():
    svg = (
        '<svg viewBox="0 0 1 1"><defs><style type="text/css">*{x: y}</style></defs><g style="fill: none; stroke: var(--ink)">'
        '<image href="data:image/png;base64,aGVsbG8=" style="image-rendering: pixelated"/></g></svg>'
    )
    page = Page("t", ("lead <b>",), (Section("One", (Figure("f", svg, "c", "a", file="figures/f"),)),))
    made = fragments.fragment(page, "/p/x/files")
    assert "style" not in made.html
    assert "data:" not in made.html
    assert made.images == (b"hello",)
    # fetched by the page's script with its secret: a plain address would bring nothing
    assert '<image data-src="/p/x/files/image-1.png"' in made.html
    assert '<a download href="/p/x/files/figures/f.csv"' in made.html
    assert '<g fill="none" stroke="var(--ink)">' in made.html
    assert "lead &lt;b&gt;" in made.html


def test_a_report_fragment_has_no_search_field_and_nothing_that_only_a_search_shows():
    listed = Table("t", ("pair",), (("a × b",), ("a × c",)), marks=("c0 c1", "c0 c2 more"))
    figure = Figure("f", "<svg/>", "c", "a", searched=("a", "b", "c"))
    made = fragments.fragment(Page("t", (), (Section("One", (figure, listed)),)), "/p/x/files").html
    assert "<select" not in made
    assert "a × b" in made
    assert "a × c" not in made


def test_every_route_has_a_name_of_its_own():
    paths = [(r.path, tuple(sorted(r.methods or ()))) for r in app.routes() if isinstance(r, Route)]
    assert len(set(paths)) == len(paths)
