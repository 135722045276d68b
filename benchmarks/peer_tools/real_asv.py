"""asv itself: ``asv continuous`` on a repository of two commits, interleaved rounds; ``asv compare`` decides.

The repository's package is one list, the cases that are slowed; asv installs either commit's into its environment.
"""

import json
import os
import re
import sysconfig
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.peer_tools.programs import run_program
from benchmarks.peer_tools.trial import Answer, Answers, Bench, Trial
from opduel.records import RunError

INSIDE = Path(__file__).resolve().with_name("inside.py")
TIMEOUT_S = 6 * 3600.0
FACTORS = (1.1, 1.02)  # its default; and our threshold
COMMITS = ("control", "treatment")
MARKS: Mapping[str, Answer] = {"+": "slower", "-": "faster", "": "same", "!": "failed", "*": "failed", "x": "failed"}

INSTALL = """import shutil, sysconfig
shutil.copy("slowed.py", sysconfig.get_path("purelib"))
"""

# A module for each case, made ready when it is imported: asv's processes import that of their benchmark alone.
# (With a setup method, asv 0.6.6 would time single calls.)
MODULE = """import importlib.util
import slowed
spec = importlib.util.spec_from_file_location("inside", {inside!r})
inside = importlib.util.module_from_spec(spec)
spec.loader.exec_module(inside)
once = inside.Operation({case!r}, "treatment" if {case!r} in slowed.CASES else "control").function()


def time_case():
    once()
"""


@dataclass(frozen=True)
class Asv:
    """With so many ``rounds`` a side (its default: 2), each in a fresh process."""

    name: str
    rounds: int
    origin: str = "the real package"

    @property
    def settings(self) -> str:
        """Rounds; all else is its default."""
        return f"{self.rounds} interleaved rounds of 5 samples of 10 ms"

    def set_up(self, bench: Bench) -> None:
        """Have asv make its environment, once; it is kept in the cache."""
        folder = bench.cache / "set-up"
        folder.mkdir(parents=True, exist_ok=True)
        _write_suite(folder, bench, (), Path())
        _asv(bench, folder, Path(), "setup", good=(0, 1))  # asv 0.6.6 ends it in 1 when all went well, too
        if not list((bench.cache / "environments").glob("*/asv-env-info.json")):
            raise RunError(f"asv made no environment; all that it said: {folder / 'said.txt'}")

    def measure(self, trial: Trial) -> Mapping[str, Answers]:
        """One run; each factor decides on the same samples."""
        bench, folder = trial.bench, trial.folder.absolute()
        job = trial.write_job()
        _write_suite(folder, bench, sorted(trial.injected), job)
        cpus = ",".join(map(str, sorted(bench.cpus.measure)))
        measured = ["continuous", *COMMITS, "--cpu-affinity", cpus, "--attribute", f"rounds={self.rounds}"]
        _asv(bench, folder, job, *measured, good=(0, 1, 2))  # 1: something became slower; 2: something failed
        names = [case.id for case in bench.cases]
        return {
            f"{self.name}: compare, factor {factor:g}": parse_compare(
                _asv(bench, folder, job, "compare", *COMMITS, "--factor", str(factor)), names
            )
            for factor in FACTORS
        }


def parse_compare(said: str, cases: Collection[str]) -> dict[str, Answer]:
    """Answers from ``asv compare``'s table, whose benchmarks are ``case_<number>.time_case``.

    A case without a row has failed.

    Raises:
        ValueError: a mark that is not known.
    """
    answers: dict[str, Answer] = dict.fromkeys(cases, "failed")
    names = list(cases)
    for line in said.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        row = re.fullmatch(r"case_(\d+)\.time_case", cells[-1])
        if row:
            if cells[0] not in MARKS:
                raise ValueError(f"asv compare said what can't be read: {line!r}")
            measured = not any(re.match(r"(failed|n/a)", cell) for cell in cells[1:3])
            answers[names[int(row[1])]] = MARKS[cells[0]] if measured else "failed"
    return answers


def _write_suite(folder: Path, bench: Bench, slowed: Collection[str], job: Path) -> None:
    """The repository, the benchmarks and the configuration."""
    suite = folder / "suite"
    suite.mkdir(exist_ok=True)
    (suite / "__init__.py").touch()
    if job != Path():
        for number, case in enumerate(bench.cases):
            text = MODULE.format(inside=str(INSIDE), case=case.id)
            (suite / f"case_{number}.py").write_text(text, encoding="utf-8")
    repository = folder / "repository"
    if not repository.exists():
        _write_repository(repository, bench, slowed)
    config = folder / "asv.conf.json"
    config.write_text(json.dumps(_configuration(folder, bench), indent=1), encoding="utf-8")


def _write_repository(repository: Path, bench: Bench, slowed: Collection[str]) -> None:
    """Two commits, tagged ``control`` and ``treatment``: they differ in ``slowed.CASES``."""
    repository.mkdir()

    def git(*arguments: str) -> None:
        who = ["-c", "user.name=opduel", "-c", "user.email=opduel@localhost", "-c", "commit.gpgsign=false"]
        run_program(["git", *who, *arguments], dict(os.environ), repository, TIMEOUT_S)

    git("init", "--quiet", "--initial-branch=main")
    (repository / ".gitignore").write_text("said.txt\n", encoding="utf-8")
    (repository / "install.py").write_text(INSTALL, encoding="utf-8")
    for name, cases in zip(COMMITS, ([], list(slowed)), strict=True):
        (repository / "slowed.py").write_text(f"COMMIT = {name!r}\nCASES = {cases!r}\n", encoding="utf-8")
        git("add", ".")
        git("commit", "--quiet", "--message", name)
        git("tag", name)


def _configuration(folder: Path, bench: Bench) -> dict[str, Any]:
    return {
        "version": 1,
        "project": "operators",
        "repo": str(folder / "repository"),
        "branches": ["main"],
        "environment_type": "virtualenv",
        "pythons": [sysconfig.get_python_version()],
        "matrix": {"req": {name: [version] for name, version in bench.requirements.items()}},
        "env_dir": str(bench.cache / "environments"),
        "results_dir": str(folder / "results"),
        "html_dir": str(folder / "html"),
        "benchmark_dir": str(folder / "suite"),
        "build_command": [],
        "install_command": ["in-dir={build_dir} python install.py"],
        "uninstall_command": [],
        "default_benchmark_timeout": 300,
    }


def _asv(bench: Bench, folder: Path, job: Path, *arguments: str, good: Collection[int] = (0,)) -> str:
    """Run asv with a home of its own, for it writes there; pip's and git's settings stay the user's."""
    home = bench.cache / "home"
    home.mkdir(parents=True, exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_", "http", "HTTP"))}
    environment = {
        **kept,
        **bench.environment,
        "HOME": str(home),
        "XDG_CONFIG_HOME": os.environ.get("XDG_CONFIG_HOME", str(Path.home() / ".config")),
        "OPDUEL_PEERS_JOB": str(job),
    }
    python = bench.build.interpreter
    config = ["--config", str(folder / "asv.conf.json")]
    if not (home / ".asv-machine.json").exists():
        run_program([python, "-m", "asv", "machine", "--yes", *config], environment, folder, TIMEOUT_S)
    return run_program(
        [python, "-m", "asv", arguments[0], *config, *arguments[1:]], environment, folder, TIMEOUT_S, good
    )
