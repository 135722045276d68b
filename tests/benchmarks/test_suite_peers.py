"""benchmarks/suite_peers.py: what it writes into a suite slows what is drawn, on the treatment alone."""

import importlib
import json
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest
from forked import Forked

from benchmarks import suite_peers

ROOT = Path(__file__).resolve().parents[2]
MODULE = '''
class Base:
    def time_of_base(self):
        return sum(range(100))

class Sums(Base):
    timeout = 7

    def time_sum(self, count):
        """A sum."""
        self.calls = getattr(self, "calls", 0) + 1
        return sum(range(count))

    def time_other(self):
        pass

def time_alone():
    pass
'''


@pytest.fixture(params=["control", "treatment"])
def side(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def module(side: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A suite's module as a tool imports it on a side."""
    suite = tmp_path / "own"
    suite.mkdir()
    (suite / "__init__.py").touch()
    shutil.copy(suite_peers.WRAPPER, suite / "_opduel_slowed.py")
    names = ["sums.Sums.time_sum", "sums.Sums.time_of_base", "sums.time_alone"]
    (suite / "_opduel_slowed.json").write_text(json.dumps(names))
    (suite / "sums.py").write_text(MODULE + suite_peers.APPENDED)
    (tmp_path / "slowed.py").write_text(suite_peers.text_of(side, 0.5))
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("own", "own._opduel_slowed", "own.sums", "slowed"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module("own.sums")


def test_the_benchmarks_drawn_are_slowed_on_the_treatment_alone(module: ModuleType, side: str) -> None:
    sums = module.Sums()
    sums.time_sum(20_000)
    sums.time_of_base()
    module.time_alone()
    (spins,) = sums.time_sum.spins.values()
    assert (spins > 0) == (side == "treatment")
    assert sums.calls >= 5, "calibrated, and called"
    sums.time_sum(20_000)
    assert list(sums.time_sum.spins.values()) == [spins], "calibrated once"
    assert sums.time_of_base.spins
    assert module.time_alone.spins
    assert not hasattr(sums.time_other, "spins")
    assert not hasattr(module.Base().time_of_base, "spins"), "of the class that is listed alone"
    assert (sums.time_sum.__doc__, sums.timeout) == ("A sum.", 7)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [([], "--suite: is missing"), (["--table"], "results.jsonl"), (["--inject", "x"], "--inject")],
)
def test_wrong_usage_is_one_line(arguments: list[str], words: str, tmp_path: Path) -> None:
    with Forked(
        [sys.executable, ROOT / "benchmarks" / "suite_peers.py", "--folder", str(tmp_path), *arguments]
    ) as process:
        _, err = process.communicate()
        assert process.wait() == 2
    assert words in err
    assert len(err.splitlines()) == 1
