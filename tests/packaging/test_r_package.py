"""The R package: checked by R itself, and its numbers are Python's to the last bit."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import dipsmith as ds
from dipsmith.version import VERSION

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "r"
RELEASE = PACKAGE / "inst" / "extdata" / "release"
FORMULA = "log(pay) ~ sex"


@pytest.fixture(scope="module")
def rscript():
    found = shutil.which("Rscript")
    if found is None:
        if os.environ.get("CI"):
            pytest.fail("NOT TESTED: there is no R; apt-get install r-base-core")
        pytest.skip("NOT TESTED: there is no R; make test installs it")
    return found


def run(*words, cwd, **more):
    environment = os.environ | {"DIPSMITH": str(Path(sys.executable).with_name("dipsmith")), "LC_ALL": "C.UTF-8"} | more
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.server
@pytest.mark.slow
def test_r_checks_the_package_and_finds_nothing(rscript, tmp_path):
    """`R CMD check --no-manual`, its tests and vignette included; then a regression whose numbers are Python's."""
    source = shutil.copytree(PACKAGE, tmp_path / "r")
    built = run("R", "CMD", "build", str(source), cwd=tmp_path)
    (archive,) = tmp_path.glob("dipsmith_*.tar.gz")
    assert built.returncode == 0, built.stdout + built.stderr
    checked = run("R", "CMD", "check", "--no-manual", archive.name, cwd=tmp_path, _R_CHECK_FORCE_SUGGESTS_="false")
    log = (tmp_path / "dipsmith.Rcheck" / "00check.log").read_text("utf-8")
    assert checked.returncode == 0, log
    assert re.search(r"^Status: (OK|\d NOTEs?)$", log, re.MULTILINE), log
    script = (
        f"library(dipsmith, lib.loc = 'dipsmith.Rcheck'); fit <- dips_fit('{RELEASE}', {FORMULA}); "
        "stopifnot(identical(broom::tidy(fit)$estimate, fit$table$estimate)); "
        "cat(sprintf('%a %a %a %a\\n', fit$table$estimate, fit$table$std_error, fit$table$low, fit$table$high))"
    )
    page = (ROOT / "docs" / "how-to" / "r.md").read_text("utf-8")
    (shown,) = re.findall(r"^```r\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "page.R").write_text(f".libPaths(c('dipsmith.Rcheck', .libPaths()))\n{shown}")
    walked = run(rscript, "page.R", cwd=tmp_path)
    assert walked.returncode == 0, walked.stderr
    assert "not carried" in walked.stdout
    assert "Against: sex = F" in walked.stdout
    told = run(rscript, "-e", script, cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    here = ds.fit(ds.Release.load(RELEASE), FORMULA).to_arrow().to_pylist()
    numbers = [[float.fromhex(word) for word in line.split()] for line in told.stdout.split("\n") if line.strip()]
    assert numbers == [[line[name] for name in ("estimate", "std_error", "low", "high")] for line in here]


def test_the_version_is_pythons():
    assert f"\nVersion: {VERSION}\n" in (PACKAGE / "DESCRIPTION").read_text("utf-8")


def test_every_function_is_documented():
    exported = re.findall(r"^export\((\w+)\)$", (PACKAGE / "NAMESPACE").read_text("utf-8"), re.MULTILINE)
    documented = "".join(page.read_text("utf-8") for page in (PACKAGE / "man").glob("*.Rd"))
    assert all(f"\\alias{{{name}}}" in documented for name in exported)


def test_the_example_of_the_package_is_a_whole_release():
    assert ds.verify(RELEASE).sets == 1
