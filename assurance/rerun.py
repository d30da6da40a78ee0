"""One run and its rerun on a neighbouring table with the first run's answers: what an outsider could tell apart.

The whole path is run, from raw rows to a release: reading, encoding, truncation, the method, drawing, the card, and
on request the ledger and the files. `Outcome` holds everything that anyone sees of a run except the time of day.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from assurance.bytes import EXCEPTED, read_release, without_figures
from assurance.cases import Case
from assurance.pairs import Pair
from assurance.recording import Recording, Replay, noise_score, same
from dipsmith.audit.watch import Watch, watching
from dipsmith.errors import DipsmithError
from dipsmith.privacy.budget import Budget
from dipsmith.privacy.ledger import Ledger
from dipsmith.schema import Schema
from dipsmith.synthesis.synthesize import synthesize

_APART = (*EXCEPTED, "files")
"""What differs between any two runs, whatever the rows; files are compared themselves."""


@dataclass(frozen=True)
class PairFindings:
    """What a pair of runs showed.

    Attributes
    ----------
    kind
        How the tables differ.
    findings
        What could be told apart without having been paid for.
    loss
        What the answers cost for this pair, in the budget's currency.
    questions
        How many tables and choices were answered.
    noise
        Sum over all draws of (x²/variance − 1), and the standard deviation of that sum.
    """

    kind: str
    findings: tuple[str, ...]
    loss: float
    questions: int
    noise: tuple[float, float]


def check_pair(
    pair: Pair,
    case: Case,
    budget: Budget,
    seed: int,
    folder: Path | None = None,
    sets: int = 1,
    *,
    figures: bool = True,
    reshape: Callable[[pa.Table], Any] | None = None,
) -> PairFindings:
    """Record a run on one table of a pair, rerun it on the other with the same answers, and compare.

    Parameters
    ----------
    folder
        An empty folder: the runs then charge a ledger there and write their releases, and both are compared.
    sets
        How many sets are released, each from a run of its own.
    figures
        Whether the report has figures, or tables alone as it has where none can be drawn: they take most of the time, and
        are drawn from the rows and the card, which are compared themselves.
    reshape
        Puts the second table into another order or form, of which nothing may be told either.
    """
    recording = Recording()
    after = pair.after if reshape is None else reshape(pair.after)
    with without_figures(not figures):
        first, strays = _run(
            watching(recording), pair.before, pair.schema, case, budget, seed, folder, "one", sets
        )
        replay = Replay(recording)
        second, more = _run(watching(replay), after, pair.schema, case, budget, seed, folder, "two", sets)
    replay.close(budget, case.price)
    findings = [*strays, *more, *replay.findings]
    findings += [f"{what}: differs" for what in first if not same(first[what], second.get(what))]
    questions = sum(not isinstance(e, tuple) and hasattr(e, "budget") for e in recording.entries)
    return PairFindings(
        pair.kind, tuple(dict.fromkeys(findings)), replay.loss, questions, noise_score(recording)
    )


def _run(
    watched: AbstractContextManager[Watch],
    table: Any,
    schema: Schema,
    case: Case,
    budget: Budget,
    seed: int,
    folder: Path | None,
    name: str,
    sets: int,
) -> tuple[dict[str, Any], list[str]]:
    """Everything that can be seen of a run, and what happened outside every mechanism."""
    said: list[tuple[str, float]] = []
    seen: dict[str, Any] = {"messages": said}
    ledger = None
    if folder is not None:
        ledger = Ledger(folder / f"{name}.db")
        ledger.grant(schema.name, budget, by="auditor")
    with watched as watch:
        try:
            release = synthesize(
                table,
                schema,
                case.method,
                budget=budget,
                ledger=ledger,
                sets=sets,
                each="split" if sets > 1 else None,
                request="audit",
                seed=seed,
                testing=True,
                noise_seed=seed,
                # How far reading has come tells how large the file is, as its duration does (threat model).
                progress=lambda stage, share: said.append((stage, share)) if stage != "reading" else None,
            )
        except DipsmithError as error:
            return seen | {"error": f"{type(error).__name__}: {error}"}, watch.strays
    seen["rows"] = [part.num_rows for part in release.tables]
    seen["types"] = [str(part.schema) for part in release.tables]
    seen["tables"] = [part.to_pydict() for part in release.tables]
    states = [model.inner.state() for model in release.models]
    seen["facts"] = [json.dumps(facts, sort_keys=True, default=str) for facts, _ in states]
    seen["arrays"] = [dict(arrays) for _, arrays in states]
    seen["card"] = {k: v for k, v in json.loads(release.card.to_json()).items() if k not in _APART}
    if folder is not None and ledger is not None:
        seen["files"] = read_release(release.save(folder / name))
        seen["files as CSV"] = read_release(release.save(folder / f"{name}-csv", format="csv"))
        shown = json.dumps(ledger.show(schema.name).as_dict(), default=str, sort_keys=True)
        seen["ledger"] = re.sub(r"20\d\d-\d\d-\d\dT[^\"]*", "TIME", shown.replace(str(folder / name), "DIR"))
    return seen, watch.strays
