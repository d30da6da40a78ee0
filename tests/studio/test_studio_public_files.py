"""Three files in the studio: one to grow on, one to label, with their columns mapped; wrong ones are said for free."""

import re
import uuid
from pathlib import Path
from shutil import copyfile

import pyarrow.csv as csv
import pytest
import yaml
from test_studio_browser import fresh, open_step, serious

from dipsmith.errors import InputError
from dipsmith.examples import personnel
from dipsmith.privacy.budget import PureDP
from dipsmith.privacy.ledger import Ledger
from dipsmith.privacy.protection import Replace
from dipsmith.schema import Unit
from dipsmith.sources import source
from dipsmith.sources.fingerprint import fingerprint
from dipsmith.studio.schema import report
from dipsmith.studio.workspace import Workspace
from dipsmith.synthesis.release import Release

MAP = ["pay=basic_pay*1.08"]


@pytest.fixture(scope="module")
def three(rooms):
    """SD and BD beside the records: both call pay otherwise, and one has ratios by agency."""
    for name, seed, rows in (("sd.csv", 2, 200), ("bd.csv", 3, 60)):
        table = personnel.simulate(rows, seed=seed)[0].drop_columns(["employee_id", "sex", "race"])
        pay = (table["pay"].to_numpy() / 1.08).round(2)
        csv.write_csv(table.set_column(table.column_names.index("pay"), "basic_pay", [pay]), str(rooms.folder / name))
    lines = ["agency,ratio", *(f"{code},1.08" for code in personnel.AGENCIES)]
    (rooms.folder / "ratios.csv").write_text("\n".join(lines) + "\n")
    return rooms


def test_a_run_grows_on_one_file_and_labels_another(three):
    project = three.project("personnel.csv", (three.folder / "personnel.yaml").read_text(), "5")
    files = {
        "grow": "sd.csv",
        "grow_map": MAP,
        "grow_epsilon": "0.25",
        "onto": "bd.csv",
        "onto_map": ["pay=basic_pay*ratio"],
        "factors": "ratios.csv",
    }
    found = three.choose(project, method="forest", amount="1", rows=None, files=files)
    assert found["files"] == ""
    for words in ("--public sd.csv", "--public-map 'pay=basic_pay*1.08'", "--public-epsilon 0.25", "--onto bd.csv"):
        assert words in found["commands"]["run"]
    assert sum(stage["cost"] for stage in found["stages"]) == pytest.approx(0.75)  # the rest is what sd.csv cost
    page = three.client.get(f"/p/{project}/run").text
    assert "<dt>Public table</dt><dd>sd.csv" in page
    assert "those of bd.csv" in page
    job = three.start(project, uuid.uuid4().hex)
    done = three.wait(project, job, "finished", "failed")
    assert done["status"] == "finished", done
    release = Release.load(next((three.folder / "releases").glob(f"{project}-*")))
    assert release.tables[0].num_rows == 240
    assert any("the file whose rows were labelled is public" in said for said in release.card.steward_says)
    assert any("ε = 0.25" in said for said in release.card.steward_says)
    kept = yaml.safe_load(three.client.get(f"/p/{project}/choices.yaml").text)
    assert kept["files"]["onto"] == "bd.csv"
    script = three.client.get(f"/p/{project}/script.py").text
    assert "ds.map_columns('bd.csv', {'pay': 'basic_pay*ratio'}, 'ratios.csv')" in script
    compile(script, "script", "exec")


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({"grow": "sd.csv"}, "pay"),
        ({"onto": "bd.csv"}, "pay"),
        ({"onto": "bd.csv", "onto_map": ["pay=wages"]}, "'wages'"),
        ({"onto": "../bd.csv"}, "bd.csv"),
    ],
)
def test_a_file_that_cannot_be_used_is_said_and_refused_for_free(three, files, why):
    project = three.project("personnel.csv", (three.folder / "personnel.yaml").read_text(), "1")
    before = three.ask("GET", f"/api/p/{project}/jobs")["left"]
    assert why in three.choose(project, method="forest", amount="0.5", rows=None, files=files)["files"]
    three.ask("POST", f"/api/p/{project}/run", {"request": uuid.uuid4().hex}, expect=400)
    assert three.ask("GET", f"/api/p/{project}/jobs")["left"] == before


NAMES = ["people.csv", "peo*.csv", "aside/hard.csv", "aside/soft.csv", "aside/copy.csv", "aside"]


@pytest.fixture
def confidential(shared):
    """A project whose file has a link, a second name and a copy in another folder, and what the ledger says before."""
    real, aside = shared.folder / "people.csv", shared.folder / "aside"
    aside.mkdir(exist_ok=True)
    for name, make in (
        ("hard", Path.hardlink_to),
        ("soft", Path.symlink_to),
        ("copy", lambda to, of: copyfile(of, to)),
    ):
        (aside / f"{name}.csv").unlink(missing_ok=True)
        make(aside / f"{name}.csv", real)
    project = shared.project()
    before = Ledger(shared.folder / "budget.db").show("people")
    yield shared, project
    after = Ledger(shared.folder / "budget.db").show("people")
    assert (after.spent, after.looks) == (before.spent, before.looks)


@pytest.mark.parametrize("name", NAMES)
def test_the_confidential_file_is_public_to_no_page(confidential, name):
    """Neither by its name, nor by a pattern, a link, a copy or a folder: not as a stand-in, on the plan or as a code list."""
    running, project = confidential
    why = "choose one that is public|not a folder or a pattern"
    headers = {"Origin": running.origin}
    refused = running.client.post(f"/api/p/{project}/tradeoff", json={"stand_in": name}, headers=headers)
    assert refused.status_code == 400
    assert re.search(why, refused.json()["error"])
    for files in ({"grow": name}, {"onto": name}, {"grow": "bd.csv", "grow_map": ["a=b*c"], "factors": name}):
        (running.folder / "bd.csv").write_text("age,sex,grade\n30,F,1\n")
        told = running.choose(project, method="forest", files=files)
        assert re.search(why, told["files"]), files
        running.ask("POST", f"/api/p/{project}/run", {"request": uuid.uuid4().hex}, expect=400)
    listed = {"name": "age", "type": "string", "enum": ["a"], "other": "a"}
    for field in (
        {"enum": name},
        {"collapse": {"file": name}},
        {"collapse": {"rare": 5, "counts": name}},
        {"hierarchy": {"all": 1}, "totals": {"all": name}},
    ):
        (said,) = report(Workspace.of(running.folder), {"fields": [listed | field]})["columns"]
        assert re.search(why, said["error"]), field
    rule = {"determines": {"age": "sex"}, "map": name}
    (said,) = report(Workspace.of(running.folder), {"fields": [listed, {**listed, "name": "sex"}], "rules": [rule]})[
        "rules"
    ]
    assert re.search(why, said["error"])


def test_a_file_that_the_ledger_was_charged_for_is_public_to_no_page(tmp_path):
    """Without a project: by the command line, after a draft was removed, as the members of households, in another ledger."""
    workspace = Workspace.of(tmp_path)
    for name in ("people", "members", "other", "free"):
        (tmp_path / f"{name}.csv").write_text(f"code,of\nalice,{name}\n")
    marks = {n: fingerprint(source(tmp_path / f"{n}.csv")) for n in ("people", "members", "other")}
    project = workspace.create("x", "people.csv", ("code", "of"), {})
    workspace.remove(project.id)
    workspace.create("y", "gone.csv", ("code", "of"), {}, ledger="own.db")
    for ledger, name, also in ((workspace.ledger, "people", ["members"]), (Ledger(tmp_path / "own.db"), "other", [])):
        ledger.grant(name, PureDP(1))
        members = [marks[n] for n in also]
        what = {"protects": Replace(Unit()), "method": "flat"}
        ledger.reserve(name, PureDP(1), source=marks[name], also=members, **what)
    assert workspace.public_file("free.csv") == tmp_path / "free.csv"
    for name, known in (("people", "people"), ("members", "people"), ("other", "other")):
        with pytest.raises(InputError, match=f"confidential file of '{known}'; choose one that is public"):
            workspace.public_file(f"{name}.csv")


@pytest.mark.parametrize("value", ["alice-HIV", "O'Neil", "a' b", "'", "it's 'so'"])
def test_what_is_wrong_with_a_code_list_is_said_without_its_values_and_folder(tmp_path, value):
    (tmp_path / "list.csv").write_text(f"code\n{value}\nok\n{value}\n")
    (tmp_path / "list.bin").write_bytes(b"code\n\xff\n")
    (tmp_path / "list.txt").write_text("of\nx\n")

    def said(**field):
        return report(Workspace.of(tmp_path), {"fields": [{"name": "job", "type": "string", **field}]})["columns"][0]

    assert said(enum="list.csv")["error"] == "value '…' is listed twice; list it once"
    assert said(enum="list.bin")["error"] == "list.bin: this code list is not UTF-8 text; save it as UTF-8"
    assert said(enum="list.txt")["error"].startswith("list.txt: the first line must name a column 'code'")
    assert said(enum=["a", "a"])["error"] == "value 'a' is listed twice; list it once"


@pytest.mark.parametrize("files", [7, {"grow": 7}, {"grow_map": "a=b"}, {"onto_map": ["a\nb"]}])
def test_files_that_no_page_sends_are_refused(shared, files):
    body = {"choices": {"method": "flat", "files": files}}
    shared.ask("POST", f"/api/p/{shared.project()}/plan", body, expect=400)


def test_files_are_chosen_in_a_browser(three, visit):
    project = three.project("personnel.csv", (three.folder / "personnel.yaml").read_text(), "1")
    three.choose(project, method="forest", amount="0.5", rows=None)
    page = visit()
    fresh(three, page)
    page.goto(f"{three.origin}/p/{project}/plan")
    page.wait_for_selector("#stages td")
    open_step(page, "files")
    assert page.is_hidden("#onto-map")
    page.select_option("#onto", "bd.csv")
    page.wait_for_selector("#files-says:has-text('pay')")
    page.fill("#onto-map", MAP[0])
    page.wait_for_selector("#files-says:empty", state="attached")
    assert serious(page) == []
    page.set_viewport_size({"width": 400, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    page.click("text=Go on to the run")
    page.wait_for_selector("dd:has-text('those of bd.csv')")
