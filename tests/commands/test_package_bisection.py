"""opduel bisect --packages OLD NEW STATEMENT: real environments, and what can't be meant."""

import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from command_line import ANYWAY, Outcome

from opduel.driver.builds import uv

FAST, SLOW = "def work():\n    return sum(range(2000))\n", "def work():\n    return sum(range(3500))  # slower\n"
Bisect = Callable[..., Outcome]


def environment(folder: Path, **code: str) -> str:
    """An environment with a package of one module for each name."""
    subprocess.run([uv.executable(), "venv", "--quiet", "--python", sys.executable, folder], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    for name, text in code.items():
        described = site / f"{name}-1.0.dist-info"
        described.mkdir()
        (site / f"{name}.py").write_text(text)
        (described / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (described / "RECORD").write_text(f"{name}.py,sha256={len(text)},{len(text)}\n{described.name}/METADATA,,\n")
    return str(folder)


@pytest.fixture(scope="module")
def environments(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("environments")
    old = environment(folder / "old", first="x = 1\n", second=FAST, third="y = 1\n")
    return old, environment(folder / "new", first="x = 2 # new\n", second=SLOW, third="y = 2 # new\n")


@pytest.fixture
def bisect(opduel: Bisect, home: Path, monkeypatch: pytest.MonkeyPatch) -> Bisect:
    monkeypatch.chdir(home)
    monkeypatch.setenv("XDG_STATE_HOME", str(home))
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    return partial(opduel, "bisect", "--simple_local_reporter", str(home / "last"))


@pytest.mark.nightly
def test_the_package_is_found_in_real_environments(
    bisect: Bisect, environments: tuple[str, str], tmp_path: Path
) -> None:
    outcome = bisect("--packages", *environments, "second.work()", "--max_rounds", "8", *ANYWAY)
    assert outcome.code == 1, outcome.err
    assert "3 packages differ: first 1.0 -> 1.0 (other files), second" in outcome.out
    assert "found: second 1.0 -> 1.0 (other files)\n  second.work(): regressed, +" in outcome.out
    (path,) = tmp_path.glob("opduel/driver/*/culprits/*.json")
    (culprit,) = json.loads(path.read_text())["found"]
    assert (culprit["packages"], culprit["partners"], culprit["releases"]) == (["second"], [], [])


def test_a_dry_run_says_in_which_order_packages_are_exchanged(bisect: Bisect, environments: tuple[str, str]) -> None:
    outcome = bisect("--packages", *environments, "second.work()", "--dry_run")
    order = "; ".join(f"{name} 1.0 -> 1.0 (other files)" for name in ("first", "second", "third"))
    assert f"they would be exchanged in this order: {order}; nothing was measured" in outcome.out
    assert outcome.code == 0


def test_what_can_not_be_meant_is_told_in_one_line(
    bisect: Bisect, environments: tuple[str, str], tmp_path: Path
) -> None:
    old, new = environments
    (tmp_path / "empty").mkdir()

    def error(*words: str) -> str:
        outcome = bisect(*words)
        assert (outcome.code, "Traceback" in outcome.err) == (2, False), outcome
        return outcome.err.splitlines()[-1]

    assert "the same packages and Python: give two that differ" in error("--packages", old, old, "1 + 1")
    assert f"{tmp_path / 'empty'}: is no build" in error("--packages", str(tmp_path / "empty"), new, "1 + 1")
    assert "nothing to measure: give builds and a line of Python" in error("--packages", old, new)
    assert "--statement fourth.work(): neither build can execute it: " in error("--packages", old, new, "fourth.work()")
