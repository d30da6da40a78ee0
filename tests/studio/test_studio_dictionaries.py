"""Data dictionaries on the Schema page: what a code book says fills what is not complete, and no row is read."""

import json

import pytest
from test_studio_browser import fresh, serious

HEADER = "Age,sex,level,pay,note\n40,F,2,100,x\n"
BOOK = """name,label,type,values
age,Age in years,integer,0-120
sex,Sex,string,"F=women; M=men"
level,Level of education,integer,1; 2; 3
pay,Pay in a month,number,
height,Height,integer,0-250
"""
COMPLETE = {"name": "level", "role": "private", "type": "integer", "minimum": 0, "maximum": 9}


def begin(here) -> str:
    (here.folder / "told.csv").write_text(HEADER)
    project = here.ask("POST", "/api/projects", {"data": "told.csv"})["project"]
    fields = [COMPLETE if n == "level" else {"name": n, "role": "private"} for n in ("Age", "sex", "level", "pay")]
    document = {"name": "told", "unit": "row", "neighbours": "replace", "fields": fields}
    here.ask("POST", f"/api/p/{project}/schema", {"revision": 1, "document": document})
    return project


def send(here, project, name, content):
    return here.client.put(f"/api/upload/{project}/dictionary/{name}", content=content, headers={"Origin": here.origin})


def test_a_dictionary_fills_what_is_open_in_a_browser(shared, visit):
    project = begin(shared)
    page = visit(800, 800)
    fresh(shared, page)
    page.goto(f"{shared.origin}/p/{project}/schema")
    page.set_input_files("#yaml-file", {"name": "book.csv", "mimeType": "text/csv", "buffer": BOOK.encode()})
    page.wait_for_selector("#says:has-text('book.csv describes 3 columns; no row was read. 1 column is left to you.')")
    assert "Values of this draft are from book.csv" in page.inner_text("#origin")
    assert serious(page) == []
    page.reload()
    page.wait_for_selector("tr[data-name=Age]:has-text('0 to 120')")
    assert page.locator("tr[data-name]").count() == 4, "a column that was left out stays out"
    assert page.locator("tr[data-name=level]").inner_text().count("0 to 9"), "what was written stays"
    page.click("tr[data-name=pay] td:nth-child(2)")
    assert page.input_value("#f-type") == "number"
    assert page.input_value("#f-title") == "Pay in a month"
    assert not list((shared.folder / ".dipsmith-studio" / "dictionaries").iterdir()), "the file is not kept"


def test_other_kinds_are_read_too(shared):
    project = begin(shared)
    table = {"fields": [{"name": "sex", "type": "string", "constraints": {"enum": ["F", "M"]}}]}
    found = send(shared, project, "table.json", json.dumps(table)).json()
    assert found["filled"] == ["sex"]
    sex = next(f for f in found["document"]["fields"] if f["name"] == "sex")
    assert (sex["enum"], found["document"]["unit"]) == (["F", "M"], "row")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("book.doc", b"x", "book.doc: not a kind of dictionary that is known"),
        ("book.csv", b"name,label\nheight,Height\n", "none of those of the table"),
        ("book.sav", b"nothing", "book.sav"),
        ("book.csv", b"", "book.csv"),
    ],
)
def test_what_is_no_dictionary_is_refused_by_its_name(shared, name, content, words):
    refused = send(shared, begin(shared), name, content)
    assert refused.status_code == 400
    said = refused.json()["error"]
    assert words in said
    assert "--" not in said
    assert ".dipsmith" not in said
