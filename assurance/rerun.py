"""One run and its rerun on a neighbouring table with the first run's answers: what an outsider could tell apart.

The whole path is run, from raw rows to a release: reading, encoding, truncation, the method, drawing, the card, and
on request the ledger and the files: everything that anyone sees of a run except the time of day.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from assurance.bytes import EXCEPTED, read_release, without_figures
from assurance.cases import Case
from assurance.pairs import Pair
from assurance.recording import Recording, Replay, noise_score, same
from dipsmith.audit.observation import Auditor, Choice, Observation, ObservedTable
from dipsmith.errors import DipsmithError, HopelessNoise
from dipsmith.privacy.budget import Budget
from dipsmith.privacy.ledger import Ledger
from dipsmith.privacy.randomness import Stream
from dipsmith.schema import Schema
from dipsmith.synthesis.synthesize import synthesize


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
        As `noise_score` has it.
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
        Whether the report has figures, or tables alone as it has where none can be drawn: they take most of the time,
        and are drawn from the rows and the card, which are compared themselves.
    reshape
        Puts the second table into another order or form, of which nothing may be told either.
    """
    run = _Run(pair.schema, case, budget, seed, folder, sets)
    recording = Recording()
    replay = Replay(recording)
    after = pair.after if reshape is None else reshape(pair.after)
    with without_figures(not figures):
        first, strays = run.observe(recording, pair.before, "one")
        second, more = run.observe(replay, after, "two")
    replay.close(budget, case.price)
    findings = [*strays, *more, *replay.findings]
    findings += [f"{what}: differs" for what in first if not same(first[what], second.get(what))]
    questions = sum(isinstance(entry, ObservedTable | Choice) for entry in recording.entries)
    return PairFindings(pair.kind, tuple(dict.fromkeys(findings)), replay.loss, questions, noise_score(recording))


@dataclass(frozen=True)
class _Run:
    """A run but for its table."""

    schema: Schema
    case: Case
    budget: Budget
    seed: int
    folder: Path | None
    sets: int

    def observe(self, auditor: Auditor, table: Any, name: str) -> tuple[dict[str, Any], list[str]]:
        """Everything that can be seen of a run, and what happened outside every mechanism."""
        seen: dict[str, Any] = {"messages": []}
        ledger = None
        if self.folder is not None:
            ledger = Ledger(self.folder / f"{name}.db")
            ledger.grant(self.schema.name, self.budget, by="auditor")
        observation = Observation(auditor)
        with heard_warnings() as seen["warnings"]:
            return self._ended(seen, observation, table, name, ledger), observation.strays

    def _ended(
        self, seen: dict[str, Any], observation: Observation, table: Any, name: str, ledger: Ledger | None
    ) -> dict[str, Any]:
        messages = seen["messages"]
        rows, members = table if isinstance(table, tuple) else (table, None)  # households, and their members
        try:
            release = synthesize(
                rows,
                self.schema,
                self.case.method,
                members=members,
                budget=self.budget,
                ledger=ledger,
                sets=self.sets,
                each="split" if self.sets > 1 else None,
                analyses=self.case.analyses,
                request="audit",
                seed=self.seed,
                testing=True,
                noise_seed=Stream.for_testing(self.seed, observation),
                # How far reading has come tells how large the file is, as its duration does (threat model).
                progress=lambda stage, share: messages.append((stage, share)) if stage != "reading" else None,
            )
        except DipsmithError as error:
            return seen | {"error": f"{type(error).__name__}: {error}"}
        seen["types"] = [str(part.schema) for part in release.tables]
        seen["tables"] = [part.to_pydict() for part in release.tables]
        states = [model.inner.state() for model in release.models]
        seen["facts"] = [json.dumps(facts, sort_keys=True, default=str) for facts, _ in states]
        seen["arrays"] = [dict(arrays) for _, arrays in states]
        seen["results"] = [result.to_dict() for result in release.results]
        card = json.loads(release.card.to_json())
        seen["card"] = {k: v for k, v in card.items() if k not in (*EXCEPTED, "files")}
        if self.folder is not None and ledger is not None:
            place = self.folder / name
            seen["files"] = read_release(release.save(place))
            seen["files as CSV"] = read_release(release.save(self.folder / f"{name}-csv", format="csv"))
            shown = json.dumps(ledger.show(self.schema.name).as_dict(), default=str, sort_keys=True)
            seen["ledger"] = re.sub(r"20\d\d-\d\d-\d\dT[^\"]*", "TIME", shown.replace(str(place), "DIR"))
        return seen


@contextmanager
def heard_warnings() -> Iterator[list[str]]:
    """What is said of hopeless noise; other warnings go on."""
    told: list[str] = []
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        yield told
    told += [str(w.message) for w in heard if issubclass(w.category, HopelessNoise)]
    for other in heard:
        if not issubclass(other.category, HopelessNoise):
            warnings.warn_explicit(other.message, other.category, other.filename, other.lineno)
