"""`dipsmith ask`: a question about the confidential rows, written by someone who has only the release."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from dipsmith.cli.options import Delta, Epsilon, Json, References, Rho, budget_of, examples, references_of
from dipsmith.cli.terminal import emit, say
from dipsmith.errors import UsageError
from dipsmith.report.commands import command

if TYPE_CHECKING:
    from dipsmith.confirm.ask import Prospect
    from dipsmith.confirm.question import Inquiry

EXAMPLES = examples(
    "dipsmith ask release/ --formula 'log(pay) ~ sex + age | agency' --claim 'sex[F] < 0' --epsilon 0.25 --out question.yaml",
    "dipsmith ask release/ --formula 'log(pay) ~ sex + age' --claim '-0.1 < sex[F] < 0' --epsilon 1 --power",
    "dipsmith ask release/ --formula 'log(pay) ~ sex' --claim 'trend of sex[F] over year > 0' --epsilon 1 --out question.yaml",
)


def ask(
    release: Annotated[Path, Argument(metavar="RELEASE", help="The folder of a release.")],
    formula: Annotated[str, Option("--formula", help='"response ~ terms | fixed effects".')],
    claim: Annotated[str, Option("--claim", help='What is claimed, such as "sex[F] < 0".')],
    epsilon: Epsilon = None,
    rho: Rho = None,
    delta: Delta = None,
    measure: Annotated[
        str | None, Option("--measure", help="poll, direct or counts; the best that there is when omitted.")
    ] = None,
    parts: Annotated[int | None, Option("--parts", help="Parts of the poll; proposed when omitted.")] = None,
    family: Annotated[str, Option("--family", help="auto, ols or logistic.")] = "auto",
    reference: References = None,
    by: Annotated[str, Option("--by", help="Who asks.")] = "",
    why: Annotated[str, Option("--why", help="Why it is asked.")] = "",
    power: Annotated[
        bool, Option("--power", help="Show how likely a clear answer is, and what would do better.")
    ] = False,
    out: Annotated[Path | None, Option("--out", help="The question file to write; must not exist.")] = None,
    json: Json = False,
) -> None:
    """Ask whether a finding of a release holds in the confidential rows; the steward answers with `dipsmith confirm`."""
    from dipsmith.confirm.ask import ask as write
    from dipsmith.confirm.ask import prospect
    from dipsmith.synthesis.exit import Exit
    from dipsmith.synthesis.release import Release
    from dipsmith.synthesis.writing import whole_file

    if out is None and not power:
        raise UsageError("give --out for the question file, or --power to see what can be expected")
    chosen: Any = family
    how: Any = "poll" if measure is None and parts is not None else measure
    loaded = Release.load(release)
    question = write(
        loaded,
        formula,
        claim,
        budget=budget_of(epsilon, rho, delta),
        measure=how,
        parts=parts,
        family=chosen,
        reference=references_of(reference),
        by=by,
        why=why,
    )
    expected = prospect(loaded, question) if power and question.measure != "counts" else None
    if out is not None:
        with whole_file(out) as work:
            Exit(work.parent).text(work.name, question.to_yaml())
    if json:
        facts = {**question.facts(), "digest": question.digest, "out": None if out is None else str(out)}
        emit(facts if expected is None else {**facts, "power": expected.to_dict()})
        return
    say(f"Question: {question}")
    say(f"Price: {question.budget}, by {question.means}; digest {question.digest[:16]}…")
    for line in [] if expected is None else _prospect_lines(expected, question):
        say(line)
    if out is not None:
        data = "--data FILE --schema SCHEMA --ledger LEDGER --out answer/"
        say(f"Written to {out} — send it to the steward, who answers with: {command('confirm', out)} {data}")


def _prospect_lines(expected: Prospect, question: Inquiry) -> list[str]:
    """What can be expected, in a few lines."""
    if expected.expected is None:
        return ["No forecast is possible: the release has no standard error for this claim."]
    found = expected.expected
    lines = [
        f"If the truth is what the release says ({expected.estimate:.4g}, standard error {expected.std_error:.2g}): "
        f"confirmed with probability {found.confirmed:.2f}, contradicted {found.contradicted:.2f}, "
        f"cannot tell {found.undecided:.2f}."
    ]
    if expected.offers:
        told = ", ".join(f"{m}: {p:.2f}" for m, p in expected.offers)
        lines.append(f"A clear answer by the number of parts: {told}.")
    if expected.parts is not None and expected.parts != question.parts:
        lines.append(f"Proposed: --parts {expected.parts}.")
    if expected.enough is not None:
        lines.append(f"A clear answer with probability 0.8 or more needs about {expected.enough}.")
    return lines
