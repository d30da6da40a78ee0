"""The whole audit, piece by piece: `python -m assurance.matrix` fills a file of results and can be resumed.

Each piece is one method under one relation: 100 neighbouring tables replayed in either currency (25 with other settings
than the default), tables released in every order and form and the bytes compared, three times 1000 runs in each world
attacked at ε = 4, or half of the noise taken away to see that the attack notices. Pieces that are in the file already
are left as they are, so that an audit can be stopped at any moment; another version starts anew.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import mean
from time import monotonic
from typing import Any, Final
from unittest.mock import patch

from assurance.bytes import check_forms
from assurance.cases import SECOND, Case, attack_cases, linked_cases, planned_cases, registered_cases, variants
from assurance.pairs import PRIVATE, neighbours
from assurance.rerun import PairFindings, check_pair
from assurance.trials_needed import trials_needed
from dipsmith.audit.observation import NoiseLaw
from dipsmith.audit.trial import audit
from dipsmith.audit.worlds import TARGETS
from dipsmith.privacy.budget import ZCDP, Budget, PureDP
from dipsmith.privacy.noise import DiscreteGaussian, DiscreteLaplace
from dipsmith.privacy.randomness import Stream
from dipsmith.version import VERSION

PAIRS: Final = 100
"""Neighbouring tables for each method, relation and currency: 200 for each method and relation."""

VARIED: Final = 4
"""Settings that ask other questions are replayed on a fourth as many tables, each."""

FLAGGED: Final = 10
"""With half of the noise, a tenth as many tables are replayed in each currency: each of them must be flagged."""

FILED: Final = 5
"""Every so many pairs the ledger is charged and the release is written and compared too."""

DRAWN: Final = 50
"""Every so many pairs the report's figures are among the files."""

FORMED: Final = 8
"""Tables that are released in every order and form, for each method and relation; a fourth as many with other settings."""

EPSILON: Final = 4
TRIALS: Final = 1000
SEED: Final = 2026
REPEATS: Final = 3
"""Audits of which the share that the white-box attacker reaches is the mean: one of 1000 runs is off by a tenth by chance."""

MUTANT_TRIALS: Final = 40_000
"""With half of the noise, runs in each world at most; how many are needed is planned for each method (`trials_needed`)."""

FEW_MEASUREMENTS: Final = 5
"""Up to so many measurements a run's answers tell enough for half of the noise to be seen from outside."""

Facts = dict[str, Any]
Piece = partial[Facts]
Pieces = dict[str, Piece]

REPLAYED: Final[dict[str, Budget]] = {"pure": PureDP(2), "zcdp": ZCDP("0.3")}


def replay_piece(case: Case, currency: str, pairs: int, first: int = SEED) -> Facts:
    """Replay a case on neighbouring tables of every kind."""
    done: list[PairFindings] = []
    findings: dict[str, int] = {}
    for seed in range(first, first + pairs):
        pair = (
            neighbours(case.relation, seed, plain=case.plain) if case.pairs is None else case.pairs(case.relation, seed)
        )
        with tempfile.TemporaryDirectory(dir=_memory()) as folder:
            filed = Path(folder) if seed % FILED == 0 else None
            checked = check_pair(pair, case, REPLAYED[currency], seed, filed, figures=seed % DRAWN == 0)
        done.append(checked)
        findings |= {f"{checked.kind}, seed {seed}: {text}": 1 for text in checked.findings}
    spread = sum(checked.noise[1] ** 2 for checked in done)
    return {
        "pairs": pairs,
        "kinds": dict(Counter(checked.kind for checked in done)),
        "questions": sum(checked.questions for checked in done),
        "findings": findings,
        "largest_loss": max(checked.loss for checked in done),
        "budget": float(REPLAYED[currency].exact),
        "noise_z": sum(checked.noise[0] for checked in done) / spread**0.5 if spread else 0.0,
    }


def bytes_piece(case: Case, tables: int) -> Facts:
    """Release tables in every order and form: whether the bytes are the same."""
    findings: dict[str, int] = {}
    compared = 0
    for seed in range(SEED, SEED + tables):
        with tempfile.TemporaryDirectory(dir=_memory()) as folder:
            found, tried = check_forms(case, seed, Path(folder))
        findings |= {f"seed {seed}: {text}": 1 for text in found}
        compared += tried
    return {"tables": tables, "compared": compared, "findings": findings}


def attack_piece(case: Case, trials: int) -> Facts:
    """Attack a case in two worlds, several times; the first audit is the one that is printed, all must pass."""
    attacked = partial(audit, case.method, case.relation, epsilon=EPSILON, trials=trials)
    found = attacked(seed=SEED)
    again = [found, *(attacked(seed=SEED + i, black_box=False) for i in range(1, REPEATS))]
    bounds, optima = [f.lower_bound for f in again], [f.optimal for f in again]
    return found.to_dict() | {
        "method": case.name,
        "bounds": bounds,
        "optimal": mean(optima),
        "tightness": mean(bounds) / mean(optima),
        "certain": max(f.certain for f in again),
        "passed": all(f.passed for f in again),
    }


def halved_piece(case: Case, trials: int) -> Facts:
    """Attack a case whose curator draws half of the noise that it charges for."""
    with half_noise():
        needed = trials_needed(case.method, case.relation, epsilon=EPSILON, most=trials, seed=SEED)
        found = audit(case.method, case.relation, epsilon=EPSILON, trials=needed, seed=SEED, black_box=False)
    return found.to_dict()


def flagged_piece(case: Case, pairs: int) -> Facts:
    """Replay a case whose curator draws half of the noise that it charges for: in how many pairs that is found."""
    flagged = 0
    with half_noise():
        for currency, budget in REPLAYED.items():
            first = SEED + (pairs if currency == "zcdp" else 0)
            for seed in range(first, first + pairs):
                checked = check_pair(neighbours(case.relation, seed), case, budget, seed)
                flagged += any("noise was drawn at scale" in text for text in checked.findings)
    return {"pairs": pairs * len(REPLAYED), "flagged": flagged}


@contextmanager
def half_noise() -> Iterator[None]:
    """Runs that are audited draw noise of half the scale they are charged for: what an audit must notice."""

    def halving(sample: Callable[..., Any]) -> Callable[..., Any]:
        def draw(law: NoiseLaw, stream: Stream, n: int | tuple[int, ...]) -> Any:
            if stream.observer is None:
                return sample(law, stream, n)
            if isinstance(law, DiscreteLaplace):
                return sample(DiscreteLaplace(law.scale / 2), stream, n)
            return sample(DiscreteGaussian(law.sigma2 / 4), stream, n)

        return draw

    with ExitStack() as patches:
        for law in (DiscreteLaplace, DiscreteGaussian):
            patches.enter_context(patch.object(law, "sample", halving(law.sample)))
        yield


def pieces(pairs: int, trials: int, mutant_trials: int) -> Pieces:
    """Every piece of the audit by its name, what matters most first."""
    made: Pieces = {}
    registered, attacked = registered_cases(PRIVATE), attack_cases(TARGETS, SECOND)
    for case in registered:
        made |= _replays(case, pairs)
    for case in registered:
        made[f"half noise replayed | {case.key}"] = partial(flagged_piece, case, -(-pairs // FLAGGED))
    for case in registered:
        made[f"bytes | {case.key}"] = partial(bytes_piece, case, -(-FORMED * pairs // PAIRS))
    for case in attacked:
        made[f"attack | {case.key}"] = partial(attack_piece, case, trials)
    for case in attacked:
        made[f"half noise attacked | {case.key}"] = partial(halved_piece, case, mutant_trials)
    for case in (*planned_cases(PRIVATE), *variants(PRIVATE)):
        made |= _replays(case, -(-pairs // VARIED))
        made[f"bytes | {case.key}"] = partial(bytes_piece, case, -(-FORMED * pairs // (PAIRS * VARIED)))
    for case in linked_cases():
        made |= _replays(case, -(-pairs // VARIED))
    return made


def _replays(case: Case, pairs: int) -> Pieces:
    # The second currency is tried on other tables than the first.
    return {
        f"replay | {case.key} | {currency}": partial(replay_piece, case, currency, pairs, SEED + i * pairs)
        for i, currency in enumerate(currencies(case))
    }


def currencies(case: Case) -> tuple[str, ...]:
    """The currencies in which a case is replayed: private selection has a price in pure ε only."""
    return tuple(REPLAYED) if case.price is None else ("pure",)


def run_piece(name: str, piece: Piece) -> tuple[str, Facts]:
    """Do one piece in a process of its own and say what it took."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    found = piece()
    after = resource.getrusage(resource.RUSAGE_SELF)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return name, {
        **found,
        "cpu_seconds": round(seconds, 1),
        "done": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def main(arguments: list[str] | None = None) -> int:
    """Fill the file; returns 1 if something was found."""
    parser = argparse.ArgumentParser(prog="python -m assurance.matrix", description=__doc__)
    parser.add_argument("results", type=Path, help="the file of results (JSON)")
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--mutant-trials", type=int, default=MUTANT_TRIALS)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=30.0, help="start no piece after so many minutes")
    parser.add_argument("--only", default="", help="only pieces whose name contains this")
    asked = parser.parse_args(arguments)
    results = _read(asked.results)
    every = pieces(asked.pairs, asked.trials, asked.mutant_trials)
    queue = [(n, piece) for n, piece in every.items() if n not in results and asked.only in n]
    for name, found in _done(queue, asked.jobs, monotonic() + 60 * asked.minutes, asked.results):
        _write(asked.results, _read(asked.results) | {name: found})
        sys.stderr.write(f"{name}: {found['cpu_seconds']} s{_worry(name, found)}\n")
    if queue:
        sys.stderr.write(f"{len(queue)} pieces left; run again to go on\n")
    return int(any(_worry(name, found) for name, found in _read(asked.results).items()))


def _done(queue: list[tuple[str, Piece]], jobs: int, deadline: float, path: Path) -> Iterator[tuple[str, Facts]]:
    """Take pieces from the queue until the deadline, and give what came of each; one job needs no other process."""

    def next_piece() -> tuple[str, Piece] | None:
        while queue and monotonic() < deadline:
            name, piece = queue.pop(0)
            results = _read(path)  # another process may have done it meanwhile
            if name not in results and not _hopeless(name, results):
                return name, piece
        return None

    if jobs == 1:
        while (found := next_piece()) is not None:
            yield run_piece(*found)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), max_tasks_per_child=40) as pool:
        running: set[Future[tuple[str, Facts]]] = set()
        while True:
            while len(running) < jobs and (found := next_piece()) is not None:
                running.add(pool.submit(run_piece, *found))
            if not running:
                return
            done = next(as_completed(running))
            running.discard(done)
            yield done.result()


def _worry(name: str, found: Facts) -> str:
    if name.startswith(("replay", "bytes")):
        alarming = found["findings"] or abs(found.get("noise_z", 0)) > 6
        return f"; FOUND {len(found['findings'])}" if alarming else ""
    if name.startswith("attack"):
        return "" if found["passed"] else "; FAILED"
    if name.startswith("half noise replayed"):
        return "" if found["flagged"] == found["pairs"] else "; half of the noise went unnoticed"
    return "; half of the noise went unnoticed" if found["passed"] else ""


def _hopeless(name: str, results: Facts) -> bool:
    """Whether a run takes so many measurements that half of the noise cannot be seen from outside."""
    sound = results.get(name.replace("half noise attacked", "attack"), {})
    return name.startswith("half noise attacked") and sound.get("measurements", 0) > FEW_MEASUREMENTS


def _read(path: Path) -> Facts:
    """What is there already of this version; another process may have added to it."""
    if not path.exists():
        return {}
    facts: Facts = json.loads(path.read_text("utf-8"))
    return facts["pieces"] if facts["version"] == VERSION else {}


def _write(path: Path, results: Facts) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    facts = {"version": VERSION, "seed": SEED, "epsilon": EPSILON, "pieces": dict(sorted(results.items()))}
    part = path.with_suffix(".part")
    part.write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n", "utf-8")
    part.replace(path)


def _memory() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() and os.access("/dev/shm", os.W_OK) else None  # noqa: S108


if __name__ == "__main__":
    sys.exit(main())
