"""Broken and hostile files: what reads them may refuse, in one line, and do nothing else.

    python tests/audit/fuzz_targets.py [--inputs N] [--results FILE]      (make fuzz)

Each target is a file format, a few good files, and what is done with one. A fuzzed input is a good file after a few random
changes (bytes flipped, cut, doubled; tokens replaced by awkward ones). Allowed outcomes: it is read, or a `DipsmithError`
of one line. Not allowed: any other exception, more than `SECONDS`, more than `MEMORY`, a file written outside.
Where atheris installs (`uv pip install --target FOLDER atheris`, FOLDER on PYTHONPATH) the same targets are driven by coverage:
`--atheris TARGET --inputs N`.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa

if "--atheris" in sys.argv:
    # Only what is imported under it is followed: the package, and not the libraries below it.
    import atheris

    with atheris.instrument_imports(include=["dipsmith"]):
        import dipsmith.experiments.study
        import dipsmith.synthesis.fitted

import dipsmith as ds
from dipsmith.errors import DipsmithError
from dipsmith.experiments import study
from dipsmith.synthesis.card import Card
from dipsmith.synthesis.fitted import FittedModel

SECONDS = 10
MEMORY = 3 << 30

SCHEMA = b"""name: people
unit: {column: id, max_rows: 2}
neighbours: replace
fields:
  - {name: age, type: integer, minimum: 17, maximum: 90, bins: {width: 10}, role: public}
  - {name: pay, type: number, minimum: 0, maximum: 250000, bins: {round: 50000}, missing: true}
  - {name: sex, type: string, enum: [F, M], other: M, role: private}
  - {name: born, type: date, minimum: 1920-01-01, maximum: 2000-12-31, bins: {width: year}}
rules:
  - {never: {age: {below: 20}, sex: F}}
"""
CSV = b'id,age,pay,sex,born\n1,34,52000,F,1999-05-01\n2,51,,M,1963-10-11\n3,28,"71,000",F,1955-02-28\n3,29,1e5,"M",\n'
STUDY = Path(__file__).parents[2] / "studies" / "how_many_sets" / "study.yaml"

TOKENS = [
    b"null", b"~", b"-1", b"0", b"1e308", b"-1e308", b"NaN", b"inf", b"9" * 40, b"1" * 5000, b"{}", b"[]", b"true", b'""',
    b"!!python/object/apply:os.system ['touch hacked']", b"&a [*a, *a]", b"<<: *a", b"\x00", b"\xff\xfe", b"\xef\xbb\xbf",
    b"../../../etc/passwd", b"/dev/zero", b"=1+1", b'"', b"'", b"\n", b"\r", b",", b":", b"[" * 200, b"{" * 200, b"1970-02-30",
    b"10000-01-01", b"0x10", b"1_000", "\u202e".encode(), b"%s%n", b"A" * 3000, b"-0", b"1/0",
]  # fmt: skip


@dataclass(frozen=True)
class Target:
    """A format: good files, and what reads them."""

    name: str
    seeds: tuple[bytes, ...]
    read: Callable[[bytes, Path], object]


def read_schema(data, folder):
    (folder / "s.yaml").write_bytes(data)
    made = ds.Schema.read(folder / "s.yaml")
    return made.digest, str(made)


def read_csv(data, folder):
    (folder / "t.csv").write_bytes(data)
    schema = ds.Schema.read(_good(folder, "s.yaml", SCHEMA))
    return ds.synthesize(
        str(folder / "t.csv"), schema, ds.Marginals(), budget=ds.PureDP(1), testing=True, noise_seed=1, rows=5
    )


def read_study(data, folder):
    (folder / "study.yaml").write_bytes(data)
    return study.read(folder / "study.yaml")


def read_card(data, folder):
    card = Card.from_json(data.decode("utf-8", "replace"))
    return card.to_html(), str(card), card.budget


def read_model_json(data, folder):
    (folder / "m.json").write_bytes(data)
    (folder / "m.npz").write_bytes(good_model()[1])
    return FittedModel.load(folder / "m").sample(5, seed=1)


def read_model_arrays(data, folder):
    (folder / "m.json").write_bytes(good_model()[0])
    (folder / "m.npz").write_bytes(data)
    return FittedModel.load(folder / "m").sample(5, seed=1)


def _good(folder, name, data):
    path = folder / name
    if not path.exists():
        path.write_bytes(data)
    return path


@cache
def good_release():
    rng = np.random.default_rng(0)
    table = pa.table({"a": rng.integers(0, 5, 50), "s": np.array(["F", "M"])[rng.integers(0, 2, 50)]})
    schema = ds.Schema.from_dict(
        {
            "name": "t",
            "unit": "row",
            "neighbours": "replace",
            "fields": [
                {"name": "a", "type": "integer", "minimum": 0, "maximum": 4},
                {"name": "s", "type": "string", "enum": ["F", "M"], "other": "M"},
            ],
        }
    )
    return ds.synthesize(table, schema, ds.Marginals(), budget=ds.PureDP(1), testing=True, noise_seed=1)


@cache
def good_model():
    with tempfile.TemporaryDirectory() as folder:
        good_release().model.save(Path(folder) / "m")
        return (Path(folder) / "m.json").read_bytes(), (Path(folder) / "m.npz").read_bytes()


def targets():
    return [
        Target("schema file", (SCHEMA, b"name: t\nunit: row\n"), read_schema),
        Target("CSV", (CSV, CSV.replace(b",", b";"), "id\tage\n".encode("utf-16")), read_csv),
        Target("study file", (STUDY.read_bytes(),), read_study),
        Target("card", (good_release().card.to_json().encode(),), read_card),
        Target("model, JSON", (good_model()[0],), read_model_json),
        Target("model, arrays", (good_model()[1],), read_model_arrays),
    ]


def mutated(data: bytes, chance: random.Random) -> bytes:
    """A file after one to six random changes."""
    held = bytearray(data)
    for _ in range(chance.choice([1, 1, 2, 3, 6])):
        at = chance.randrange(len(held) + 1)
        end = min(len(held), at + chance.choice([1, 1, 2, 5, 20, 200]))
        kind = chance.randrange(7)
        if kind == 0 and held:
            held[min(at, len(held) - 1)] ^= 1 << chance.randrange(8)
        elif kind == 1:
            del held[at:end]
        elif kind == 2:
            held[at:at] = chance.choice(TOKENS)
        elif kind == 3:
            held[at:end] = chance.choice(TOKENS)
        elif kind == 4:
            held[at:at] = held[at:end] * chance.choice([1, 3, 50])
        elif kind == 5:
            held[at:end] = chance.randbytes(end - at)
        else:
            _replace_value(held, chance)
    return bytes(held)


def _replace_value(held: bytearray, chance: random.Random) -> None:
    """Put an awkward token in place of what stands between two separators."""
    marks = [i for i, b in enumerate(held) if b in b":,[]{}\n "]
    if len(marks) > 1:
        i = chance.randrange(len(marks) - 1)
        held[marks[i] + 1 : marks[i + 1]] = b" " + chance.choice(TOKENS)


class TooLongError(Exception):
    """An input was not dealt with in time."""


def _late(*_):
    raise TooLongError


def outcome(target: Target, data: bytes, folder: Path) -> str:
    """What became of an input; raises whatever is not allowed."""
    signal.signal(signal.SIGALRM, _late)
    signal.alarm(SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            target.read(data, folder)
    except DipsmithError as refusal:
        seen, message = type(refusal).__name__, str(refusal)
    else:
        seen, message = "read", ""
    finally:
        signal.alarm(0)
    assert "\n" not in message, "a message of more than one line"
    assert len(message) < 2000, "a message that is too long"
    return seen


def fuzz(target: Target, inputs: int, seed: int) -> tuple[Counter[str], list[tuple[str, bytes]]]:
    """Outcomes, and the inputs with an outcome that is not allowed."""
    chance = random.Random(f"{target.name}/{seed}")
    seen: Counter[str] = Counter()
    wrong: list[tuple[str, bytes]] = []
    folder = Path(tempfile.mkdtemp())
    here = Path.cwd()
    os.chdir(folder)
    try:
        for _ in range(inputs):
            data = mutated(chance.choice(target.seeds), chance)
            try:
                seen[outcome(target, data, folder)] += 1
            except Exception as error:  # noqa: BLE001 - what the fuzzer looks for
                seen[f"NOT ALLOWED: {type(error).__name__}"] += 1
                wrong.append((f"{type(error).__name__}: {error}"[:200], data))
        if (folder / "hacked").exists():
            wrong.append(("code was executed", b""))
    finally:
        os.chdir(here)
        shutil.rmtree(folder, ignore_errors=True)
    return seen, wrong


def with_atheris(target: Target, inputs: int, seed: int, results: Path | None) -> None:
    """Let coverage choose the inputs; ends the process, as libFuzzer does, with 0 if every outcome was allowed."""
    folder = Path(tempfile.mkdtemp())
    kept = None if results is None else results.absolute()
    os.chdir(folder)
    (folder / "corpus").mkdir()
    for i, good in enumerate(target.seeds):
        (folder / "corpus" / str(i)).write_bytes(good)
    seen: Counter[str] = Counter()

    def tried(data: bytes) -> None:
        seen[outcome(target, data, folder)] += 1
        assert not (folder / "hacked").exists(), "code was executed"
        if seen.total() == inputs:
            report(f"{target.name}, by coverage", seen, seed, kept)

    own = [f"-runs={inputs}", f"-seed={seed}", f"-rss_limit_mb={MEMORY >> 20}", f"-timeout={2 * SECONDS}"]
    atheris.Setup([sys.argv[0], *own, "-print_final_stats=0", str(folder / "corpus")], tried)
    atheris.Fuzz()


def report(name: str, seen: Counter[str], seed: int, results: Path | None) -> None:
    """Say what came of a target's inputs, and add it to a file."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{name}: {seen.total()} inputs, {dict(seen)}, peak {peak} MB", flush=True)
    if results is None:
        return
    held = json.loads(results.read_text()) if results.exists() else {"targets": {}}
    held["targets"][name] = {
        "inputs": seen.total(),
        "seed": seed,
        "seen": dict(seen),
        "peak_mb": peak,
        "done": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    results.parent.mkdir(parents=True, exist_ok=True)
    results.write_text(json.dumps(held, indent=1, ensure_ascii=False) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--only", default="")
    parser.add_argument("--results", type=Path)
    parser.add_argument("--atheris", metavar="TARGET")
    asked = parser.parse_args()
    if asked.atheris:
        chosen = next(t for t in targets() if t.name == asked.atheris)
        with_atheris(chosen, asked.inputs, asked.seed, asked.results)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    failed = False
    for target in targets():
        if asked.only not in target.name:
            continue
        seen, wrong = fuzz(target, asked.inputs, asked.seed)
        report(target.name, seen, asked.seed, asked.results)
        for what, data in wrong[:5]:
            print(f"  {what}: {data[:400]!r}")
        failed |= bool(wrong)
    return int(failed)


def npz(arrays: dict[str, np.ndarray]) -> bytes:
    held = io.BytesIO()
    np.savez_compressed(held, **arrays)
    return held.getvalue()


if __name__ == "__main__":
    sys.exit(main())
