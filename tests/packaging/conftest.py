"""The distributions of this tree, built once."""

import pytest
from distributions import build


@pytest.fixture(scope="session")
def distributions(tmp_path_factory):
    return build(tmp_path_factory.mktemp("first"), 0o022)


@pytest.fixture(scope="session")
def wheel(distributions):
    return next(path for name, path in distributions.items() if name.endswith(".whl"))


@pytest.fixture(scope="session")
def sdist(distributions):
    return next(path for name, path in distributions.items() if name.endswith(".tar.gz"))
