"""The assurance page: what was tried against dipsmith and what came of it, from the files of results.

`python -m assurance.page docs/assurance docs/assurance.md` (`make assurance`). Every number on the page is read from
a file beside it; a part that has not been run says so.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from assurance.bytes import EXCEPTED
from assurance.cases import SECOND, Case, attack_cases, planned_cases, registered_cases, variants
from assurance.forms import FORMS
from assurance.markdown import wrap
from assurance.matrix import FEW_MEASUREMENTS, currencies
from assurance.pairs import PRIVATE
from dipsmith.audit.worlds import TARGETS

Pieces = Mapping[str, Any]

HEAD = """# Assurance

What was tried to break dipsmith's promise, and what came of it. This page is written by `make assurance` from the files
in `docs/assurance/`; each part names the command that makes its file. What is promised, and what is not, is in the
[threat model](threat-model.md); why it should hold, in the proof notes."""

BYTES = f"""## The bytes of a release

`make audit`. With the noise frozen, a private table is released in its own order and form, and again reversed, sorted
by each private column, in random orders and in {len(FORMS)} forms: CSV of several kinds, Parquet with other encodings,
dictionaries, row groups and metadata, Arrow with other chunks and dictionaries, pandas. Every file must be the same to
the last byte; excepted are, by name, the card's {", ".join(f"`{n}`" for n in EXCEPTED)}.
No canary from metadata, unused dictionary entries, index or file names may be in it. `tests/audit/test_bytes.py` does
the same for tables that Hypothesis makes, for neighbours with recorded answers, and under another clock, user, host,
locale and hash seed; `tests/sources/test_sources_bytes.py` for polars, DuckDB, PostgreSQL and Spark."""

ATTACKS = """## Attacks

`make audit`. Each method runs 1000 times in each of two worlds that differ in one row, at a claimed ε of 4. A
*white-box* attacker sees every noisy answer and uses the likelihood ratio; a *black-box* attacker sees synthetic rows.
Bounds are 95 % Clopper–Pearson lower bounds on ε; thresholds were chosen on other runs than are counted. At 95 % even
an optimal attacker exceeds the claim by chance in a few of a hundred entries, so the verdict uses 1 − 10⁻⁶.

*Optimal* is what no attacker on any two worlds exceeds on average, given the answers of a run, the noise of each and its
price: every table moved by its whole sensitivity, every choice as telling as randomised response. The answers are
charged the whole claim. *Ceiling* is the same for a single answer that is randomised response at the claimed ε, than
which no mechanism tells more: a method that divides its budget among several answers stays below it. A small share of
the optimum would mean that the audit is loose. One audit of 1000 runs is off by a tenth of its bound by chance, so that
the share that is *reached* is the mean of three of them (this seed and the two after it), and all three must pass."""

HALF_NOISE = f"""## Half of the noise

`make audit`. A curator that draws half of the noise it charges for must be noticed. *Replayed*: in how many pairs of
tables record and replay found that the noise was not of the declared scale; it must be all. *Attacked*: the attack
above, in as many runs as it was planned to need, must exceed the claim of 4 at 1 − 10⁻⁶ for every method that takes at
most {FEW_MEASUREMENTS} measurements. Where the noise is halved elsewhere, after it was drawn or in the sampler, is
tried by `tests/audit/test_replay.py`."""

REPLAYS = """## Record and replay

`make audit`. A run is recorded; the same run on a neighbouring table is given the recorded answers. Everything after
must be the same to the last bit — questions, charges, messages, model, rows, card, and for every fifth pair the ledger
and the bytes of the files — the noise must be of the scale that its price asks for, and the true numbers behind each
answer may differ by their sensitivity at most. Sensitivities, noise and the probabilities of choices are computed from
the definitions, in exact arithmetic, by code that shares nothing with the curator's (`tests/audit/test_definitions.py`).

The *largest loss* is what the answers of a pair told at most, added up from the noise that was really drawn; it may not
exceed the budget. *z* compares all noise that was drawn with its law. Tables differ by: a unit added, removed, replaced;
a flipped label; outliers, new categories, missing values, forbidden combinations; an empty table, a single row;
duplicate rows, several rows per unit."""

MUTANTS = """## Planted bugs

`make mutants`. Each bug is planted in a copy of the package, and the test named beside it must fail."""

FAULTS = """## Faults

`make faults`. After each fault the ledger is verified, every release on disk has its charge, and the message is one line
that says what to do. `tests/audit/test_faults.py` plays every scene in CI: kill -9, full disk, read-only folder, clock
going back, two processes on one ledger, corrupted ledger, truncated release, interrupted experiment;
`tests/synthesis/test_kill.py` and `tests/privacy/test_ledger_faults.py` kill 200 times each under `make audit`."""

FUZZ = """## Fuzzed files

`make fuzz`. Good files after random changes; *by coverage*: changes chosen by atheris, where it installs
(`tests/audit/fuzz_targets.py --atheris FORMAT --inputs N`). Allowed: they are read, or refused in one line. Not allowed,
and not seen: any other exception, a hang, code that is executed, more than 3 GB."""

OTHERS = """## Exact losses

`tests/audit/test_exact_loss.py` enumerates every table of up to three rows over 2 × 2 × 2 cells and every neighbour of
it: the privacy loss of each score class in `choose`, of noisy tables (reached exactly), of ρ at several orders, and of
private selection by the law of its number of runs. The samplers are compared with their laws at 10⁶ draws and, bucket
by bucket, in exact arithmetic (`tests/privacy/test_noise.py`, `tests/privacy/test_lookup.py`).

## Canaries

`tests/audit/test_canaries.py` puts canaries into private values, unit names, folders and passwords, runs every method
from the command line, and looks for them in every released file (arrays unpacked), on the terminal, in the ledger, in
refusals and exceptions; with `--debug` only the confidential log has them. `tests/audit/test_canaries_http.py` asks a
real `dipsmith studio` for every address it has, with sound and with spoilt requests, and while server and jobs fail
with errors that quote private values: no canary in any answer, on its terminal or in its workspace. Only the first page
names the workspace's folder."""


def page(folder: Path) -> str:
    """The page from the results in a folder."""
    audit: Pieces = _read(folder / "audit.json").get("pieces", {})
    parts = [HEAD, _bytes(audit), _attacks(audit), _half_noise(audit), _replays(audit)]
    parts += [_mutants(_read(folder / "mutants.json")), _faults(_read(folder / "faults.json"))]
    return wrap("\n\n".join([*parts, _fuzz(_read(folder / "fuzz.json")), OTHERS]) + "\n")


def _bytes(pieces: Pieces) -> str:
    found = {name.split(" | ")[1]: f for name, f in pieces.items() if name.startswith("bytes")}
    rows = [
        [*case.split(" · "), str(f["tables"]), f"{f['compared']:,}", _alarming(len(f["findings"]))]
        for case, f in sorted(found.items())
    ]
    compared = sum(f["compared"] for f in found.values())
    differ = sum(len(f["findings"]) for f in found.values())
    summary = f"{compared:,} releases compared, {differ} findings.\n{_when(found.values())}"
    missing = _missing((f"bytes | {case.key}" for case in _replayed_cases()), pieces)
    return _section(BYTES, "method | neighbours | tables | releases compared | findings", rows, summary, missing)


def _attacks(pieces: Pieces) -> str:
    found = [f for name, f in pieces.items() if name.startswith("attack")]
    rows = [
        [
            f["method"], f["relation"], f"{f['lower_bound']:.2f}", f"{f['black_box']:.2f}", f"{f['optimal']:.2f}",
            f"{f['ceiling']:.2f}" if "ceiling" in f else "—", f"{f['tightness']:.0%}", f"{f['certain']:.2f}",
            "pass" if f["passed"] else "**FAIL**",
        ]
        for f in found
    ]  # fmt: skip
    shares = [f["tightness"] for f in found] or [0.0]
    below = [f"{f['method']} {f['relation']}" for f in found if f["tightness"] < 0.8]
    single = [f"{f['method']} {f['relation']}" for f in found if len(f.get("bounds", [])) < 2]
    summary = (
        f"{sum(f['passed'] for f in found)} of {len(found)} pass. "
        f"White box reaches {min(shares):.0%} to {max(shares):.0%} of the optimal attacker"
        + (f"; below 80 %: {', '.join(below)}" if below else "")
        + (f". From one audit instead of three: {', '.join(single)}" if single else "")
    )
    head = "method | neighbours | white box | black box | optimal | ceiling | reached | at 1 − 10⁻⁶ | verdict"
    missing = _missing((f"attack | {case.key}" for case in attack_cases(TARGETS, SECOND)), pieces)
    return _section(ATTACKS, head, rows, f"{summary}.\n{_when(found)}", missing)


def _half_noise(pieces: Pieces) -> str:
    rows = []
    for case in attack_cases(TARGETS, SECOND):
        replayed, sound, attacked = (
            pieces.get(f"{kind} | {case.key}") for kind in ("half noise replayed", "attack", "half noise attacked")
        )
        if replayed is None and sound is None and attacked is None:
            continue
        if attacked is not None:
            outcome = "**missed**" if attacked["passed"] else "flagged"
            columns = [f"{attacked['trials']:,}", f"{attacked['certain']:.2f}", outcome]
        elif sound is not None and sound["measurements"] > FEW_MEASUREMENTS:
            columns = ["—", "—", f"not tried: more than {FEW_MEASUREMENTS}"]
        else:
            columns = ["not run yet", "", ""]
        flagged = "not run yet" if replayed is None else f"{replayed['flagged']} of {replayed['pairs']}"
        measurements = "" if sound is None else str(sound["measurements"])
        rows.append([case.name, case.relation, flagged, measurements, *columns])
    head = "method | neighbours | replayed: flagged | measurements | attacked: runs per world | bound at 1 − 10⁻⁶ | outcome"
    return _section(HALF_NOISE, head, rows, _when(f for n, f in pieces.items() if n.startswith("half noise")))


def _replays(pieces: Pieces) -> str:
    grouped: dict[str, dict[str, Any]] = {}
    for name, found in pieces.items():
        if name.startswith("replay"):
            _, case, currency = name.split(" | ")
            grouped.setdefault(case, {})[currency] = found
    rows = [
        [
            *case.split(" · "),
            str(sum(f["pairs"] for f in by.values())),
            f"{sum(f['questions'] for f in by.values()):,}",
            *(f"{by[c]['largest_loss']:.3f} of {by[c]['budget']:g}" if c in by else "—" for c in ("pure", "zcdp")),
            ", ".join(f"{f['noise_z']:+.1f}" for f in by.values()),
            _alarming(sum(len(f["findings"]) for f in by.values())),
        ]
        for case, by in sorted(grouped.items())
    ]  # fmt: skip
    everything = [f for by in grouped.values() for f in by.values()]
    pairs, findings = sum(f["pairs"] for f in everything), sum(len(f["findings"]) for f in everything)
    wanted = (f"replay | {case.key} | {c}" for case in _replayed_cases() for c in currencies(case))
    return _section(
        REPLAYS,
        "method | neighbours | pairs | answers | largest loss, ε | largest loss, ρ | z | findings",
        rows,
        f"{pairs:,} pairs, {findings} findings.\n{_when(everything)}",
        _missing(wanted, pieces),
    )


def _mutants(results: Mapping[str, Any]) -> str:
    mutants = results.get("mutants", [])
    rows = [
        [m["mutant"], f"`{m['file']}`", f"`{m['test']}`", "caught" if m["caught"] else "**MISSED**"] for m in mutants
    ]
    caught = sum(m["caught"] for m in mutants)
    summary = f"{caught} caught of {len(rows)} planted. Run on {results.get('done', '')[:10]}."
    return _section(MUTANTS, "bug | in | test | outcome", rows, summary)


def _faults(results: Mapping[str, Any]) -> str:
    rows = [
        [name, f"{s['times']:,}", "; ".join(f"{n} × {what}" for what, n in s["seen"].items()), _ranges(s["seeds"]), s["done"][:10]]
        for name, s in results.get("scenes", {}).items()
    ]  # fmt: skip
    return _section(FAULTS, "fault | times | what was found afterwards | seeds | run on", rows)


def _fuzz(results: Mapping[str, Any]) -> str:
    rows = [
        [
            name, f"{t['inputs']:,}", "; ".join(f"{n:,} {what}" for what, n in t["seen"].items()),
            f"{t['peak_mb']} MB", str(t["seed"]), t["done"][:10],
        ]
        for name, t in results.get("targets", {}).items()
    ]  # fmt: skip
    return _section(FUZZ, "format | inputs | outcomes | peak memory | seed | run on", rows)


def _section(text: str, head: str, rows: Sequence[Sequence[str]], *after: str) -> str:
    """What was tried, the table of what came of it, and what there is to say about that."""
    if not rows:
        return f"{text}\n\nNot run yet."
    return "\n\n".join(part for part in (text, table(head.split(" | "), rows), *after) if part)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table.

    >>> print(table(["a", "b"], [["1", "2"]]))
    | a | b |
    |---|---|
    | 1 | 2 |
    """
    made = ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in (head, *rows)]
    return "\n".join([made[0], "|" + "---|" * len(head), *made[1:]])


def _alarming(findings: int) -> str:
    return f"**{findings}**" if findings else "0"


def _ranges(numbers: Sequence[int]) -> str:
    """Numbers as ranges.

    >>> _ranges([1, 2, 3, 7])
    '1–3, 7'
    """
    found: list[list[int]] = []
    for n in sorted(set(numbers)):
        if found and n == found[-1][1] + 1:
            found[-1][1] = n
        else:
            found.append([n, n])
    return ", ".join(str(a) if a == b else f"{a}–{b}" for a, b in found)


def _when(pieces: Iterable[Mapping[str, Any]]) -> str:
    found = list(pieces)
    days = sorted({f["done"][:10] for f in found})
    seeds = sorted({str(f["seed"]) for f in found if "seed" in f}) or ["2026 and following"]
    minutes = sum(f["cpu_seconds"] for f in found) / 60
    return f"Run on {' and '.join(days)}, seed {', '.join(seeds)}, {minutes:.1f} minutes of processor time."


def _replayed_cases() -> list[Case]:
    return [*registered_cases(PRIVATE), *planned_cases(PRIVATE), *variants(PRIVATE)]


def _missing(wanted: Iterable[str], pieces: Pieces) -> str:
    """What `make audit` has not got to yet."""
    names = list(wanted)
    left = [name.split(" | ", 1)[1].replace(" | ", ", ") for name in names if name not in pieces]
    return f"Not run yet ({len(left)} of {len(names)}): {'; '.join(left)}." if left else ""


def _read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return found


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(page(Path(sys.argv[1])), "utf-8")
