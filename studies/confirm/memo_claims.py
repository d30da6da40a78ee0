"""The memos' own claims, asked end to end on the simulated personnel records.

The pay-disparity memos say that women, and people of each of the races A to D, earn less than men and people of race E with the
same age, education, year, agency and occupation, and that these gaps narrowed from 1988 to 2011. Here a steward releases
synthetic sex and race; a researcher, who has only that release, asks for each claim; the steward answers. In the simulated
records every claim is true, and by how much is known.

    python -m studies.confirm            # simulated questions, then these claims, into docs/studies/confirm.md

Seeds are fixed so that the page can be made again, which makes these answers NOT PRIVATE; the rows are simulated.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import dipsmith as ds
from dipsmith.confirm.answer import AnswerCard, verify_answer
from dipsmith.confirm.ask import ask, prospect
from dipsmith.confirm.confirm import approve
from dipsmith.examples import personnel

FORMULA = "log(pay) ~ sex + race + age + I(age**2) + education | year + agency + occupation"
YEARLY = "log(pay) ~ sex + race + age + I(age**2) + education | agency + occupation"
REFERENCE = {"sex": "M", "race": "E"}
CLAIMS = (
    ("sex[F] < 0", FORMULA, "direct"),
    ("sex[F] < 0", FORMULA, "poll"),
    ("-0.09 < sex[F] < -0.04", FORMULA, "direct"),
    *((f"race[{race}] < 0", FORMULA, "poll") for race in "ABCD"),
    ("trend of sex[F] over year > 0", YEARLY, "poll"),
    *((f"trend of race[{race}] over year > 0", YEARLY, "poll") for race in "ABCD"),
)
PRICE = ds.PureDP("0.25")


@dataclass(frozen=True)
class AskedClaim:
    """A claim, what was expected of it, and what was answered."""

    claim: str
    measure: str
    estimate: float | None
    clear: float | None
    answer: AnswerCard


def ask_all(folder: Path, rows_per_year: int = 25_000) -> Iterator[AskedClaim]:
    """Release, ask and answer, in two folders: the researcher's and the steward's."""
    steward, researcher = folder / "steward", folder / "researcher"
    researcher.mkdir()
    personnel.write(steward, rows_per_year, csv=False, seed=11)
    schema, rows = ds.Schema.read(steward / "personnel.yaml"), steward / "personnel.parquet"
    ledger = ds.Ledger(steward / "budget.db")
    ledger.grant(schema.name, ds.PureDP(6), by="data office", why="the memos' claims")
    method = ds.LogLinear(targets=["sex", "race"])
    release = ds.synthesize(rows, schema, method, budget=ds.PureDP("0.75"), ledger=ledger, testing=True, noise_seed=11)
    release.save(researcher / "release")
    for number, (claim, formula, measure) in enumerate(CLAIMS, start=1):
        # The researcher has the release, and nothing else.
        known = ds.Release.load(researcher / "release")
        question = ask(known, formula, claim, budget=PRICE, measure=measure, reference=REFERENCE, by="a researcher")  # type: ignore[arg-type]
        expected = prospect(known, question)
        # The steward answers, and sends the folder back.
        out = researcher / f"answer-{number}"
        found = approve(question, rows, schema, ledger=ledger, out=out, testing=True, noise_seed=number)
        verify_answer(out, ledger)
        clear = None if expected.expected is None else expected.expected.clear
        yield AskedClaim(claim, measure, expected.estimate, clear, found.answer)
    spent = ledger.show(schema.name).spent
    again = approve(question, rows, schema, ledger=ledger, out=folder / "unused")
    assert again.before
    assert ledger.show(schema.name).spent == spent
    assert replace(again.answer, files={}).question == question
