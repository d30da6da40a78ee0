"""Nothing but the exit writes a byte of a release: by what the code says, and by what the operating system is asked."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import dipsmith

PACKAGE = Path(dipsmith.__file__).parent

WRITERS = {
    "write_table", "write_csv", "write_text", "write_bytes", "write_feather", "write_parquet", "write_ipc", "write_array",
    "write_dataset", "write_to_dataset", "sink_parquet", "sink_csv", "sink_ipc", "sink_ndjson", "to_csv", "to_parquet",
    "to_feather", "to_pickle", "to_excel", "savez", "savez_compressed", "savetxt", "savefig", "memmap", "tofile", "writestr",
    "ParquetWriter", "CSVWriter", "FileOutputStream", "OSFile", "output_stream", "create_memory_map", "copyfile",
    "copyfileobj", "copytree", "copy2", "copymode", "make_archive", "extractall", "symlink_to", "hardlink_to", "touch",
    "NamedTemporaryFile", "TemporaryFile", "sendfile", "truncate", "write_whole",
}  # fmt: skip
"""Calls that put bytes into a file, whoever offers them."""

QUALIFIED = {
    "np.save", "numpy.save", "pickle.dump", "json.dump", "os.write", "os.pwrite", "os.writev",
    "os.link", "os.symlink", "os.mknod", "shutil.move", "shutil.copy", "io.FileIO", "mmap.mmap", "ipc.new_file",
    "ipc.new_stream", "pa.memory_map",
}  # fmt: skip
"""Calls whose last name alone says too little."""

EXIT = {"synthesis/exit.py", "synthesis/workers.py"}
"""Workers open their own part of a set, and fill it by the exit's `write_rows`."""

ELSEWHERE = {
    "cli/demo.py": "the demo's schema and script",
    "cli/main.py": "the confidential log of --debug",
    "cli/report.py": "a report beside a release, from the release alone",
    "cli/schema.py": "a draft of a schema",
    "cli/show.py": "a picture of a tree, from the release alone",
    "counting/units.py": "rows beyond memory, in a folder that is gone afterwards",
    "examples/__init__.py": "simulated tables",
    "examples/households.py": "simulated tables",
    "examples/personnel.py": "simulated tables",
    "experiments/experiment.py": "an experiment's results",
    "experiments/results.py": "an experiment's results",
    "experiments/runner.py": "an experiment's results",
    "planning/leaf_figures.py": "a cache of figures about noise, from public numbers",
    "privacy/sealing.py": "the key beside a ledger",
    "privacy/signature.py": "a pair of keys, and signed grants",
    "report/canvas.py": "a figure about noise from public numbers; others into memory",
    "report/leaves.py": "text for the page",
    "report/shapes.py": "a picture of a tree, from the release alone",
    "schema/writing.py": "a schema",
    "sources/ibis.py": "rows of a query, in a file without a name that is gone afterwards",
    "sources/spark.py": "rows between workers, into memory",
    "studio/archive.py": "the files of a release as the exit wrote them, packed without a time",
    "studio/compare.py": "text for the page of a CONFIDENTIAL comparison",
    "studio/distributions.py": "tables of a CONFIDENTIAL comparison, for its owner alone",
    "studio/explorer.py": "text for the page",
    "studio/fragments.py": "a report for the page and its pictures, kept beside the workspace's settings",
    "studio/invitation.py": "the token, for its owner alone",
    "studio/jobs.py": "the state of a job",
    "studio/projects.py": "an uploaded file",
    "studio/questions.py": "a researcher's question, written anew as it was understood",
    "studio/workspace.py": "settings",
    "utility/comparison.py": "a CONFIDENTIAL comparison",
    "synthesis/cluster.py": "rows that workers label or draw from a model, into a folder that is named",
    "testing.py": "a model's arrays, into memory",
}
"""Modules that write something else than a release, and what."""


def writers():
    """The modules of the package that write, and by which calls."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(call, ast.Call) and (name := writing(call)):
                found.setdefault(path.relative_to(PACKAGE).as_posix(), set()).add(name)
    return found


def writing(call):
    """The name of a call that writes, or could: a mode that is not written down may be any."""
    dotted = ast.unparse(call.func)
    name = dotted.rpartition(".")[2]
    if name in WRITERS or any(dotted == q or dotted.endswith(f".{q}") for q in QUALIFIED):
        return name
    if name in ("parquet", "csv", "save", "insertInto", "saveAsTable") and ".write" in dotted:
        return f"write.{name}"
    if dotted == "os.open":
        flags = {n.attr for n in ast.walk(call) if isinstance(n, ast.Attribute) and n.attr.startswith("O_")}
        return "" if flags and flags <= {"O_RDONLY", "O_NOFOLLOW", "O_CLOEXEC", "O_DIRECTORY"} else name
    if name in ("open", "fdopen", "ZipFile"):
        second = [*call.args[1:2], *(k.value for k in call.keywords if k.arg == "mode")]
        given = [a.value for a in (*call.args, *second) if isinstance(a, ast.Constant)]
        modes = [m for m in given if isinstance(m, str) and set(m) <= set("rwxabt+")]
        if any(set(m) & set("wxa+") for m in modes) or any(not isinstance(a, ast.Constant) for a in second):
            return name
    return ""


def test_no_module_writes_a_release_but_the_exit():
    found = writers()
    unknown = {name: calls for name, calls in found.items() if name not in EXIT | ELSEWHERE.keys()}
    assert unknown == {}, "write a release through synthesis/exit.py, or say here what else it is"
    assert found.keys() >= EXIT
    assert {*ELSEWHERE} <= {*found}, "these write nothing any more: take them off the list"


@pytest.mark.parametrize(
    "text",
    [
        "pq.write_table(t, p)",
        "path.write_text('x')",
        "path.open('wb')",
        "open(p, mode='a')",
        "np.savez(p, a=1)",
        "np.save(p, a)",
        "os.open(p, flags)",
        "os.open(p, os.O_WRONLY | os.O_CREAT)",
        "open(p, how)",
        "gzip.open(p, 'wb')",
        "ZipFile(p, 'a')",
        "pa.OSFile(p, 'wb')",
        "shutil.move(p, q)",
        "frame.write.mode('append').parquet(p)",
        "pickle.dump(t, f)",
    ],
)
def test_a_writing_call_is_seen(text):
    assert writing(ast.parse(text).body[0].value)


@pytest.mark.parametrize(
    "text", ["path.open('rb')", "open(p)", "os.open(p, os.O_RDONLY)", "ZipFile(p)", "text.replace('a', 'b')"]
)
def test_a_reading_call_is_not(text):
    assert not writing(ast.parse(text).body[0].value)


WATCHED = """
import json, os, sys
from pathlib import Path
here = Path({here!r})
import dipsmith as ds
from assurance.forms import form_schema, form_table
from dipsmith.audit.trial import default_method
from dipsmith.privacy.randomness import generator
package = Path(ds.__file__).parent
written, strange, watching = set(), [], False

def who():
    frame, found = sys._getframe(2), []
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if package in path.parents:
            found.append(path.relative_to(package).as_posix())
        frame = frame.f_back
    return found

def hook(event, arguments):
    if not watching or event not in ("open", "os.rename", "os.link", "os.symlink", "os.truncate", "shutil.copyfile"):
        return
    path = arguments[0] if event == "open" else arguments[1] if len(arguments) > 1 else arguments[0]
    if not isinstance(path, (str, bytes, os.PathLike)):
        return
    place = Path(os.fsdecode(path)).absolute()
    if here / "out" not in place.parents:
        return
    if event == "open":
        mode, flags = arguments[1], arguments[2]
        writes = set(mode or "") & set("wxa+") or (flags or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if not writes:
            return
    stack = who()
    if stack and stack[0] in ("synthesis/exit.py", "synthesis/writing.py"):
        written.add(place.name)
        if stack[0] == "synthesis/writing.py" and event == "open":
            strange.append([event, place.name, stack])
    else:
        strange.append([event, place.name, stack])

sys.addaudithook(hook)
for relation, method, kind in (("label", "forest", "parquet"), ("replace", "mst", "csv")):
    ledger = ds.Ledger(here / "books" / f"{{relation}}.db")
    ledger.grant("formed", ds.PureDP(9), by="auditor")
    watching = True
    release = ds.synthesize(
        form_table(generator(1), 30), form_schema(relation), default_method(method, relation, ("sex", "race")),
        budget=ds.PureDP(1), ledger=ledger, sets=2, each="split",
    )
    release.save(here / "out" / relation, format=kind)
    watching = False
files = {{p.name for p in (here / "out").rglob("*") if p.is_file()}}
print(json.dumps({{"strange": strange, "native": sorted(files - written), "files": sorted(files)}}))
"""


def test_every_file_of_a_release_is_opened_for_writing_by_the_exit_alone(tmp_path):
    """Asked of the interpreter; a file that a library wrote by itself was never opened here, and is found as such."""
    (tmp_path / "out").mkdir()
    (tmp_path / "books").mkdir()
    script = WATCHED.format(here=str(tmp_path))
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout.splitlines()[-1])
    assert found["strange"] == []
    assert found["native"] == [], "written by a library that was given a path"
    assert {"card.json", "card.html", "report.html", "model-1.npz", "synthetic-2.csv"} <= {*found["files"]}
