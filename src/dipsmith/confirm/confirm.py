"""The steward's side: a question is checked, charged, answered once, and written.

Nothing private is read before the whole price is reserved in the ledger. The request id is the question's digest, and an id
draws once: the same question gets the stored answer, free of charge, and one that was killed after it had begun to read is
never answered (ask again with another `round`, at a new charge).

Guarantee: the folder that is written satisfies the question's budget for the schema's unit and neighbours; nothing that can
be seen (bytes, messages, exit code) depends on more than the noisy numbers (``docs/proofs/confirm.md``).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from dipsmith.confirm.answer import AnswerCard, MeasuredClaim, answered_before
from dipsmith.confirm.claim import Claim, in_words
from dipsmith.confirm.design import VoteDesign
from dipsmith.confirm.direct import DirectQuestion
from dipsmith.confirm.predictions import Predictor, judge_predictions
from dipsmith.confirm.question import Inquiry
from dipsmith.confirm.verdict import Posterior, in_three_digits, posterior
from dipsmith.confirm.votes import vote_of
from dipsmith.counting.count import BatchRows
from dipsmith.errors import BudgetError, UsageError
from dipsmith.privacy.budget import PureDP, rho_to_approx
from dipsmith.privacy.calibration import noise_of, scale_of
from dipsmith.privacy.curator import Curator, Progress
from dipsmith.privacy.events import Rehearsal
from dipsmith.privacy.ledger import AlreadyReleased, Ledger, Reservation
from dipsmith.privacy.protection import protection_of
from dipsmith.privacy.randomness import Stream
from dipsmith.privacy.signature import public_of, read_key, sign_answer
from dipsmith.privacy.value_question import Classification, Poll, poll_sensitivity
from dipsmith.schema import Schema
from dipsmith.sources import Source, source
from dipsmith.sources.fetched_rows import FetchedRows
from dipsmith.sources.fingerprint import fingerprint
from dipsmith.synthesis.planned import PublicReading
from dipsmith.synthesis.public import require_apart
from dipsmith.synthesis.writing import require_absent
from dipsmith.version import VERSION

METHOD = "confirm"
DELTA = 1e-9


@dataclass(frozen=True, eq=False)
class Confirmation:
    """An answer, its folder, and whether it was there before (then nothing was read or charged)."""

    answer: AnswerCard
    folder: Path
    before: bool


def approve(
    question: Inquiry | str | Path,
    data: Any,
    schema: Schema,
    *,
    ledger: Ledger | str | Path,
    out: str | Path,
    by: str | None = None,
    key: str | Path | None = None,
    testing: bool = False,
    noise_seed: int | None = None,
    progress: Progress | None = None,
) -> Confirmation:
    """Answer a question about confidential rows, and charge the ledger.

    Parameters
    ----------
    question, data, schema
        A question or its file; the confidential rows, any source; and their schema.
    ledger, out
        Where the price is charged; and the folder to write, which must not exist. The same question, asked before, is
        answered from where its answer lies.
    by, key
        Who approves it, the OS user when omitted; and the file of the private key that signs the answer, when omitted the one
        beside the ledger, which is made when it is first needed.
    testing, noise_seed
        A noise seed is accepted only with ``testing=True``, and the answer says NOT PRIVATE.

    Privacy
    -------
    Reads `data` only after the whole budget is durably reserved, except for the syntax pass, a digest of its bytes and, for a
    direct estimate under `label`, its public columns.
    """
    asked = Inquiry.read(question) if isinstance(question, str | Path) else question
    if noise_seed is not None and not testing:
        raise UsageError("a noise seed voids the guarantee and is accepted only with testing=True")
    measure = prepare(asked, schema)
    own_key = None if key is None else read_key(key)
    book = Ledger(ledger) if isinstance(ledger, str | Path) else ledger
    known = book.run(asked.request)
    if known is None or known.state != "finished":
        require_absent(Path(out))
    private = FetchedRows.of(source(data), schema.columns, schema.public)
    private.check(schema.columns)
    require_apart(schema, [private], book)
    ask = measure(private)
    stream = Stream.of(noise_seed)
    reading = None if progress is None else partial(progress, "reading")
    # Values are read row by row: an engine hands its rows over, in batches.
    rows = BatchRows(private, schema, stream.child("key").new_seed("key"), progress=reading)
    with ExitStack() as settling:
        try:
            reservation = book.reserve(
                schema.name,
                asked.budget,
                protects=protection_of(schema),
                source=fingerprint(private),
                request_id=asked.request,
                method=METHOD,
                by=by,
            )
        except AlreadyReleased as earlier:
            answer, folder = answered_before(earlier)
            return Confirmation(answer, folder, before=True)
        except BudgetError as error:
            if known is None:
                raise
            raise BudgetError(f"{error} (of a question: write `round: {asked.round + 1}` into its file)") from None
        settling.enter_context(reservation)
        signing = book.signing_key() if own_key is None else own_key
        reservation.read()
        curator = Curator(rows, asked.budget, stream=stream, journal=reservation, progress=progress)
        found = ask(curator)
        answer = replace(answer_of(asked, schema, found, reservation, testing=testing), signer=public_of(signing))
        folder, stamped = answer.save(out, partial(sign_answer, signing, book.id, asked.request))
        reservation.finish(stamped, folder.absolute())
    return Confirmation(answer, folder, before=False)


def rehearse(question: Inquiry, data: Any, schema: Schema, *, seed: int) -> AnswerCard:
    """Answer a question about rows that need no protection, without a ledger; for studies, tutorials and tests."""
    private, stream = FetchedRows.of(source(data), schema.columns, schema.public), Stream.of(seed)
    rows = BatchRows(private, schema, stream.child("key").new_seed("key"))
    curator = Curator(rows, question.budget, stream=stream, journal=Rehearsal())
    return answer_of(question, schema, prepare(question, schema)(private)(curator), None, testing=True)


Measure = Callable[[Curator], MeasuredClaim]


def prepare(question: Inquiry, schema: Schema) -> Callable[[Source], Measure]:
    """How a question will be measured; refuses, before anything is spent, what cannot be answered under this schema.

    What is returned takes the rows' source, of which it reads public columns at most, and may refuse as well.
    """
    if question.dataset != schema.name:
        raise UsageError(f"the question is about '{question.dataset}', the schema describes '{schema.name}'")
    design = VoteDesign.of(question.formula, schema, question.family, dict(question.reference))
    claim: Any = question.parsed_claim
    if question.measure == "counts":
        predictor = Predictor.of(question, design)
        return lambda _: partial(_predict, question, claim, predictor)
    if question.measure == "direct":
        direct = DirectQuestion.of(question.formula, claim, design, dict(question.reference))
        return lambda private: partial(
            _estimate, question, claim, direct, direct.read(schema, private, question.budget)
        )
    parts = question.parts or 0
    poll = Poll(vote_of(claim, design, parts, question.known), parts)
    return lambda _: partial(_poll, question, claim, poll)


def _poll(question: Inquiry, claim: Claim, poll: Poll, curator: Curator) -> MeasuredClaim:
    curator.report("asking parts", 0.0)
    noisy = [int(v) for v in curator.ask(poll, question.budget).values]
    curator.report("asking parts", 1.0)
    sensitivity = poll_sensitivity(curator.relation, poll.vote.answers, question.budget)
    law = noise_of(sensitivity, question.budget)
    found = posterior(noisy, poll.parts, law)
    names = ["parts that agree"] if len(noisy) == 1 else ["parts below", "parts above"]
    return MeasuredClaim(
        verdict=found.verdict,
        sentence=_sentence(claim, found, three=len(noisy) == 2),
        numbers={name: [value] for name, value in zip(names, noisy, strict=True)},
        noise=law.name,
        scale=scale_of(law),
        sensitivity=float(sensitivity),
        quantity="share of parts in which the claim holds",
        interval=(round(found.interval[0], 6), round(found.interval[1], 6)),
        probability=round(found.probability, 9),
    )


def _predict(question: Inquiry, claim: Claim, predictor: Predictor, curator: Curator) -> MeasuredClaim:
    curator.report("counting", 0.0)
    asked = Classification(predictor)
    counts = curator.ask(asked, question.budget).values
    curator.report("counting", 1.0)
    law, event = asked.price(curator.relation, curator.max_rows, question.budget, "")
    return replace(
        judge_predictions(claim, predictor, counts, law),
        numbers={"rows in each class": [int(v) for v in counts]},
        noise=law.name,
        scale=scale_of(law),
        sensitivity=float(event.sensitivity),
    )


def _estimate(
    question: Inquiry, claim: Claim, direct: DirectQuestion, public: PublicReading, curator: Curator
) -> MeasuredClaim:
    curator.report("measuring sums", 0.0)
    found = direct.measure(question, curator, public)
    curator.report("measuring sums", 1.0)
    name = " − ".join(name.replace("[T.", "[") for name, _ in direct.combination.weights)
    sure = found.probability or 0.0
    said = f"posterior {in_three_digits(sure)}"
    if found.interval is not None:
        said += f"; {name} is estimated at {found.estimate:.4g}, 95 % interval {found.interval[0]:.4g} to {found.interval[1]:.4g}"
    start = {"confirmed": "Confirmed: ", "contradicted": "Contradicted: that "}.get(
        found.verdict, "Cannot tell at this price whether "
    )
    noise = "discrete Laplace" if curator.pure else "discrete Gaussian"
    sentence = f"{start}{in_words(claim)}; {said}."
    return replace(found, sentence=sentence, quantity=name, noise=noise, probability=round(sure, 9))


def _sentence(claim: Claim, found: Posterior, *, three: bool) -> str:
    claimed, sure = in_words(claim), f"posterior {in_three_digits(found.probability)}"
    most = "" if three else " in most random parts"
    if found.verdict == "confirmed":
        most = "; neither side of it has a majority of random parts" if three else most
        return f"Confirmed: {claimed}{most}; {sure}."
    if found.verdict == "contradicted":
        other = "most random parts lie on one side of the interval" if three else f"it is not so{most}"
        return f"Contradicted: that {claimed}; {other}; {sure}."
    return f"Cannot tell at this price whether {claimed}{most}; {sure}."


def answer_of(
    question: Inquiry, schema: Schema, found: MeasuredClaim, reservation: Reservation | None, *, testing: bool
) -> AnswerCard:
    """The answer, from what was measured and what the ledger noted."""
    moment = datetime.now(UTC).isoformat(timespec="microseconds") if reservation is None else reservation.time
    return AnswerCard(
        question=question,
        **{name: getattr(found, name) for name in MeasuredClaim.__dataclass_fields__},
        guarantee=f"{_price(question)}, unit {schema.unit}, neighbours {schema.neighbours}",
        neighbours=str(schema.neighbours),
        unit=str(schema.unit),
        created=moment,
        request=question.request,
        ledger_head=None if reservation is None else reservation.head,
        version=VERSION,
        testing=testing,
    )


def _price(question: Inquiry) -> str:
    budget = question.budget
    if isinstance(budget, PureDP):
        return str(budget)
    return f"ρ = {budget.rho:.6g} (ε = {rho_to_approx(budget.rho, DELTA):.4g} at δ = {DELTA:g})"
