"""What is published: the same bytes from the same tree, nothing that was not listed, the bill of materials inside."""

import hashlib
import subprocess
import tarfile
import zipfile
from email import message_from_bytes

import pytest
from distributions import OFFLINE, UV, build
from supply.sbom import SBOM

from dipsmith.version import VERSION


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_two_builds_are_the_same_bytes(distributions, tmp_path):
    again = build(tmp_path / "elsewhere", 0o077)
    assert sorted(distributions) == [f"dipsmith-{VERSION}-py3-none-any.whl", f"dipsmith-{VERSION}.tar.gz"]
    assert {name: digest(path) for name, path in again.items()} == {
        name: digest(path) for name, path in distributions.items()
    }


def test_the_source_distribution_holds_the_bill_of_materials(sdist, wheel):
    with tarfile.open(sdist) as archive:
        held = archive.extractfile(f"dipsmith-{VERSION}/supply/{SBOM.name}")
        assert held is not None
        assert held.read() == SBOM.read_bytes()
    with zipfile.ZipFile(wheel) as archive:
        about = message_from_bytes(archive.read(f"dipsmith-{VERSION}.dist-info/METADATA"))
    assert about["Version"] == VERSION


def test_only_what_is_listed_is_published(sdist, wheel):
    with tarfile.open(sdist) as archive:
        names = {name.split("/")[1] for name in archive.getnames()}
    assert names <= {
        *("src", "supply", "constraints.txt", "pyproject.toml", "PKG-INFO", ".gitignore"),
        *("README.md", "LICENSE", "CHANGELOG.md", "SECURITY.md"),
    }
    with zipfile.ZipFile(wheel) as archive:
        assert {name.split("/")[0] for name in archive.namelist()} == {
            "dipsmith",
            f"dipsmith-{VERSION}.dist-info",
        }


@pytest.mark.parametrize(
    ("line", "accepted"),
    [
        (f"dipsmith=={VERSION} --hash=sha256:{{sha256}}", True),
        (f"dipsmith=={VERSION} --hash=sha256:{'0' * 64}", False),
        (f"dipsmith=={VERSION}", False),
        ("", False),
    ],
    ids=["known", "tampered", "no hash", "no pin"],
)
def test_only_files_whose_hash_is_locked_are_installed(wheel, tmp_path, line, accepted):
    """Installation rests on it that the hashes of a constraints file are demanded for all that a project needs."""
    project = '[project]\nname = "office"\nversion = "1"\ndependencies = ["dipsmith"]\n'
    (tmp_path / "pyproject.toml").write_text(project)
    (tmp_path / "constraints.txt").write_text(line.format(sha256=digest(wheel)))
    words = "pip install --require-hashes --constraint constraints.txt -r pyproject.toml --no-deps --target installed"
    command = [UV, *words.split(), *OFFLINE, "--no-index", "--find-links", wheel.parent]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (run.returncode == 0) is accepted, run.stderr
    assert (tmp_path / "installed" / "dipsmith").exists() is accepted
    assert ("hash" in run.stderr.lower()) is not accepted
