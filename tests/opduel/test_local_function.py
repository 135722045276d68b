"""opduel.local: a work tree measured from Python, for real, and the errors that it raises."""

from pathlib import Path

import pytest
from plain_package import SLOWER, PlainPackage

import opduel

OPTIONS = {"setup": "x = range(1000)", "threshold": 0.2, "busy_host": "report", "sentinels": 0}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PlainPackage:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return PlainPackage(tmp_path / "checkout")


def measure(package: PlainPackage, *statements: str, **options: object) -> opduel.ABReport:
    places = {"folder": package.folder, "exec_dir": package.folder.parent / "cache"}
    return opduel.local(*statements, **{**places, **OPTIONS, **options})


def test_a_gate_passes_where_nothing_is_changed(package: PlainPackage) -> None:
    unchanged = measure(package, "smoother.smooth(x)")
    assert unchanged.verdicts == {"smoother.smooth(x)": "unchanged"}
    assert unchanged.regressions == []
    assert unchanged.ok


@pytest.mark.nightly  # tests/commands/test_local_package.py measures the same by the command
def test_a_gate_fails_on_a_slower_work_tree(package: PlainPackage) -> None:
    package.write("src/smoother/__init__.py", SLOWER)
    slower = measure(package, "smoother.smooth(x)")
    assert [comparison.case for comparison in slower.regressions] == ["smoother.smooth(x)"], str(slower)
    assert not slower.ok
    assert measure(package, "smoother.smooth(x)").run.id == slower.run.id, "the same work tree is answered at once"


def test_wrong_arguments_are_named_as_they_were_given(package: PlainPackage, tmp_path: Path) -> None:
    for wrong, words in {
        "folder": "folder: ",
        "base": "nope",
        "time_budget": "time_budget: ",
        "no_such": "no_such: there is no such option: see opduel local --help-all",
    }.items():
        value = {"folder": "", "base": "nope", "time_budget": "soon", "no_such": 1}[wrong]
        with pytest.raises(opduel.UsageError, match=words):
            measure(package, "smoother.smooth(x)", **{wrong: value})
    with pytest.raises(opduel.UsageError, match=r"smooth\(: is no Python code"):
        measure(package, "smoother.smooth(")
    with pytest.raises(opduel.UsageError, match="is not in a git checkout"):
        measure(package, "smoother.smooth(x)", folder=tmp_path)
