"""Files made to hurt: no code is executed, nothing hangs, memory stays bounded, messages are one line."""

import io
import json
import pickle
import random
import resource
import zipfile

import fuzz_targets as fuzzing
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dipsmith as ds
from dipsmith.errors import DamageError, DipsmithError, InputError, SchemaError
from dipsmith.experiments import study
from dipsmith.synthesis.card import Card
from dipsmith.synthesis.fitted import FittedModel

TARGETS = {target.name: target for target in fuzzing.targets()}


@pytest.mark.parametrize("name", TARGETS)
def test_fuzzed_files_are_read_or_refused(name):
    """Sixty random inputs of each format, other ones than `make fuzz` tries."""
    seen, wrong = fuzzing.fuzz(TARGETS[name], 60, seed=7)
    assert wrong == []
    assert sum(seen.values()) == 60
    assert len(seen) > 1 or name == "schema file", "inputs must be both refused and read"


@given(st.sampled_from(["schema file", "study file", "card", "model, JSON"]), st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_text_escapes_a_reader(tmp_path_factory, name, data):
    target = TARGETS[name]
    seed = data.draw(st.sampled_from(target.seeds)).decode("utf-8")
    cut = data.draw(st.integers(0, len(seed)))
    put = data.draw(st.text(max_size=30))
    skip = data.draw(st.integers(0, 40))
    text = seed[:cut] + put + seed[cut + skip :]
    fuzzing.outcome(target, text.encode("utf-8", "replace"), tmp_path_factory.mktemp("f"))


class Evil:
    """Unpickled, it would write a file."""

    def __reduce__(self):
        return (open, ("hacked", "w"))


def model_files(folder, arrays=None, described=None):
    text, packed = fuzzing.good_model()
    (folder / "m.json").write_bytes(text if described is None else described)
    (folder / "m.npz").write_bytes(packed if arrays is None else arrays)
    return folder / "m"


def test_a_good_model_is_read(tmp_path):
    assert len(FittedModel.load(model_files(tmp_path)).sample(5, seed=1)) == 5


def test_a_pickled_array_is_never_unpickled(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with np.load(io.BytesIO(fuzzing.good_model()[1])) as good:
        arrays = {name: good[name] for name in good.files}
    name = next(iter(arrays))
    held = io.BytesIO()
    np.savez(held, **{**arrays, name: np.array([Evil()], dtype=object)})
    assert b"hacked" in held.getvalue()
    with pytest.raises(DamageError, match="get the release again"):
        FittedModel.load(model_files(tmp_path, held.getvalue()))
    with pytest.raises(DamageError):
        FittedModel.load(model_files(tmp_path, pickle.dumps(Evil())))
    assert not (tmp_path / "hacked").exists()


@pytest.mark.parametrize(
    "tag",
    [
        "!!python/object/apply:os.system ['touch hacked']",
        "!!python/name:os.system",
        "!!python/object/new:type {}",
    ],
)
def test_yaml_never_constructs_objects(tag, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").write_text(f"name: {tag}\nunit: row\n")
    with pytest.raises(SchemaError):
        ds.Schema.read(tmp_path / "s.yaml")
    with pytest.raises(InputError):
        study.parse(f"name: {tag}\n")
    assert not (tmp_path / "hacked").exists()


def laughs(depth=60, width=10):
    lines = ["a0: &a0 [x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * width)}]" for i in range(1, depth)]
    return "\n".join([*lines, f"name: *a{depth - 1}", ""])


def test_a_billion_laughs_are_refused_at_once(tmp_path):
    (tmp_path / "s.yaml").write_text(laughs())
    with pytest.raises(SchemaError, match="aliases"):
        ds.Schema.read(tmp_path / "s.yaml")
    within_seconds(lambda: refused(lambda: study.parse(laughs())))


@pytest.mark.parametrize("brackets", ["[", '{"a":'])
def test_deep_nesting_is_refused(brackets, tmp_path):
    text = brackets * 100_000
    refused(lambda: Card.from_json(text))
    refused(lambda: FittedModel.load(model_files(tmp_path, described=text.encode())))
    refused(lambda: study.parse(text))
    (tmp_path / "s.yaml").write_text(text)
    refused(lambda: ds.Schema.read(tmp_path / "s.yaml"))


def bomb(size):
    """An array file of some kilobytes that unpacks to `size` zeros."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|i1", "fortran_order": False, "shape": (size,)})
    held = io.BytesIO()
    with (
        zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file,
        file.open("0/values.npy", "w") as out,
    ):
        out.write(header.getvalue())
        zeros = bytes(1 << 20)
        for _ in range(size >> 20):
            out.write(zeros)
    return held.getvalue()


def test_memory_is_bounded_when_arrays_unpack_to_far_more(tmp_path):
    """A quarter of a gigabyte of zeros in a quarter of a megabyte: refused by what its header says, not unpacked."""
    data = bomb(1 << 28)
    assert len(data) < 2 << 20
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused(lambda: FittedModel.load(model_files(tmp_path, data)))
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024
    assert grown < 200, f"{grown} MB more"


def test_a_header_that_promises_more_than_there_is(tmp_path):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (1 << 40,)})
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as file:
        file.writestr("0/values.npy", header.getvalue() + bytes(64))
    refused(lambda: FittedModel.load(model_files(tmp_path, held.getvalue())))


def test_a_domain_without_end_is_refused(tmp_path):
    for field in (
        "{name: a, type: integer, minimum: 0, maximum: 1000000000000}",
        "{name: a, type: number, minimum: 0, maximum: 1e300, bins: {width: 1e-300}}",
        "{name: a, type: date, minimum: 0001-01-01, maximum: 9999-12-31, bins: {width: day}}",
    ):
        (tmp_path / "s.yaml").write_text(f"name: t\nunit: row\nneighbours: add-remove\nfields:\n  - {field}\n")
        within_seconds(lambda: either(lambda: ds.Schema.read(tmp_path / "s.yaml")))


def test_a_csv_line_without_end_is_bounded(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"id,age,pay,sex,born\n" + b"9" * (8 << 20))
    (tmp_path / "s.yaml").write_bytes(fuzzing.SCHEMA)
    schema = ds.Schema.read(tmp_path / "s.yaml")
    within_seconds(
        lambda: either(
            lambda: ds.synthesize(
                str(tmp_path / "t.csv"), schema, ds.Flat(), budget=ds.PureDP(1), testing=True, noise_seed=1
            )
        )
    )


def refused(act):
    with pytest.raises(DipsmithError) as refusal:
        act()
    assert "\n" not in str(refusal.value)


def either(act):
    try:
        act()
    except DipsmithError as refusal:
        message = str(refusal)
    else:
        message = ""
    assert "\n" not in message


def within_seconds(act):
    import signal

    def late(*_):
        raise TimeoutError("took too long")

    signal.signal(signal.SIGALRM, late)
    signal.alarm(20)
    try:
        act()
    finally:
        signal.alarm(0)


def test_a_release_that_names_files_elsewhere_is_refused(tmp_path):
    """A card's file names are compared with what is in the folder; nothing outside is opened."""
    fuzzing.good_release().save(tmp_path / "r")
    card = json.loads((tmp_path / "r" / "card.json").read_text())
    card["files"]["../../etc/passwd"] = "0" * 64
    (tmp_path / "r" / "card.json").write_text(json.dumps(card))
    with pytest.raises(DamageError):
        ds.verify(tmp_path / "r")


def test_the_fuzzer_reports_what_is_not_allowed():
    broken = fuzzing.Target("broken", (b"abc",), lambda data, folder: 1 / 0)
    seen, wrong = fuzzing.fuzz(broken, 3, seed=1)
    assert seen == {"NOT ALLOWED: ZeroDivisionError": 3}
    assert len(wrong) == 3
    assert fuzzing.mutated(b"abc" * 9, random.Random(1)) != b"abc" * 9
