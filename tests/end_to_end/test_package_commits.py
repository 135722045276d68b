"""repo_driver.py on the repository of a Python package: what it would do, and the commit that made it slower."""

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
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
OTHER = "\n\ndef other(times):\n    return sum(range(2000))\n"


def driven(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command with a work directory and a cache of its own."""
    spec = folder / "spec.json"
    spec.write_text(json.dumps(SPEC))
    measured = [] if "--suite" in arguments else ["-b", str(spec)]
    command = [sys.executable, str(ROOT / "repo_driver.py"), "--ab_testing", *measured]
    places = ["--work_dir", str(folder / "work"), "--exec_dir", str(folder / "cache")]
    reports = ["--busy_host", "report", "--local_reporter", str(folder / "reports")]
    return subprocess.run([*command, *places, *reports, *arguments], cwd=ROOT, capture_output=True, text=True)


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
    ends = ("--base_commit", tiny.commits["first"], "--exact_base", "--commit", tiny.commits["docs"])
    ended = driven(tmp_path, "--remote_repository", str(tiny.folder), *ends, "--regression", "--dry_run")
    assert ended.returncode == 0, ended.stderr
    first, native = (tiny.commits[name][:12] for name in ("first", "native"))
    assert f"compiles   {first} and {native}: " in ended.stdout
    assert f"  {first}: built from source by setuptools.build_meta\n" in ended.stdout


def test_what_would_be_done_with_a_suite_of_the_repository(tiny: Tiny, tmp_path: Path) -> None:
    newest, python = tiny.commits["docs"], tiny.commits["python"]
    suite = ("--suite", f"{tiny.folder}@{newest}:asv_bench")
    ends = ("--base_commit", tiny.commits["native"], "--exact_base", "--commit", python)
    ended = driven(tmp_path, *suite, "--bench", "sums.time", *ends, "--dry_run")
    assert ended.returncode == 0, ended.stderr
    assert f"  {python[:12]}: its Python code over the build of {tiny.commits['native'][:12]}\n" in ended.stdout
    assert "1 to measure on the suite's cases that match sums.time; nothing was built or measured" in ended.stdout
    assert f"the suite of all commits: {tiny.folder}@{newest}:asv_bench\n" in ended.stderr
    assert f"commits of {tiny.folder}, from the suite's configuration\n" in ended.stderr
    assert ended.stderr.count("asv.conf.json: ") == ended.stderr.count("asv.conf.json: pythons: ignored") == 1
    refused = driven(tmp_path, *suite, "--bench", "sums.time_anwser", *ends)
    assert refused.returncode == 2
    assert "-b sums.time_anwser: matches no benchmark of the suite: no file of it or of the" in refused.stderr
    assert "installing" not in refused.stderr
    assert not list((tmp_path / "cache").rglob("bin/python"))


def test_the_repository_has_to_be_named(tmp_path: Path) -> None:
    ended = driven(tmp_path)
    assert ended.returncode == 2
    assert "--ab_testing: python has no repository of its own: name the package's with --remote_rep" in ended.stderr


@pytest.mark.nightly
def test_the_commit_that_made_a_suite_slower_is_named(tiny: Tiny, tmp_path: Path) -> None:
    """The repository is the one that the suite's configuration names."""
    ends = ("--base_commit", tiny.commits["first"], "--exact_base", "--commit", tiny.commits["docs"])
    options = (*ends, "--suite", f"{tiny.folder}@{tiny.commits['docs']}:asv_bench", "--time_budget", "30")
    ended = driven(tmp_path, *options, "--threshold", "20%", "--regression")
    assert ended.returncode == 1, ended.stderr
    assert f"first bad: {tiny.commits['slower'][:12]} " in ended.stdout
    assert "  sums.time_answer: regressed, +" in ended.stdout
    assert "sums.time_other: regressed" not in ended.stdout
    reports = list((tmp_path / "reports").rglob("report.json"))
    assert {json.loads(one.read_text())["run"]["suite"]["commit"] for one in reports} == {tiny.commits["docs"]}


@pytest.mark.nightly
def test_the_commit_that_made_it_slower_is_named(tiny: Tiny, tmp_path: Path) -> None:
    ends = ("--base_commit", tiny.commits["first"], "--exact_base", "--commit", tiny.commits["docs"])
    budget = ("--time_budget", "30", "--threshold", "20%")
    ended = driven(tmp_path, "--remote_repository", str(tiny.folder), *ends, *budget, "--regression")
    assert ended.returncode == 1, ended.stderr
    assert f"first bad: {tiny.commits['slower'][:12]} " in ended.stdout
    assert "  answer_0/forward: regressed, +" in ended.stdout
    assert "other_0/forward: regressed" not in ended.stdout
    assert ended.stderr.count("by setuptools.build_meta; log:") == 2  # the others are overlays


@pytest.mark.nightly
@pytest.mark.parametrize("what", ["spec", "suite"])
def test_a_fleet_names_the_same_commit_and_measures_ahead(what: str, tmp_path: Path) -> None:
    """Sixteen commits, of which the eleventh makes it slower."""
    tiny = Tiny(tmp_path)
    code = CODE.replace("FACTOR", "2").replace("answer()", "answer(times)")
    code = code.replace("return total", "sum(range(1000))\n    return total") + OTHER
    native = NATIVE.replace("FACTOR", "10")
    sources = {"pyproject.toml": PROJECT, "src/tinysum/__init__.py": code, "src/tinysum/_native.c": native}
    tiny.add("0", {**sources, **SUITE})
    for number in range(1, 16):
        text = code if number < 11 else code.replace("range(1000)", "range(3000)")
        tiny.add(str(number), {"src/tinysum/__init__.py": f"{text}\nANY = {number}\n"})
    tiny.open()
    ends = ("--base_commit", tiny.commits["0"], "--exact_base", "--commit", tiny.commits["15"])
    suite = ("--suite", f"{tiny.folder}@{tiny.commits['15']}:asv_bench") if what == "suite" else ()
    options = ("--threshold", "20%", "--regression", "--fleet", "local:2")
    ended = driven(tmp_path, "--remote_repository", str(tiny.folder), *ends, *options, *suite)
    assert ended.returncode == 1, ended.stderr
    assert f"first bad: {tiny.commits['11'][:12]} " in ended.stdout
    assert "measuring ahead: " in ended.stderr
    assert "1 shard of 1 measured before" in ended.stderr
    journal = sqlite3.connect(f"file:{tmp_path / 'work' / 'journal.db'}?mode=ro", uri=True)
    assert journal.execute("SELECT COUNT(*) FROM rounds").fetchone() == (0,)
    journal.close()
