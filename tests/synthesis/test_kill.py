"""kill -9 at random moments between the reservation and the release."""

import os
import random
import signal
import time

import numpy as np
import pyarrow as pa
import pytest

import dipsmith as ds
from dipsmith.errors import BudgetError

EPSILON = ds.PureDP("0.001")


def work(table, schema, ledger, folder, request):
    release = ds.synthesize(table, schema, ds.Flat(), budget=EPSILON, ledger=ledger, request=request)
    if release.folder is None:
        release.save(folder)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("kills", [25, pytest.param(200, marks=pytest.mark.crowd)])
def test_killed_runs_are_charged_and_never_half_released(tmp_path, kills):
    rng = np.random.default_rng(0)
    table = pa.table({"age": rng.integers(17, 91, 2000)})
    schema = ds.Schema.from_dict(
        {
            "name": "people",
            "unit": "row",
            "neighbours": "replace",
            "fields": [{"name": "age", "type": "integer", "minimum": 17, "maximum": 90}],
        }
    )
    book = tmp_path / "budget.db"
    ds.Ledger(book).grant("people", ds.PureDP(1))
    work(table, schema, ds.Ledger(book), tmp_path / "cold", "cold")
    started = time.perf_counter()
    work(table, schema, ds.Ledger(book), tmp_path / "warm", "warm")
    usual = time.perf_counter() - started
    moments = random.Random(1)
    released = resumed = 0
    for i in range(kills):
        folder, request = tmp_path / f"out{i}", f"r{i}"
        child = os.fork()
        if child == 0:
            try:
                work(table, schema, ds.Ledger(book), folder, request)
            finally:
                os._exit(0)
        time.sleep(moments.uniform(0, 1.2 * usual))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        ledger = ds.Ledger(book)
        runs = {run.id: run for run in ledger.show("people").runs}
        if folder.exists():
            released += 1
            assert ds.verify(folder).rows == 2000
            assert runs[request].state in ("read", "finished")
        before = ledger.show("people").spent
        try:
            work(table, schema, ledger, folder, request)
        except BudgetError:
            assert runs[request].state == "read"
            assert ledger.show("people").spent == before
        else:
            resumed += request not in runs or runs[request].state == "reserved"
            assert ds.verify(folder, ledger).ledger
    statement = ds.Ledger(book).show("people")
    assert statement.spent == pytest.approx((kills + 2) * 0.001)
    assert ds.Ledger(book).verify().rows > kills
    print(f"{kills} kills: {released} after the release was in place, {resumed} before data was read")
