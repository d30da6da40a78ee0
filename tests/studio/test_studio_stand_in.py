"""Every method on a stand-in: free, from public facts alone, and a click chooses a point."""

import time

import numpy as np
import pytest
from test_studio_browser import fresh, open_step, serious

from dipsmith.schema import Schema
from dipsmith.studio.stand_in import rehearse, simulate
from dipsmith.utility.association import chi_squared

SCHEMA = {
    "name": "t",
    "unit": "row",
    "neighbours": "replace",
    "fields": [
        {"name": "a", "type": "string", "enum": ["x", "y", "z"], "other": "z"},
        {"name": "b", "type": "integer", "minimum": 1, "maximum": 5},
    ],
    "rules": [{"never": {"a": "x", "b": 1}}],
}


def test_simulated_rows_follow_the_schema_and_hang_together():
    schema = Schema.from_dict(SCHEMA)
    codes = simulate(schema, 4000)
    assert 2000 < len(codes) <= 4000
    table = np.zeros((3, 5), dtype=np.int64)
    np.add.at(table, (codes["a"], codes["b"]), 1)
    assert table[0, 0] == 0, "rules hold"
    assert chi_squared(table)[2] > 0.05
    again = simulate(schema, 4000)
    assert np.array_equal(codes["b"], again["b"])


def test_every_method_is_tried_and_more_budget_is_better():
    asked = {"schema": SCHEMA, "choices": {"method": "flat"}, "stand_in": "", "rows": 2000}
    *_, last = rehearse({**asked, "choices": {"currency": "rho"}}, None, lambda stage, share: None)
    found = {(p["method"], p["amount"]): p["tvd"] for p in last["points"]}
    tried = {method for method, _ in found}
    assert len(tried) + len(last["refused"]) > 5
    assert np.mean([found[m, "1"] for m in tried]) < np.mean([found[m, "0.001"] for m in tried])
    assert last["symbol"] == "ρ"


@pytest.mark.slow
def test_a_click_on_a_point_chooses_it(shared, visit):
    project = shared.project()
    shared.choose(project)
    shared.ask("POST", f"/api/p/{project}/tradeoff", {"stand_in": ""})
    for _ in range(600):
        job = shared.ask("GET", f"/api/p/{project}/tradeoff")["jobs"][0]
        if job["status"] in ("finished", "failed"):
            break
        time.sleep(0.3)
    assert job["status"] == "finished", job
    page = visit(800, 900)
    fresh(shared, page)
    page.goto(f"{shared.origin}/p/{project}/plan")
    page.wait_for_selector(".tradeoff .dot")
    page.click("button[aria-label^='choose mst at ε = 3']")
    page.wait_for_selector("#is-budget:has-text('ε = 3')", state="attached")
    assert page.input_value("#amount") == "3"
    open_step(page, "method")
    assert page.is_checked("input[value=mst]")
    page.wait_for_selector(".tradeoff .name.mine:has-text('mst')")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert serious(page) == []
    page.emulate_media(media="print")
    assert page.is_visible("#trade-here td > button"), "numbers that can be pressed are printed too"
    assert page.is_hidden("#try-all")
