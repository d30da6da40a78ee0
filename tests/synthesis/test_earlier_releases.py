"""Releases that 0.1.1 made, one by every method: they load, verify, report and draw as they did."""

import zipfile
from pathlib import Path

import pytest

import dipsmith as ds
from dipsmith.methods.catalogue import METHODS

MADE = Path(__file__).parent / "data" / "releases-0.1.1.zip"


@pytest.fixture(scope="module")
def earlier(tmp_path_factory):
    folder = tmp_path_factory.mktemp("earlier")
    with zipfile.ZipFile(MADE) as packed:
        packed.extractall(folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_a_release_of_the_version_before_is_read(earlier, name):
    assert ds.verify(earlier / name).missing == ""
    release = ds.Release.load(earlier / name)
    assert (release.card.version, release.card.method) == ("0.1.1", name)
    table = release.tables[0]
    if release.card.neighbours == "label":
        public = table.select(["age", "grade"])
        assert release.model.label(public, seed=4).num_rows == table.num_rows
    else:
        assert len(release.model.sample(50, seed=4)) == 50
    assert "Noise" in str(release.report_page()) or release.report_page().sections


@pytest.mark.parametrize("name", ["mst", "loglinear"])
def test_the_noise_on_its_columns_is_still_told(earlier, name):
    """Cards of 0.1 name the columns of a measured table in words only."""
    from dipsmith.synthesis.spent import column_noise, table_noise

    release = ds.Release.load(earlier / name)
    found = column_noise(table_noise(release.card, release.schema), release.schema)
    assert found["sex"] is not None
