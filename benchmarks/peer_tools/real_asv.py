"""asv itself: ``asv continuous`` on a repository of two commits, interleaved rounds; ``asv compare`` decides.

The repository's package is one list, the cases that are slowed; asv installs either commit's into its environment.
"""

import json
import os
import re
import sysconfig
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.peer_tools.programs import LOG, run_program
from benchmarks.peer_tools.trial import Answer, Answers, Bench, Tool, Trial
from opduel.records import RunError

INSIDE = Path(__file__).resolve().with_name("inside.py")
FACTOR = 1.1  # its default
COMMITS = ("control", "treatment")
MARKS: Mapping[str, Answer] = {"+": "slower", "-": "faster", "": "same", "!": "failed", "*": "failed", "x": "failed"}
PASSED_ON = ("PIP_", "SSL_", "http", "HTTP")  # variables of the user's that asv needs to install

INSTALL = """import shutil, sysconfig
shutil.copy("slowed.py", sysconfig.get_path("purelib"))
"""

# A module for each case, prepared at import: asv's processes import that of their benchmark alone. (With a setup
# method, asv 0.6.6 would time single calls.)
MODULE = """import importlib.util
import slowed
spec = importlib.util.spec_from_file_location("inside", {inside!r})
inside = importlib.util.module_from_spec(spec)
spec.loader.exec_module(inside)
run = inside.Operation({case!r}, "treatment" if {case!r} in slowed.CASES else "control").function()


def time_case():
    run()
"""


def asv(threshold: float) -> Tool:
    """Return asv with its default of 2 rounds a side, each in a fresh process; its default factor, and 1 and the
    threshold (a share), decide on the same samples."""
    return Tool("asv", "2 interleaved rounds of 5 samples of 10 ms", partial(_measure, (FACTOR, 1 + threshold)))


def make_environment(bench: Bench) -> None:
    """Have asv make its environment, which stays in the cache.

    Raises:
        RunError: it made none.
    """
    folder = bench.cache / "set-up"
    folder.mkdir(parents=True, exist_ok=True)
    write_suite(folder, bench)
    run_asv(bench, folder, "setup", good=(0, 1))  # asv 0.6.6 exits with 1 in any case
    if not list((bench.cache / "environments").glob("*/asv-env-info.json")):
        raise RunError(f"asv made no environment; its output: {folder / LOG}")


def _measure(factors: Sequence[float], trial: Trial) -> Mapping[str, Answers]:
    bench, folder = trial.bench, trial.folder.absolute()
    variables = {"OPDUEL_PEERS_JOB": str(trial.write_job())}
    write_suite(folder, bench, sorted(trial.injected), with_cases=True)
    cpus = ",".join(map(str, sorted(bench.cpus.measure)))
    command = ["continuous", *COMMITS, "--cpu-affinity", cpus, "--attribute", "rounds=2"]
    run_asv(bench, folder, *command, variables=variables, good=(0, 1, 2))  # 1: slower, 2: something failed
    names = {f"case_{number}.time_case": case.id for number, case in enumerate(bench.cases)}
    answers = {}
    for factor in factors:
        output = run_asv(bench, folder, "compare", *COMMITS, "--factor", str(factor))
        answers[f"asv: compare, factor {factor:g}"] = parse_compare(output, names)
    return answers


def run_asv(
    bench: Bench,
    folder: Path,
    *arguments: str,
    variables: Mapping[str, str] | None = None,
    good: Collection[int] = (0,),
) -> str:
    """Run asv with the configuration in ``folder``, and return its output. It writes to its home, so it gets one of its
    own; pip's and git's settings stay the user's.

    Raises:
        RunError: it ended with a code that isn't ``good``.
    """
    home = bench.cache / "home"
    home.mkdir(parents=True, exist_ok=True)
    environment = {
        **{name: value for name, value in os.environ.items() if name.startswith(PASSED_ON)},
        **bench.environment,
        **(variables or {}),
        "HOME": str(home),
        "XDG_CONFIG_HOME": os.environ.get("XDG_CONFIG_HOME", str(Path.home() / ".config")),
    }
    command = [bench.build.interpreter, "-m", "asv"]
    config = ["--config", str(folder / "asv.conf.json")]
    if not (home / ".asv-machine.json").exists():
        run_program([*command, "machine", "--yes", *config], environment, folder)
    return run_program([*command, arguments[0], *config, *arguments[1:]], environment, folder, good)


def parse_compare(output: str, cases: Mapping[str, str]) -> dict[str, Answer]:
    """Parse ``asv compare``'s table into answers by case id; a case without a row has failed.

    ``cases``: benchmark as asv prints it -> case id.

    Raises:
        ValueError: a mark is unknown.
    """
    answers: dict[str, Answer] = dict.fromkeys(cases.values(), "failed")
    for line in output.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if cells[-1] in cases:
            if cells[0] not in MARKS:
                raise ValueError(f"asv compare printed a line that can't be read: {line!r}")
            measured = not any(re.match(r"(failed|n/a)", cell) for cell in cells[1:3])
            answers[cases[cells[-1]]] = MARKS[cells[0]] if measured else "failed"
    return answers


def write_suite(folder: Path, bench: Bench, slowed: Collection[str] = (), with_cases: bool = False) -> None:
    """Write the repository, the configuration, and a benchmark for each case, or none to only make the environment."""
    suite = folder / "suite"
    suite.mkdir(exist_ok=True)
    (suite / "__init__.py").touch()
    for number, case in enumerate(bench.cases if with_cases else ()):
        module = MODULE.format(inside=str(INSIDE), case=case.id)
        (suite / f"case_{number}.py").write_text(module, encoding="utf-8")
    repository = folder / "repository"
    if not repository.exists():
        write_repository(repository, slowed)
    configuration: dict[str, Any] = {
        "version": 1,
        "project": "operators",
        "repo": str(repository),
        "branches": ["main"],
        "environment_type": "virtualenv",
        "pythons": [sysconfig.get_python_version()],
        "matrix": {"req": {name: [version] for name, version in bench.requirements.items()}},
        "env_dir": str(bench.cache / "environments"),
        "results_dir": str(folder / "results"),
        "html_dir": str(folder / "html"),
        "benchmark_dir": str(suite),
        "build_command": [],
        "install_command": ["in-dir={build_dir} python install.py"],
        "uninstall_command": [],
        "default_benchmark_timeout": 300,
    }
    (folder / "asv.conf.json").write_text(json.dumps(configuration, indent=1), encoding="utf-8")


def write_repository(repository: Path, slowed: Collection[str]) -> None:
    """Write two tagged commits; that of the treatment installs the ids of the slowed cases."""
    repository.mkdir()

    def git(*arguments: str) -> None:
        author = ["-c", "user.name=opduel", "-c", "user.email=opduel@localhost", "-c", "commit.gpgsign=false"]
        run_program(["git", *author, *arguments], dict(os.environ), repository)

    git("init", "--quiet", "--initial-branch=main")
    (repository / ".gitignore").write_text(f"{LOG}\n", encoding="utf-8")
    (repository / "install.py").write_text(INSTALL, encoding="utf-8")
    for commit, cases in zip(COMMITS, ([], list(slowed)), strict=True):
        text = f"COMMIT = {commit!r}\nCASES = {cases!r}\n"
        (repository / "slowed.py").write_text(text, encoding="utf-8")
        git("add", ".")
        git("commit", "--quiet", "--message", commit)
        git("tag", commit)
