"""A user's folders of their own for every test, and harness.py run in this process."""

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import pytest
from command_line import (
    ANYWAY,
    HARNESS,
    SAME_BUILD,
    Outcome,
    harness_main,
    outcome_of,
    run_bench_main,
    run_script,
    write_spec,
)

from opduel.commands import case_selection, listing, local
from opduel.commands.opduel import main
from opduel.frameworks.base import SPECIFICATIONS
from opduel.harness.rounds import pair
from opduel.harness.specs import load_spec
from opduel.harness.specs.model import Spec


@cache
def _shipped_spec(path: Path, categories: tuple[str, ...]) -> Spec:
    return load_spec(path, categories)


_listed = cache(listing._rows)


@pytest.fixture(autouse=True)
def _shipped_specs_are_loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bundle of all of MXNet's operators, which a command takes by default, takes most of a second to load, that of
    NumPy's and SciPy's a third; all specs that a command lists take some."""

    def load(path: Path, categories: Sequence[str] = ()) -> Spec:
        return _shipped_spec(path, tuple(categories)) if SPECIFICATIONS in path.parents else load_spec(path, categories)

    for module in (case_selection, local):
        monkeypatch.setattr(module, "load_spec", load)
    monkeypatch.setattr(listing, "_rows", _listed)


@pytest.fixture
def one_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pair measures a case in one fork: enough for what takes no judging, or for large differences."""
    monkeypatch.setattr(pair, "MOST_FORKS", 1)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder with this user's config and state. The build cache stays the real one."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


@pytest.fixture
def run(home: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Call ``harness.main`` with the given arguments."""
    return lambda *arguments: outcome_of(harness_main, arguments, capsys)


@pytest.fixture
def opduel(home: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Call the command ``opduel`` with the given arguments."""
    return lambda *arguments: outcome_of(main, arguments, capsys)


@pytest.fixture
def bench(home: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Call ``run_bench.main`` with the given arguments."""
    return lambda *arguments: outcome_of(run_bench_main, arguments, capsys)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcome, Path]:
    """A real run that ends by itself, its output in pipes, for programs; and its user's folder.

    A difference below a factor of two is none of its business: four rounds show that there is none, also where rounds
    differ by 40 %.
    """
    folder = tmp_path_factory.mktemp("finished")
    environment = {"XDG_CONFIG_HOME": str(folder / "config"), "XDG_STATE_HOME": str(folder / "state")}
    options = ["-b", write_spec(folder), *SAME_BUILD, *ANYWAY, "--max_rounds", "4", "--threshold", "99%"]
    return run_script(HARNESS, "--tsv", *options, environment=environment), folder
