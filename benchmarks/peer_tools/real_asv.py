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
FACTOR = 1.1  # its default
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
    threshold: float  # a share: 1 and this is the second factor
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
        make_environment(_program(bench, Path()), folder)

    def measure(self, trial: Trial) -> Mapping[str, Answers]:
        """One run; each factor decides on the same samples."""
        bench, folder = trial.bench, trial.folder.absolute()
        job = trial.write_job()
        _write_suite(folder, bench, sorted(trial.injected), job)
        cpus = ",".join(map(str, sorted(bench.cpus.measure)))
        measured = ["continuous", *COMMITS, "--cpu-affinity", cpus, "--attribute", f"rounds={self.rounds}"]
        program = _program(bench, job)
        program.run(folder, *measured, good=(0, 1, 2))  # 1: something became slower; 2: something failed
        names = {f"case_{number}.time_case": case.id for number, case in enumerate(bench.cases)}
        return compare(self.name, program, folder, names, self.threshold)


@dataclass(frozen=True)
class Program:
    """asv in an interpreter, with a home and environments in ``cache``; ``environment``: variables that it gets."""

    python: str
    cache: Path
    environment: Mapping[str, str]

    def run(self, folder: Path, *arguments: str, good: Collection[int] = (0,)) -> str:
        """What it said, with the configuration in ``folder``. It has a home of its own, for it writes there; pip's and
        git's settings stay the user's. RunError: it ended with a code that isn't ``good``."""
        home = self.cache / "home"
        home.mkdir(parents=True, exist_ok=True)
        kept = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_", "http", "HTTP"))}
        environment = {
            **kept,
            **self.environment,
            "HOME": str(home),
            "XDG_CONFIG_HOME": os.environ.get("XDG_CONFIG_HOME", str(Path.home() / ".config")),
        }
        command = [self.python, "-m", "asv"]
        config = ["--config", str(folder / "asv.conf.json")]
        if not (home / ".asv-machine.json").exists():
            run_program([*command, "machine", "--yes", *config], environment, folder, TIMEOUT_S)
        return run_program([*command, arguments[0], *config, *arguments[1:]], environment, folder, TIMEOUT_S, good)


def make_environment(program: Program, folder: Path) -> None:
    """Have asv make the environment that it measures in; RunError: it made none."""
    program.run(folder, "setup", good=(0, 1))  # asv 0.6.6 ends it in 1 when all went well, too
    if not list((program.cache / "environments").glob("*/asv-env-info.json")):
        raise RunError(f"asv made no environment; all that it said: {folder / 'said.txt'}")


def compare(
    name: str, program: Program, folder: Path, cases: Mapping[str, str], threshold: float
) -> dict[str, Answers]:
    """What asv's default factor and that of ``threshold`` (a share) say of the samples that are there. ``cases``:
    benchmark as asv prints it -> case id."""
    return {
        f"{name}: compare, factor {factor:g}": parse_compare(
            program.run(folder, "compare", *COMMITS, "--factor", str(factor)), cases
        )
        for factor in (FACTOR, 1 + threshold)
    }


def parse_compare(said: str, cases: Mapping[str, str]) -> dict[str, Answer]:
    """Answers from ``asv compare``'s table, by case id. ``cases``: benchmark as asv prints it -> case id.

    A case without a row has failed.

    Raises:
        ValueError: a mark that is not known.
    """
    answers: dict[str, Answer] = dict.fromkeys(cases.values(), "failed")
    for line in said.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if cells[-1] in cases:
            if cells[0] not in MARKS:
                raise ValueError(f"asv compare said what can't be read: {line!r}")
            measured = not any(re.match(r"(failed|n/a)", cell) for cell in cells[1:3])
            answers[cases[cells[-1]]] = MARKS[cells[0]] if measured else "failed"
    return answers


def _program(bench: Bench, job: Path) -> Program:
    return Program(bench.build.interpreter, bench.cache, {**bench.environment, "OPDUEL_PEERS_JOB": str(job)})


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
        write_repository(repository, {"control": "CASES = []\n", "treatment": f"CASES = {list(slowed)!r}\n"})
    write_configuration(folder, bench.requirements, bench.cache)


def write_repository(repository: Path, texts: Mapping[str, str]) -> None:
    """Two commits, tagged ``control`` and ``treatment``, each of which installs its module ``slowed``: its text."""
    repository.mkdir()

    def git(*arguments: str) -> None:
        who = ["-c", "user.name=opduel", "-c", "user.email=opduel@localhost", "-c", "commit.gpgsign=false"]
        run_program(["git", *who, *arguments], dict(os.environ), repository, TIMEOUT_S)

    git("init", "--quiet", "--initial-branch=main")
    (repository / ".gitignore").write_text("said.txt\n", encoding="utf-8")
    (repository / "install.py").write_text(INSTALL, encoding="utf-8")
    for name in COMMITS:
        (repository / "slowed.py").write_text(f"COMMIT = {name!r}\n{texts[name]}", encoding="utf-8")
        git("add", ".")
        git("commit", "--quiet", "--message", name)
        git("tag", name)


def write_configuration(folder: Path, requirements: Mapping[str, str], cache: Path) -> None:
    """asv's, for the repository and the suite in ``folder``. ``requirements``: name -> version."""
    said: dict[str, Any] = {
        "version": 1,
        "project": "operators",
        "repo": str(folder / "repository"),
        "branches": ["main"],
        "environment_type": "virtualenv",
        "pythons": [sysconfig.get_python_version()],
        "matrix": {"req": {name: [version] for name, version in requirements.items()}},
        "env_dir": str(cache / "environments"),
        "results_dir": str(folder / "results"),
        "html_dir": str(folder / "html"),
        "benchmark_dir": str(folder / "suite"),
        "build_command": [],
        "install_command": ["in-dir={build_dir} python install.py"],
        "uninstall_command": [],
        "default_benchmark_timeout": 300,
    }
    (folder / "asv.conf.json").write_text(json.dumps(said, indent=1), encoding="utf-8")
