"""repo_driver.py on the repository of a Python package: what it would do, and the commit that made it slower."""

import json
import re
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from forked import run_forked
from tiny_package import CODE, NATIVE, PROJECT, Tiny

pytestmark = pytest.mark.wheels
ROOT = Path(__file__).resolve().parent.parent.parent
SPEC = {
    "framework": "python",
    "tests": [{"operator": f"tinysum.{name}", "inputs": {"times": 1}} for name in ("answer", "other")],
}
SUITE = {
    "asv_bench/asv.conf.json": '{"project": "tiny-sum", "repo": "..", "branches": ["HEAD"], "pythons": ["3.11"]}',
    "asv_bench/benchmarks/sums.py": "import tinysum\n\n\ndef time_answer():\n    tinysum.answer(1)\n\n\n"
    "def time_other():\n    tinysum.other(1)\n",
}
RUNS = "SELECT run FROM reports ORDER BY rowid"
OTHER = "\n\ndef other(times):\n    return sum(range(2000))\n"


def command_in(folder: Path, *arguments: str) -> list[str]:
    """The command with a work directory and a cache of its own."""
    spec = folder / "spec.json"
    spec.write_text(json.dumps(SPEC))
    measured = [] if "--suite" in arguments else ["-b", str(spec)]
    command = [sys.executable, str(ROOT / "repo_driver.py"), "--ab_testing", *measured]
    places = ["--work_dir", str(folder / "work"), "--exec_dir", str(folder / "cache")]
    reports = ["--busy_host", "report", "--local_reporter", str(folder / "reports")]
    return [*command, *places, *reports, *arguments]


def driven(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The same, when it has ended."""
    return run_forked(command_in(folder, *arguments))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """Five commits, of which the fourth makes ``answer`` slower, in Python, and the second has other native sources."""
    tiny = Tiny(tmp_path_factory.mktemp("tiny"))
    code = CODE.replace("FACTOR", "2").replace("answer()", "answer(times)") + OTHER
    code = code.replace("return total", "sum(range(1000))\n    return total")
    sources = {"pyproject.toml": PROJECT, "src/tinysum/__init__.py": code, **SUITE}
    tiny.add("first", {**sources, "src/tinysum/_native.c": NATIVE.replace("FACTOR", "10")})
    tiny.add("native", {"src/tinysum/_native.c": NATIVE.replace("FACTOR", "100")})
    tiny.add("python", {"src/tinysum/__init__.py": f"{code}\nANY = 1\n"})
    tiny.add("slower", {"src/tinysum/__init__.py": code.replace("range(1000)", "range(2000)")})
    tiny.add("docs", {"README.md": "Tiny.\n"})
    tiny.open()
    return tiny


def test_what_would_be_done(tiny: Tiny, tmp_path: Path) -> None:
    commits = ("--base_commit", tiny.commits["first"], "--exact_base", "--commit", tiny.commits["docs"])
    process = driven(tmp_path, "--remote_repository", str(tiny.folder), *commits, "--regression", "--dry_run")
    assert process.returncode == 0, process.stderr
    first, native = (tiny.commits[name][:12] for name in ("first", "native"))
    assert f"builds     {first} and {native}: not in the cache yet" in process.stdout


def test_what_would_be_done_with_a_suite_of_the_repository(tiny: Tiny, tmp_path: Path) -> None:
    newest, python = tiny.commits["docs"], tiny.commits["python"]
    suite = ("--suite", f"{tiny.folder}@{newest}:asv_bench")
    commits = ("--base_commit", tiny.commits["native"], "--exact_base", "--commit", python)
    process = driven(tmp_path, *suite, "--bench", "sums.time", *commits, "--dry_run")
    assert process.returncode == 0, process.stderr
    assert f"builds     {tiny.commits['native'][:12]}: not in the cache yet\n" in process.stdout
    assert "1 to measure on the suite's cases that match sums.time; nothing was built or measured" in process.stdout
    assert f"the suite of all commits: {tiny.folder}@{newest}:asv_bench\n" in process.stderr
    assert f"commits of {tiny.folder}, the suite's repository\n" in process.stderr
    assert "not followed" not in process.stderr
    assert not list((tmp_path / "cache").rglob("bin/python"))


def test_the_repository_has_to_be_named(tmp_path: Path) -> None:
    process = driven(tmp_path)
    assert process.returncode == 2
    assert "--ab_testing: python has no repository of its own: name the package's with --remote_rep" in process.stderr


@pytest.mark.nightly
def test_the_commit_that_made_a_suite_slower_is_named(tiny: Tiny, tmp_path: Path) -> None:
    """The repository is the one that the suite's configuration names."""
    commits = ("--base_commit", tiny.commits["first"], "--exact_base", "--commit", tiny.commits["docs"])
    options = (*commits, "--suite", f"{tiny.folder}@{tiny.commits['docs']}:asv_bench", "--time_budget", "30")
    process = driven(tmp_path, *options, "--threshold", "20%", "--regression")
    assert process.returncode == 1, process.stderr
    assert f"first bad: {tiny.commits['slower'][:12]} " in process.stdout
    assert "  sums.time_answer: regressed, +" in process.stdout
    assert "sums.time_other: regressed" not in process.stdout
    reports = list((tmp_path / "reports").rglob("report.json"))
    assert {json.loads(path.read_text())["run"]["suite"]["commit"] for path in reports} == {tiny.commits["docs"]}


@pytest.mark.nightly
def test_the_commit_that_made_it_slower_is_named(tiny: Tiny, tmp_path: Path) -> None:
    commits = ("--base_commit", tiny.commits["first"], "--exact_base", "--commit", tiny.commits["docs"])
    budget = ("--time_budget", "30", "--threshold", "20%")
    process = driven(tmp_path, "--remote_repository", str(tiny.folder), *commits, *budget, "--regression")
    assert process.returncode == 1, process.stderr
    assert f"first bad: {tiny.commits['slower'][:12]} " in process.stdout
    assert "  answer(times=1): regressed, +" in process.stdout
    assert "other(times=1): regressed" not in process.stdout
    assert process.stderr.count("by setuptools.build_meta; log:") == 2  # the others are overlays


def a_line(folder: Path, commits: int, slow: int) -> Tiny:
    """So many commits after the first, of which one makes ``answer`` slower, all in Python."""
    tiny = Tiny(folder)
    code = CODE.replace("FACTOR", "2").replace("answer()", "answer(times)")
    code = code.replace("return total", "sum(range(1000))\n    return total") + OTHER
    native = NATIVE.replace("FACTOR", "10")
    sources = {"pyproject.toml": PROJECT, "src/tinysum/__init__.py": code, "src/tinysum/_native.c": native}
    tiny.add("0", {**sources, **SUITE})
    for number in range(1, commits + 1):
        text = code if number < slow else code.replace("range(1000)", "range(3000)")
        tiny.add(str(number), {"src/tinysum/__init__.py": f"{text}\nANY = {number}\n"})
    tiny.open()
    return tiny


def journal_of(folder: Path, query: str) -> list[tuple[Any, ...]]:
    """The rows of a query of the driver's journal."""
    with closing(sqlite3.connect(f"file:{folder / 'work' / 'journal.db'}?mode=ro", uri=True)) as journal:
        return journal.execute(query).fetchall()


def reported_once(folder: Path) -> list[dict[str, Any]]:
    """The reports in the order in which the runs ended: each is on disk, once, and has no sample twice."""
    reports = [json.loads(text) for (text,) in journal_of(folder, "SELECT text FROM reports ORDER BY rowid")]
    on_disk = [json.loads(path.read_text()) for path in (folder / "reports").rglob("report.json")]
    assert sorted(report["run"]["id"] for report in reports) == sorted(report["run"]["id"] for report in on_disk)
    for row in (row for report in reports for row in report["comparisons"]):
        rounds = [sample["round"] for sample in row["samples"]]
        assert len(set(rounds)) == len(rounds)
    return reports


@pytest.mark.nightly
@pytest.mark.parametrize("cases", ["spec", "suite"])
def test_a_fleet_names_the_same_commit_and_measures_ahead(cases: str, tmp_path: Path) -> None:
    """Sixteen commits, of which the eleventh makes it slower."""
    tiny = a_line(tmp_path, 15, 11)
    commits = ("--base_commit", tiny.commits["0"], "--exact_base", "--commit", tiny.commits["15"])
    suite = ("--suite", f"{tiny.folder}@{tiny.commits['15']}:asv_bench") if cases == "suite" else ()
    options = ("--threshold", "20%", "--regression", "--fleet", "local:2")
    process = driven(tmp_path, "--remote_repository", str(tiny.folder), *commits, *options, *suite)
    assert process.returncode == 1, process.stderr
    assert f"first bad: {tiny.commits['11'][:12]} " in process.stdout
    assert "measuring ahead: " in process.stderr
    assert "1 shard of 1 measured before" in process.stderr
    assert journal_of(tmp_path, "SELECT COUNT(*) FROM rounds") == [(0,)]


@pytest.mark.nightly
def test_the_commits_of_a_night_on_a_fleet_give_what_one_host_gives(tmp_path: Path) -> None:
    """Five commits are due, of which the third makes it slower."""
    tiny = a_line(tmp_path, 5, 3)
    options = ("--base_commit", tiny.commits["0"], "--exact_base", "--threshold", "20%", "--regression")
    outcomes = {}
    for name, fleet in {"alone": (), "fleet": ("--fleet", "local:2")}.items():
        folder = tmp_path / name
        folder.mkdir()
        (folder / "last").write_text(tiny.commits["0"])
        places = ("--remote_repository", str(tiny.folder), "--commit_file", str(folder / "last"))
        process = driven(folder, *places, *options, *fleet)
        assert process.returncode == 1, process.stderr
        assert f"first bad: {tiny.commits['3'][:12]} " in process.stdout
        assert (folder / "last").read_text().strip() == tiny.commits["5"]
        assert journal_of(folder, "SELECT COUNT(*) FROM rounds") == [(0,)]
        reports = reported_once(folder)
        outcomes[name] = [
            [re.sub("/[0-9a-f]{8}/", "/", run, count=1) for (run,) in journal_of(folder, RUNS)],  # of the spec's path
            [(report["run"]["run_type"], report["treatment"]["requested"]) for report in reports],
            [{row["case"]: row["verdict"] for row in report["comparisons"]} for report in reports],
        ]
        ahead = re.findall(rf"measuring ahead: (\w+) against {tiny.commits['0'][:12]}", process.stderr)
        due = {tiny.commits[str(number)][:12] for number in (2, 3, 4, 5)}
        assert due <= set(ahead) if fleet else not ahead, process.stderr
    assert outcomes["fleet"] == outcomes["alone"]


@pytest.mark.nightly
def test_a_night_on_a_fleet_that_is_killed_again_and_again_ends_as_if_nobody_had(tmp_path: Path) -> None:
    """Killed when several commits are under way, and when one was measured ahead, but has not been reported."""
    tiny = a_line(tmp_path, 4, 3)
    (tmp_path / "last").write_text(tiny.commits["0"])
    options = ("--base_commit", tiny.commits["0"], "--exact_base", "--threshold", "20%", "--regression")
    places = ("--remote_repository", str(tiny.folder), "--commit_file", str(tmp_path / "last"))
    arguments = (*places, *options, "--fleet", "local:2")

    def runs_of(event: str) -> set[str]:
        with suppress(sqlite3.OperationalError):  # not made yet
            rows = journal_of(tmp_path, "SELECT run, text FROM rounds")
            return {run for run, text in rows if json.loads(text).get("event") == event}
        return set()

    reported_runs: set[str] = set()
    for under_way in (lambda: len(runs_of("round")) > 1, lambda: bool(runs_of("report"))):
        with subprocess.Popen(command_in(tmp_path, *arguments), cwd=ROOT, stderr=subprocess.DEVNULL) as process:
            while not under_way():
                assert process.poll() is None
                time.sleep(0.02)
            process.kill()
        reported_runs |= runs_of("report")
    process = driven(tmp_path, *arguments)
    assert process.returncode == 1, process.stderr
    assert f"first bad: {tiny.commits['3'][:12]} " in process.stdout
    assert "1 shard of 1 measured before" in process.stderr
    assert reported_runs
    assert journal_of(tmp_path, "SELECT COUNT(*) FROM rounds") == [(0,)]
    measured = [(report["run"]["run_type"], report["treatment"]["requested"]) for report in reported_once(tmp_path)]
    due = [tiny.commits[str(number)][:12] for number in (1, 2, 3, 4)]
    assert [treatment for kind, treatment in measured if kind == "benchmark"] == due
