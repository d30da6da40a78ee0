"""Questions in the studio: approved, declined, asked again; and files that mean harm."""

import os
import signal
import time
from dataclasses import replace

import pytest
from test_studio_browser import fresh, serious
from test_studio_jobs import pid_of

from dipsmith.confirm.answer import verify_answer
from dipsmith.confirm.question import Inquiry
from dipsmith.privacy.budget import PureDP
from dipsmith.privacy.ledger import Ledger
from dipsmith.studio.jobs import STARTING
from dipsmith.synthesis.writing import digest

FIRST = Inquiry(
    "people", "0" * 64, "grade ~ sex", "sex[F] < 9", PureDP("0.5"), parts=10, reference=(("sex", "M"),), by="Ann"
)
SECOND = replace(FIRST, claim="sex[F] > 3", why="chapter 3")


def put(folder, name, content):
    place = folder / "questions"
    place.mkdir(exist_ok=True)
    (place / name).write_bytes(content if isinstance(content, bytes) else content.to_yaml().encode())


def key(question):
    return question.request.removeprefix("question ")


def until(running, project, holds):
    """The newest attempt at a question, once something holds of it."""
    end = time.monotonic() + 240
    while time.monotonic() < end:
        job = running.ask("GET", f"/api/p/{project}/questions")["jobs"][0]
        if holds(job):
            return job
        time.sleep(0.1)
    raise AssertionError(job)


def fits(page):
    return page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.slow
def test_a_question_is_approved_another_declined_and_asked_again_is_free(studio, people, visit, tmp_path):
    people(tmp_path)
    running = studio("--grace", "0")
    project = running.project(grant="2")
    running.choose(project)
    job = running.start(project, "a" * 32)
    running.wait(project, job, "finished")
    release = digest(next((tmp_path / "releases").iterdir()) / "card.json")
    first, second = replace(FIRST, release=release), replace(SECOND, release=release)
    put(tmp_path, "second.yaml", second)
    (tmp_path / "sent.yaml").write_text(first.to_yaml())
    page = visit(400, 800)
    fresh(running, page)
    page.goto(f"{running.origin}/p/{project}/questions")
    page.set_input_files("#file", str(tmp_path / "sent.yaml"))
    page.click("text=Take it in")
    page.wait_for_selector(
        f"[data-question='{key(first)}'] .prospect:has-text('if the truth is what the release says')"
    )
    asked = page.inner_text(f"[data-question='{key(first)}']")
    assert "Ann" in asked
    assert "ε = 0.5 of the ε = 2 granted" in asked
    assert "ε = 1 remains" in asked
    assert page.inner_text("#left") == "ε = 1.5 of 2 is left"
    assert "made with this ledger" in asked
    assert fits(page)
    assert serious(page) == []

    # declined: not without a reason, which is said in place
    other = page.locator(f"[data-question='{key(second)}']")
    other.locator("text=Decline").last.click()
    page.wait_for_selector(".question .said:visible")
    assert "say why" in other.locator(".said").inner_text()
    other.locator(".why").fill("one question a week")
    other.locator("button:has-text('Decline')").click()
    page.wait_for_selector("#declined:has-text('one question a week')")
    ledger = Ledger(tmp_path / "budget.db")
    assert ledger.declined(second.request).why == "one question a week"
    assert ledger.show("people").spent == 0.5
    running.ask("POST", f"/api/p/{project}/questions/{key(second)}/approve", {}, expect=400)

    page.emulate_media(color_scheme="dark")
    page.check(".sure")
    page.click("text=Spend ε = 0.5 and answer")
    page.wait_for_url(f"**/questions/{key(first)}", timeout=120_000)
    page.wait_for_selector(".report figure svg")
    assert page.inner_text("h1").startswith("Answer: ")
    assert fits(page)
    assert serious(page) == []
    run = ledger.run(first.request)
    assert (run.state, ledger.show("people").spent) == ("finished", 1.0)
    assert verify_answer(run.path, ledger).ledger

    # asked again, by somebody else: the stored answer, and no charge
    again = replace(first, by="Bob")
    running.ask("POST", f"/api/p/{project}/questions", {"text": again.to_yaml()})
    told = running.ask("POST", f"/api/p/{project}/questions/{key(again)}/approve", {})
    assert told == {"answered": key(first)}
    assert ledger.show("people").spent == 1.0
    page.goto(f"{running.origin}/p/{project}/questions")
    assert page.locator(".question").count() == 0
    assert page.locator("#answered a").get_attribute("href") == f"/p/{project}/questions/{key(first)}"
    page.goto(f"{running.origin}/p/{project}/ledger")
    assert page.locator(f"a[href='/p/{project}/questions/{key(first)}']").count() == 1
    # an answer is no release
    assert running.client.get(f"/p/{project}/release").status_code == 200
    for name, status in (("answer.json", 200), ("..%2fbudget.db", 404), ("other", 400)):
        assert running.client.get(f"/p/{project}/questions/{key(first)}/files/{name}").status_code == status
    # an answer that was changed is not shown
    (tmp_path / "answers").joinpath(run.path, "answer.json").write_text("{}")
    assert running.client.get(f"/p/{project}/questions/{key(first)}").status_code == 400
    assert "not the answer on record" in running.client.get(f"/p/{project}/questions").text


HOSTILE = "<img src=x onerror=alert(1)>"


def test_hostile_question_files_are_text_and_charge_nothing(shared, visit, tmp_path):
    """Markup, control characters, aliases, links that lead out, and more than is left: shown or refused, nothing more."""
    folder, project = shared.folder, shared.project()
    before = Ledger(folder / "budget.db").show("people").spent
    left = Ledger(folder / "budget.db").show("people").remaining
    dear = replace(
        FIRST, by=f"{HOSTILE}\u202e\x1b[31m", why="</script><script>alert(1)</script>", budget=PureDP(left + 1)
    )
    unknown = replace(FIRST, formula="secret ~ sex")
    put(folder, "dear.yaml", dear)
    large = replace(FIRST, formula="grade ~ sex + " + " + ".join(f"I(age ** {k})" for k in range(2, 260)))
    put(folder, "large.yaml", large)
    put(folder, "unknown.yaml", unknown)
    put(folder, f"{HOSTILE.replace('/', '')}\x1b.json", b'{"format": "dipsmith question 1", "\x1b<b>x": 1}')
    put(folder, "laughs.yaml", b"a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n")
    put(folder, "bytes.yaml", b"\xff\xfe\x00")
    outside = tmp_path / "outside.yaml"
    outside.write_text("a private line: 4711\n")
    (folder / "questions" / "link.yaml").symlink_to(outside)
    page = visit(400, 800)
    fresh(shared, page)
    page.goto(f"{shared.origin}/p/{project}/questions")
    assert page.locator("main img, main b script, main script:not([type='application/json']), [onerror]").count() == 0
    shown = page.inner_text("main")
    assert HOSTILE in shown
    assert not any(c in page.content() for c in "\u202e\x1b")
    assert "4711" not in page.content()
    assert str(folder) not in page.content()
    assert page.locator("#unreadable li").count() == 4
    assert "leads out of the workspace" in shown
    assert page.locator(f"[data-question='{key(dear)}'] .sure").is_disabled()
    assert "secret" in page.inner_text(f"[data-question='{key(unknown)}'] .verdict.error")
    assert fits(page)
    assert serious(page) == []
    # no model of a stranger's that is large is fitted while the page waits
    page.wait_for_selector(f"[data-question='{key(large)}'] .prospect:has-text('coefficients')")
    # the page's buttons aside: the ledger and the reader refuse
    for question, status in ((dear, 409), (unknown, 400)):
        shared.ask("POST", f"/api/p/{project}/questions/{key(question)}/approve", {}, expect=status)
    for text in ("", "a: 1", "x" * 1_000_001, None, FIRST.to_yaml() + "run: rm\n"):
        shared.ask("POST", f"/api/p/{project}/questions", {"text": text}, expect=400)
    shared.ask("POST", f"/api/p/{project}/questions/{'0' * 32}/approve", {}, expect=400)
    after = Ledger(folder / "budget.db").show("people")
    assert after.spent == before
    assert not [run for run in after.runs if run.id.startswith("question")]


@pytest.mark.slow
def test_an_approval_is_charged_once_cancelled_and_resumed(studio, people, tmp_path):
    """Two approvals are one charge; cancelled, everything is given back; killed before it reads, it goes on."""
    people(tmp_path)
    running = studio("--grace", "30")
    project = running.project(grant="0.5")
    put(tmp_path, "first.yaml", FIRST)
    approve = f"/api/p/{project}/questions/{key(FIRST)}/approve"
    jobs = {running.ask("POST", approve, {})["job"] for _ in range(2)}
    ledger = Ledger(tmp_path / "budget.db")
    assert (len(jobs), ledger.run(FIRST.request).state, ledger.show("people").spent) == (1, "reserved", 0.5)
    running.ask("POST", f"/api/p/{project}/questions/{key(FIRST)}/decline", {"why": "late"}, expect=409)
    running.ask("POST", f"/api/jobs/{jobs.pop()}/cancel", {})
    assert ledger.show("people").spent == 0
    # a file without the columns: refused before anything is charged
    rows = (tmp_path / "people.csv").read_text()
    (tmp_path / "people.csv").write_text("id,age\n1,20\n")
    assert "grade" in running.ask("POST", approve, {}, expect=400)["error"]
    assert ledger.show("people").spent == 0
    (tmp_path / "people.csv").write_text(rows)
    # its process killed before it read: it goes on without a new charge, and is answered once
    again = running.ask("POST", approve, {})["job"]
    until(running, project, lambda job: job["stage"] != STARTING)
    os.kill(pid_of(again), signal.SIGKILL)
    assert until(running, project, lambda job: job["status"] == "stopped")["can_resume"]
    assert running.ask("POST", approve, {})["job"] == again
    running.ask("POST", f"/api/jobs/{again}/resume", {})
    assert until(running, project, lambda job: job["status"] in ("finished", "failed"))["status"] == "finished"
    assert ledger.show("people").spent == 0.5
    assert verify_answer(ledger.run(FIRST.request).path, ledger).ledger
