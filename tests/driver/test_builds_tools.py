"""What the strategies stand on: interpreters found, uv's words understood, the probe inside a build."""

import json
import os
import runpy
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from toy_framework import PYTHON, Toy

from opduel.driver.builds import interpreters, uv
from opduel.driver.builds.interpreters import find_interpreter
from opduel.driver.builds.probe import ProbeError, compilers_in, probe
from opduel.driver.builds.process import MOST_OUTPUT, Outcome, clean_environment, run
from opduel.driver.builds.uv import explain
from opduel.records import NoSpaceError, RunError

INSIDE = Path(interpreters.__file__).with_name("inside.py")


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without interpreters but those that the test puts into the folder."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'one'}:{tmp_path / 'two'}:")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    monkeypatch.setenv("UV_PYTHON_INSTALL_DIR", str(tmp_path / "uv"))
    return tmp_path


def test_the_running_interpreter_comes_first_and_is_no_environments(nowhere: Path) -> None:
    interpreter = find_interpreter(PYTHON, nowhere)
    prefix = run([interpreter, "-c", "import sys; print(sys.prefix == sys.base_prefix)"], timeout=60)
    assert prefix.stdout.strip() == "True"


def test_a_shim_that_does_not_run_is_passed_over(nowhere: Path) -> None:
    script(nowhere / "one" / "python3.98", "echo 'pyenv: python3.98: command not found' >&2; exit 127")
    script(nowhere / "two" / "python3.98", "echo cpython 3.98 /real/python3.98")
    assert find_interpreter("3.98", nowhere) == Path("/real/python3.98")


@pytest.mark.parametrize(
    "answer",
    ["echo cpython 3.97 /real", "echo pypy 3.98 /real", "echo hello", "exit 0", "echo cpython 3.98 /x; exit 1"],
)
def test_another_interpreter_under_that_name_is_passed_over(nowhere: Path, answer: str) -> None:
    script(nowhere / "one" / "python3.98", answer)
    with pytest.raises(RunError, match=r"no Python 3\.98 found"):
        find_interpreter("3.98", nowhere)


def test_pyenv_gives_its_newest_patch_release(nowhere: Path) -> None:
    for version in ("3.98.2", "3.98.10", "3.9.8", "3.981.0", "3.98-dev"):
        path = nowhere / "pyenv" / "versions" / version / "bin" / "python3.98"
        script(path, f"echo cpython {version.rpartition('.')[0]} {path}")
    assert find_interpreter("3.98", nowhere) == nowhere / "pyenv" / "versions" / "3.98.10" / "bin" / "python3.98"


@pytest.mark.parametrize("place", ["usr/bin", "opt/python3.98/bin", "opt/python/cp398-cp398/bin"])
def test_system_folders_are_searched(nowhere: Path, place: str) -> None:
    script(nowhere / place / "python3.98", "echo cpython 3.98 /real/python3.98")
    assert find_interpreter("3.98", nowhere) == Path("/real/python3.98")


def test_none_names_the_places_and_the_fix(nowhere: Path) -> None:
    with pytest.raises(RunError) as caught:
        find_interpreter("3.98", nowhere)
    assert str(nowhere / "pyenv" / "versions") in str(caught.value)
    assert "install Python 3.98" in str(caught.value)
    assert "the path of another environment" in str(caught.value)


# uv 0.13.9's own words, as seen.
@pytest.mark.parametrize(
    ("words", "meaning"),
    [
        (
            "error: Failed to install: toy-1.0-py3-none-any.whl (toy==1.0)\n  cause: Failed to copy to `/x/libtoy.so`\n"
            "  cause: failed to copy file from /a to /b: No space left on device (os error 28)",
            "the disk is full",
        ),
        (
            "error: failed to create directory `/x`\n  cause: Permission denied (os error 13)",
            "a folder can't be written",
        ),
        (
            "error: No solution found when resolving dependencies\n  cause: Because toy==1.0 has no wheels with a"
            " matching Python implementation tag (e.g., `cp311`) and you require toy==1.0, we can conclude that your"
            " requirements are unsatisfiable.",
            "no wheel for this Python and platform (toy==1.0 has no wheels with a matching",
        ),
        (
            "error: No solution found when resolving dependencies\n  cause: Because toy was not found in the package"
            " registry and you require toy==1.0, we can conclude that your requirements are unsatisfiable.",
            "the package index has no such version (toy was not found in the package registry)",
        ),
        (
            "error: No solution found when resolving dependencies\n  cause: Because toy was not found in the cache and"
            " you require toy==1.0, we can conclude that your requirements are unsatisfiable.\n\nhint: Packages were"
            " unavailable because the network was disabled.",
            "the package index can't be reached (toy was not found in the cache)",
        ),
        (
            "error: Failed to fetch: http://index.invalid/simple/toy/\n  cause: error sending request for url\n"
            "  cause: dns error\n  cause: failed to lookup address information: Name or service not known",
            "the package index can't be reached (failed to lookup address information: Name or service not known)",
        ),
        ("error: something new\n  cause: the moon", "the moon: fix what uv names"),
        ("", "ended with exit code 2 and no output"),
    ],
)
def test_uvs_words_are_understood(words: str, meaning: str) -> None:
    message = explain(Outcome(2, "", words))
    assert message.startswith(meaning)
    assert "\n" not in message


def test_a_full_disk_is_known_from_uvs_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = uv.FreshEnvironment(tmp_path, Path(sys.executable), os.open(tmp_path, os.O_RDONLY))
    full = Outcome(2, "", "error: failed to create directory `/x`\n  cause: No space left on device (os error 28)")
    monkeypatch.setattr(uv, "run", lambda *_, **__: full)
    for make in (
        lambda: uv.FreshEnvironment(Path("/x"), Path("/python"), 0),
        lambda: environment.install("x", []),
    ):
        with pytest.raises(NoSpaceError, match="the disk is full: free some space"):
            make()


def test_all_modules_but_tests_are_compiled(tmp_path: Path) -> None:
    place = tmp_path / "tests" / "build"  # the name of a folder above doesn't matter
    environment = uv.FreshEnvironment(place, Path(sys.executable), os.open(tmp_path, os.O_RDONLY))
    (package := next(place.glob("lib/python*/site-packages")) / "toy").mkdir()
    (package / "tests").mkdir()
    for name in ("__init__", "never_imported", "tests/test_it"):
        (package / f"{name}.py").write_text("x = 1\n")
    (package / "template.py").write_text("def {name} (\n")
    environment.compile_modules()
    assert {path.name.partition(".")[0] for path in package.rglob("*.pyc")} == {"__init__", "never_imported"}


def test_the_reason_that_a_build_does_not_import_is_its_exception(tmp_path: Path) -> None:
    """Not what a native library prints after it."""
    (tmp_path / "toy.py").write_text(
        "import atexit, os\n"
        "atexit.register(lambda: os.write(2, b'[10:57:33] ../src/engine.cc:54: start using engine: Naive\\n'))\n"
        "import half_written\n"
    )
    (tmp_path / "half_written.py").write_text("def (\n")
    interpreter = script(tmp_path / "python", f'PYTHONPATH={tmp_path} exec {sys.executable} "$@"')
    with pytest.raises(ProbeError, match=r"^SyntaxError: invalid syntax \(.*half_written\.py, line 1\)$"):
        probe(interpreter, Toy(tmp_path))


@pytest.mark.parametrize("stream", ["", ">&2"])
def test_a_program_that_prints_for_ever_is_stopped(tmp_path: Path, stream: str) -> None:
    """Within bounds: what it prints is not kept beyond them, and nobody waits for the time limit."""
    interpreter = script(tmp_path / "python", f"exec yes {stream}")
    with pytest.raises(ProbeError, match=r"^stopped: it printed more than 64 MiB$"):
        probe(interpreter, Toy(tmp_path))
    outcome = run([interpreter], timeout=60)
    assert (outcome.code, outcome.flooded, outcome.ok) == (None, True, False)
    assert MOST_OUTPUT <= len(outcome.stdout + outcome.stderr) < MOST_OUTPUT + 2**20


def test_a_program_is_waited_for_when_it_has_closed_its_output(tmp_path: Path) -> None:
    assert run(["sh", "-c", "exec >&- 2>&-; sleep 0.1; exit 7"], timeout=60) == Outcome(7, "", "")
    assert run(["sh", "-c", "exec >&- 2>&-; exec sleep 60"], timeout=0.2) == Outcome(None, "", "")
    outcome = run(["sh", "-c", "echo said; sleep 60 & echo $!; wait"], timeout=2)
    said, started = outcome.stdout.splitlines()
    assert (outcome.code, said, outcome.stderr) == (None, "said", "")
    command = Path(f"/proc/{started}/cmdline")
    assert not command.exists() or not command.read_bytes(), "it would hold on to the build's lock"


@pytest.mark.parametrize("command", ["sleep 60", "yes"])
def test_what_a_program_leaves_behind_is_ended(command: str) -> None:
    """It would hold on to the build's lock, as an executor's processes do that was not shut down."""
    outcome = run(["sh", "-c", f"{command} & head -c 3000000 /dev/zero; echo $! >&2; exit 3"], timeout=30)
    assert outcome.code == 3
    assert len(outcome.stdout) >= 3_000_000
    left_behind = Path(f"/proc/{outcome.stderr.strip()}/cmdline")
    deadline = time.monotonic() + 20
    while left_behind.exists() and left_behind.read_bytes():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_output_tail_shows_how_it_ended() -> None:
    assert Outcome(-11, "", "").output_tail == "died of SIGSEGV"
    assert Outcome(None, "", "x").output_tail == "no answer in time"
    assert Outcome(1, "", "first\nlast\n\n").output_tail == "last"
    assert run([sys.executable, "-c", "import time; time.sleep(60)"], timeout=0.2).code is None


def test_a_clean_environment_keeps_index_settings_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    redirecting = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "CONDA_PREFIX", "UV_PYTHON", "UV_CONSTRAINT"}
    secret = {"OPDUEL_GIT_TOKEN", "OPDUEL_GITLAB_TOKEN", "GITHUB_TOKEN", "GH_TOKEN"}
    for name in redirecting | secret:
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("UV_DEFAULT_INDEX", "kept")
    cleaned = clean_environment({"EXTRA": "1"})
    assert not (redirecting | secret) & set(cleaned)
    assert (cleaned["UV_DEFAULT_INDEX"], cleaned["EXTRA"]) == ("kept", "1")


def test_the_code_inside_a_build_is_python_3_6() -> None:
    vermin = Path(sys.executable).with_name("vermin")
    process = subprocess.run([vermin, "-q", "--violations", "-t=3.6-", INSIDE], capture_output=True, text=True)
    assert process.returncode == 0, process.stdout


def test_inside_reads_metadata_of_every_kind(tmp_path: Path) -> None:
    package = tmp_path / "thing"
    package.mkdir()
    (package / "__init__.py").write_text("__version__ = '7'; print('noise'); import json.tool")
    (tmp_path / "Some_Name-1.0.dist-info").mkdir()
    (tmp_path / "Some_Name-1.0.dist-info" / "METADATA").write_text("Name: Some_Name\nVersion: 1.0\n\nName: body\n")
    (tmp_path / "old-2.0-py3.7.egg-info").write_text("Metadata-Version: 1.0\nName: old\nVersion: 2.0\n")
    (tmp_path / "dev.egg-info").mkdir()
    (tmp_path / "dev.egg-info" / "PKG-INFO").write_text("Name: dev\nVersion: 3.0\n")
    process = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.argv = ['x', 'thing']; sys.path[:0] = ['', {str(tmp_path)!r}];"
         f"exec(compile(open({str(INSIDE)!r}).read(), 'inside', 'exec'))"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    answer = json.loads(process.stdout)
    assert answer["version"] == "7"
    assert answer["location"] == str(package)
    assert {"some-name": "1.0", "old": "2.0", "dev": "3.0"}.items() <= answer["packages"].items()
    assert set(answer["files"]) == {"__init__.py"}


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_a_library_names_its_compiler(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text("int f(void) { return 1; }\n")
    package = tmp_path / "toy"
    package.mkdir()
    subprocess.run(["gcc", "-shared", "-o", "toy/a.so", "a.c"], cwd=tmp_path, check=True)
    version = subprocess.run(["gcc", "-dumpfullversion"], capture_output=True, text=True, check=True).stdout.strip()
    (package / "__init__.py").write_text("__version__ = '1'\n")
    interpreter = script(tmp_path / "python", f'PYTHONPATH={tmp_path} exec {sys.executable} "$@"')
    library = package / "a.so"
    assert probe(interpreter, Toy(tmp_path)).details == {"compiler of toy": f"GCC {version}"}
    old = library.read_bytes().replace(b"GCC: (", b"GCD: (")
    for content in (old, b"", b"\x7fELF\x02\x01", old[:100], old[: len(old) // 2], b"#!/bin/sh\n"):
        library.write_bytes(content)
        assert probe(interpreter, Toy(tmp_path)).details == {}


def test_files_are_described_as_by_their_real_paths(tmp_path: Path) -> None:
    """Each is stated by its real path, relative within the package's; links lead within the package and out of it."""
    package = tmp_path / "real" / "package"
    (package / "inner").mkdir(parents=True)
    (tmp_path / "beside").write_text("outside")
    (package / "inner" / "code.py").write_text("code")
    (package / "linked.py").symlink_to(Path("inner") / "code.py")
    (package / "outside.py").symlink_to(tmp_path / "beside")
    (package / "dangling.py").symlink_to("nowhere")
    (package / "folder").symlink_to("inner")
    (tmp_path / "link").symlink_to("real")
    location = tmp_path / "link" / "package"
    paths = [location / name for name in ("inner/code.py", "linked.py", "outside.py", "dangling.py", "folder/code.py")]
    described = runpy.run_path(str(INSIDE))["describe"](map(str, paths), str(location), {str(tmp_path / "beside")})
    expected = {}
    for path in (*paths, tmp_path / "beside"):
        if path.exists():
            real_path, status = path.resolve(), path.stat()
            inside = real_path.is_relative_to(package.resolve())
            key = real_path.relative_to(package.resolve()) if inside else path
            expected[str(key)] = [status.st_size, status.st_mtime_ns]
    assert described == expected
    assert len(expected) == 3


def test_of_several_versions_of_a_compiler_the_newest_counts() -> None:
    comment = (
        b"GCC: (Ubuntu 4.8.4-2ubuntu1) 4.8.4\0GCC: (GNU) 10.2.1 20210130 (Red Hat 10.2.1-11)\0clang version 17.0.6\0"
    )
    assert compilers_in(comment) == {"GCC 10.2.1", "clang 17.0.6"}
