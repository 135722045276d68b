"""The root commands started by any python3: .venv is entered, or the one command that makes it is said."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest
from command_line import LONG_S, ROOT, Outcome, run_process, run_script
from packaging.specifiers import SpecifierSet

from opduel.commands import bootstrap

# The package, whose links lead to the folders beside it; some tests change what is in commands/.
LINKED = sorted({path.name for path in (ROOT / "opduel").iterdir() if path.is_symlink()} - {"commands"})
SCRIPTS = ("harness.py", "run_bench.py", "repo_driver.py")  # which differ in a name alone: most tests call one
ADDRESS = re.compile(r"make -C .*")


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A newcomer's interpreter: without any of the project's packages."""
    folder = tmp_path_factory.mktemp("newcomer") / "bare"
    base = getattr(sys, "_base_executable", sys.executable)
    subprocess.run([base, "-m", "venv", "--without-pip", str(folder)], check=True)
    return folder / "bin" / "python"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A fresh clone, without .venv, in a folder whose name has a space; what no test changes is linked."""
    folder = tmp_path / "the clone"
    for name in ("opduel", "commands"):
        shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in LINKED:
        (folder / name).symlink_to(ROOT / name)
    for name in (*SCRIPTS, "Makefile", "requirements.lock", "requirements-dev.lock"):
        shutil.copy(ROOT / name, folder / name)
    return folder


def command_said(outcome: Outcome) -> list[str]:
    """The one command that it says, as a shell takes it."""
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.count("\n") == 1
    match = ADDRESS.search(outcome.err)
    assert match
    return shlex.split(match[0])


def test_without_an_environment_it_says_how_to_make_one(bare_python: Path, checkout: Path) -> None:
    command = command_said(run_process([bare_python, checkout / "harness.py", "--help"], cwd=checkout.parent))
    assert command == ["make", "-C", str(checkout), "setup"]


def test_without_an_environment_or_anybody_to_tell_it_ends_in_2(bare_python: Path, checkout: Path) -> None:
    """An error of Python's own would end it in 1, which means a regression."""
    command = f"exec {shlex.quote(str(bare_python))} {shlex.quote(str(checkout / 'harness.py'))} >&- 2>&-"
    assert run_process(["sh", "-c", command]) == Outcome(2, "", "")


def test_the_command_that_it_says_is_one(bare_python: Path, checkout: Path) -> None:
    command = command_said(run_process([bare_python, checkout / "harness.py"]))
    planned = run_process([*command, "--dry-run"])
    assert planned.code == 0
    assert "-m venv .venv" in planned.out


def test_the_environment_is_entered_from_any_folder(bare_python: Path, checkout: Path) -> None:
    (checkout / ".venv").symlink_to(sys.prefix)
    outcome = run_process([bare_python, f"{checkout.name}/repo_driver.py", "--help"], cwd=checkout.parent)
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith("usage: repo_driver.py ")


def test_arguments_and_exit_code_pass_through(bare_python: Path, checkout: Path, tmp_path: Path) -> None:
    (checkout / ".venv").symlink_to(sys.prefix)
    outcome = run_process([bare_python, checkout / "harness.py", "-b", "no  such spec", "--seed=1"])
    assert "'no  such spec'" in outcome.error_line()


def test_it_works_through_a_link_to_the_command(bare_python: Path, checkout: Path, tmp_path: Path) -> None:
    (checkout / ".venv").symlink_to(sys.prefix)
    (tmp_path / "opduel").symlink_to(checkout / "harness.py")
    assert run_process([bare_python, tmp_path / "opduel", "--help"]).code == 0


def test_the_projects_environment_comes_before_another_complete_one(checkout: Path) -> None:
    other = checkout / ".venv" / "bin" / "python"
    other.parent.mkdir(parents=True)
    other.write_text('#!/bin/sh\necho "entered with $*"\n')
    other.chmod(0o755)
    outcome = run_process([sys.executable, "harness.py", "-b", "x y"], cwd=checkout)
    assert outcome == Outcome(0, "entered with harness.py -b x y\n", "")


def test_a_complete_interpreter_will_do_without_the_environment(checkout: Path) -> None:
    assert run_process([sys.executable, checkout / "harness.py", "--help"]).code == 0


@pytest.mark.parametrize("minor", range(6, 21))
def test_it_runs_on_those_pythons_that_the_project_allows(
    minor: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    monkeypatch.setattr(bootstrap, "ENVIRONMENT", str(tmp_path / "none"))
    monkeypatch.setattr(sys, "version_info", (3, minor, 0, "final", 0))
    if SpecifierSet(project["requires-python"]).contains(f"3.{minor}.0"):
        bootstrap.enter()
        return
    with pytest.raises(SystemExit) as end:
        bootstrap.enter()
    assert end.value.code == 2
    assert "make -C" in capsys.readouterr().err


def test_an_incomplete_environment_is_to_be_rebuilt(bare_python: Path, checkout: Path) -> None:
    (checkout / ".venv").symlink_to(bare_python.parent.parent)
    for interpreter in (bare_python, sys.executable):
        command = command_said(run_process([interpreter, checkout / "harness.py", "--help"]))
        assert command == ["make", "-C", str(checkout), "clean", "setup"]


def test_an_environment_from_another_machine_is_to_be_rebuilt(bare_python: Path, checkout: Path) -> None:
    foreign = checkout / ".venv" / "bin" / "python"
    foreign.parent.mkdir(parents=True)
    foreign.write_bytes(b"\x7fELF for another processor")
    foreign.chmod(0o755)
    command = command_said(run_process([bare_python, checkout / "harness.py", "--help"]))
    assert command[-2:] == ["clean", "setup"]


def test_the_scripts_differ_in_their_command_alone() -> None:
    """So that what the other tests find of one of them holds for all."""
    texts = {script: (ROOT / script).read_text(encoding="utf-8").splitlines() for script in SCRIPTS}
    common = {
        tuple(line for line in text if not line.startswith(('"""', "    bootstrap.run("))) for text in texts.values()
    }
    assert len(common) == 1
    for script, text in texts.items():
        assert text[-1] == f'    bootstrap.run("{script}")'


def test_a_damaged_environment_is_no_regression(checkout: Path) -> None:
    (checkout / "commands" / "entry.py").write_text("import no_such_library\n")
    command = command_said(run_process([sys.executable, checkout / "harness.py", "--help-all"]))
    assert command[:2] == ["make", "-C"]


def test_what_runs_before_the_environment_is_old_syntax() -> None:
    early = [
        ROOT / name
        for name in (
            *SCRIPTS,
            "opduel/__init__.py",
            "commands/__init__.py",
            "commands/bootstrap.py",
            "commands/start.py",
        )
    ]
    vermin = [sys.executable, "-c", "import vermin; vermin.main()", "-t=3.6-", "--no-tips", "--violations"]
    outcome = run_process([*vermin, *early])
    assert outcome.code == 0, outcome.out


def test_the_commands_are_executable() -> None:
    for script in SCRIPTS:
        assert os.access(ROOT / script, os.X_OK)
        assert (ROOT / script).read_text(encoding="utf-8").startswith("#!/usr/bin/env python3\n")


@pytest.mark.parametrize("entered", [True, False], ids=["with .venv", "without"])
def test_settings_of_python_change_no_exit_code(checkout: Path, entered: bool) -> None:
    if entered:
        (checkout / ".venv").symlink_to(sys.prefix)
    variables = {"PYTHONSAFEPATH": "1", "PYTHONINSPECT": "1"}
    if entered:
        variables |= {"PYTHONWARNINGS": "error", "PYTHONHOME": sys.base_prefix, "PYTHONPATH": "/nowhere"}
    outcome = run_process([sys.executable, checkout / "harness.py", "-b", "nothing"], variables)
    assert "'nothing'" in outcome.error_line()


def test_broken_settings_of_git_are_no_broken_environment(tmp_path: Path) -> None:
    """They are said by what needs git, and by nothing else."""
    (tmp_path / "broken").write_text("[user\n")
    variables = {"GIT_CONFIG_GLOBAL": str(tmp_path / "broken"), "XDG_STATE_HOME": str(tmp_path)}
    assert run_process([sys.executable, ROOT / "repo_driver.py", "--help"], variables).code == 0
    words = ("--ab_testing", "-b", "smoke", "--remote_repository", tmp_path, "--dry_run")
    error = run_script(ROOT / "repo_driver.py", *words, environment=variables).error_line()
    assert f"bad config line 1 in file {tmp_path}/broken: correct" in error


def test_a_module_that_does_not_load_is_no_regression(checkout: Path) -> None:
    (checkout / "commands" / "entry.py").write_text("raise MemoryError('first\\nsecond')\n")
    outcome = run_process([sys.executable, checkout / "harness.py", "--help-all"])
    assert outcome == Outcome(3, "", "opduel: cannot be loaded: MemoryError: first second\n")


def handles_signals(pid: int) -> bool:
    """Whether the process, or the program that has taken its place, blocks or handles SIGTERM."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    masks = [int(line.split()[1], 16) for line in lines if line.startswith(("SigBlk:", "SigCgt:"))]
    return any(mask >> (signal.SIGTERM - 1) & 1 for mask in masks)


@pytest.mark.parametrize("after_s", [0.0, 0.1, 0.3])
def test_a_signal_while_it_is_loaded_is_one_line(bare_python: Path, checkout: Path, after_s: float) -> None:
    """From the script's first lines on, through entering .venv and importing everything."""
    (checkout / ".venv").symlink_to(sys.prefix)
    number = signal.SIGINT if after_s else signal.SIGTERM
    command = [str(bare_python), str(checkout / "harness.py"), "-b", "all", "--operators", "nothing"]  # takes longer
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while not handles_signals(process.pid):
        assert process.poll() is None
    time.sleep(after_s)
    process.send_signal(number)
    _, err = process.communicate(timeout=LONG_S)
    assert (process.returncode, err) == (3, f"harness.py: stopped by {number.name}\n")


def test_a_signal_that_is_ignored_stays_so(bare_python: Path, checkout: Path) -> None:
    (checkout / ".venv").symlink_to(sys.prefix)
    command = shlex.join([str(bare_python), str(checkout / "harness.py"), "--help"])
    script = f"trap '' HUP; {command} & sleep 0.1; kill -HUP $!; wait $!"
    assert run_process(["sh", "-c", script]).code == 0


def test_setup_compiles_all_that_a_start_imports() -> None:
    """With PYTHONDONTWRITEBYTECODE set, each start would do it again."""
    command = ["make", "--dry-run", "--always-make", "setup"]
    lines = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    assert any("uv pip install" in line and "--compile-bytecode" in line for line in lines)
    (compiling,) = [line for line in lines if "compileall" in line]
    packages = {
        path.name for path in (ROOT / "opduel").iterdir() if path.is_symlink() and (path / "__init__.py").exists()
    }
    assert packages <= set(compiling.split())
