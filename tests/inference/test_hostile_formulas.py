"""A formula only ever does arithmetic, whatever the columns are called that it names."""

import contextlib

import pyarrow as pa
import pytest

import dipsmith as ds
from dipsmith.errors import DipsmithError


def code(mark):
    """A column's name that ends a quoted name, and goes on in Python."""
    return f"x` + I(__import__('os').system('touch {mark}')) + `x"


@pytest.fixture
def mark(tmp_path):
    return tmp_path / "ran"


@pytest.mark.parametrize("written", ['y ~ x + Q("{}")', 'Q("{}") ~ x', "y ~ log(Q(\"{}\")) + x", 'y ~ x | Q("{}")'])
def test_the_name_of_a_column_in_a_loaded_release_is_not_run(tmp_path, mark, written):
    name = code(mark)
    with contextlib.suppress(DipsmithError):
        layout = ds.Schema.from_dict(
            {
                "name": "v",
                "unit": "row",
                "neighbours": "replace",
                "fields": [{"name": n, "type": "boolean"} for n in ("y", "x", name)],
            }
        )
        table = pa.table({"y": [True, False] * 20, "x": [True, True, False, False] * 10, name: [True] * 40})
        release = ds.synthesize(
            table, layout, ds.Flat(), budget=ds.PureDP(2), testing=True, noise_seed=1
        )
        release.save(tmp_path / "release")
        ds.fit(ds.Release.load(tmp_path / "release"), written.format(name), rule="sampling", family="ols")
    assert not mark.exists()
