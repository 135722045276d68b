"""The native toy's history, built by whoever comes first and then taken from a cache that all tests share."""

from pathlib import Path

import pytest
from toy_driver import Shared, ToyDriver, toy_driver
from toy_project import ToyProject


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Shared:
    """On main, eight commits of one week after the first one: the 4th is broken, the 6th slow. On quiet, four."""
    folder = tmp_path_factory.mktemp("native_toy")
    project = ToyProject(folder / "toy")
    for number in (1, 2, 3):
        project.commit(f"Change {number}")
    broken = project.commit("Half a change", broken=True)
    project.commit("The other half")
    slow = project.commit("Check every product twice", slow={"mul": 1.6})
    project.commit("Change 7")
    project.commit("Change 8")
    project.branch("quiet", f"{broken}~1")
    project.commit("Change 4, otherwise")
    project.checkout("main")
    return Shared(project, folder, slow, broken)


@pytest.fixture
def driver(shared: Shared, tmp_path: Path) -> ToyDriver:
    """The command on the shared project, with a work directory of its own."""
    return toy_driver(tmp_path, shared.project, shared.caches)
