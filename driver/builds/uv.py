"""All uses of uv: make an environment, install pinned packages, and explain a failure in one line."""

import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from opduel.driver.builds.process import Outcome, run
from opduel.records import BrokenBuildError, NoSpaceError, RunError, UsageError
from opduel.support.command_names import reinstall_words
from opduel.support.output import key_line
from opduel.support.redaction import redact

INTERPRETER = Path("bin") / "python"  # of an environment
_SETTINGS = {"UV_PYTHON_DOWNLOADS": "never", "UV_NO_PROGRESS": "1", "NO_COLOR": "1"}
_TIMEOUT_S = 1800.0  # a release is 50 to 100 MB, and the line may be slow

_FULL, _NO_WHEEL = "the disk is full", "no wheel for this Python and platform"

_NO_WHEELS = r"no usable wheels|no wheels? with a matching|requires building|building from source is disabled"
_UNREACHABLE = (
    r"network was disabled|error sending request|dns error|tcp connect|Connection refused|timed? ?out"
    r"|Could not connect|Failed to (?:fetch|download)"
)

# The first pattern that matches uv's output decides: what it means, uv's innermost reason, the fix.
_REASONS: tuple[tuple[str, str], ...] = (
    (r"No space left on device|os error 28|Disk quota exceeded",
     f"{_FULL}: free some space, or give another folder with --exec_dir"),
    (r"Permission denied|Read-only file system|os error 13",
     "a folder can't be written ({detail}): fix its permissions, or give another with --exec_dir"),
    (_UNREACHABLE,
     "the package index can't be reached ({detail}): check the network and uv's index settings, then try again"),
    (_NO_WHEELS,
     f"{_NO_WHEEL} ({{detail}}): ask for another release, or give a path to a build"),
    (r"no version of|was not found|not found in the",
     "the package index has no such version ({detail}): check uv's index settings"),
)  # fmt: skip


class UnresolvableError(UsageError):
    """Requirements can't be met; ``reason`` is uv's, ``hint`` another way to meet them."""

    def __init__(self, request: str, reason: str, hint: str) -> None:
        super().__init__(f"{request} can't be resolved: {reason}: correct the requirements{hint}")
        self.reason, self.hint = reason, hint


class FreshEnvironment:
    """An environment that is being made in ``directory`` and can be moved later.

    All that is started for it inherits ``lock``, the file descriptor that holds the build's. Methods raise
    BrokenBuildError where there is no wheel for this Python and platform, and RunError if it could not be done for
    another reason, such as an unreachable index or a missing version.
    """

    def __init__(self, directory: Path, python: Path, lock: int) -> None:
        """Make it, empty, of the interpreter ``python``."""
        self.began = time.monotonic()
        self.directory = directory
        self.interpreter = directory / INTERPRETER
        self.lock = lock
        options = ("--relocatable", "--no-project", "--allow-existing", "--python", str(python))
        _run_or_raise(["venv", *options, str(directory)], f"uv could not make an environment of {python}", lock)

    def install(self, request: str, requirements: Sequence[str]) -> None:
        """Install these wheels, all of them and no others."""
        self._install(request, "--no-build", *requirements)

    def install_locked(self, request: str, locked: str, sdists: bool = False) -> None:
        """Install what ``resolve`` returned, checked by the hashes."""
        path = self.directory / "requirements.txt"
        path.write_text(locked, encoding="utf-8")
        self._install(request, *([] if sdists else ["--no-build"]), "--require-hashes", "-r", str(path))

    def install_wheel(self, wheel: Path) -> None:
        """Install a wheel that was built here, and nothing else."""
        self._install(wheel.name, "--no-index", "--no-cache", str(wheel))

    def compile_modules(self) -> None:
        """Compile all modules but packages' tests, and leave out what can't be compiled.

        Else a module is compiled by the process that imports it first, or by each where its folder can't be written,
        which takes time and memory: of one build and not of the other.
        """
        options = ("-I", "-m", "compileall", "-qq", "-j", "0", "-x", "/tests/", "lib")
        run([str(self.interpreter), *options], timeout=_TIMEOUT_S, directory=self.directory, inherit=(self.lock,))

    def _install(self, request: str, *arguments: str) -> None:
        command = ["pip", "install", "--no-deps", "--python", str(self.interpreter), *arguments]
        _run_or_raise(command, f"{request} could not be installed", self.lock)


def resolve(
    request: str, requirements: str, interpreter: Path, *, sdists: bool, preferred: str, without: str | None
) -> str:
    """Return the exact version and hashes of every package that a requirements file needs, as another such file; from
    wheels alone, unless ``sdists``. Versions of ``preferred``, an earlier answer, are kept where they meet the
    requirements. The package ``without`` is left out. UnresolvableError: the requirements can't be met; RunError: they
    can't be resolved for another reason, such as an unreachable index."""
    options = ["--quiet", "--generate-hashes", "--no-header", "--no-annotate", "--no-emit-index-url"]
    options += [*([] if sdists else ["--no-build"]), *(["--no-emit-package", without] if without else [])]
    with tempfile.TemporaryDirectory() as folder:
        path, answer = Path(folder, "requirements.in"), Path(folder, "requirements.out")
        path.write_text(requirements, encoding="utf-8")
        answer.write_text(preferred, encoding="utf-8")
        places = ("--python", str(interpreter), "--output-file", str(answer), str(path))
        outcome = _uv(["pip", "compile", *options, *places])
        if outcome.ok:
            return answer.read_text(encoding="utf-8")
    if re.search(_UNREACHABLE, outcome.stderr) or outcome.code is None or outcome.code < 0:
        raise RunError(f"{request} can't be resolved: {explain(outcome)}")
    reason = redact(_reason(outcome.stderr)) or outcome.output_tail
    hint = ", or add --allow_sdist" if not sdists and re.search(_NO_WHEELS, reason) else ""
    raise UnresolvableError(request, reason, hint)


def releases_between(name: str, old: str, new: str, interpreter: Path) -> list[str]:
    """Return the releases of a package after ``old`` and before ``new`` that have a wheel for the interpreter, but for
    yanked ones and pre-releases, from the oldest on; none if the index doesn't have the package. RunError: the index
    can't be reached."""
    releases: list[str] = []
    options = ["--quiet", "--no-header", "--no-annotate", "--no-deps", "--no-build", "--prerelease", "disallow"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "requirements.in")
        while True:
            path.write_text(f"{name}>{old},<{(releases or [new])[0]}\n", encoding="utf-8")
            outcome = _uv(["pip", "compile", *options, "--python", str(interpreter), str(path)])
            match = re.match(rf"{re.escape(name)}==(\S+)", outcome.stdout)
            if not outcome.ok and re.search(_UNREACHABLE, outcome.stderr):
                raise RunError(f"the releases of {name}: {explain(outcome)}")
            if match is None or match[1] in releases:
                return releases
            releases.insert(0, match[1])


def managed_interpreters(python: str) -> list[Path]:
    """Return the interpreter of that version that uv once installed for the user, if any."""
    command = ["python", "find", "--managed-python", "--no-python-downloads", "--no-project", python]
    outcome = _uv(command)
    return [Path(outcome.stdout.strip())] if outcome.ok and outcome.stdout.strip() else []


def explain(outcome: Outcome) -> str:
    """Return the meaning of uv's output, with the fix, on one line."""
    if outcome.code is None or outcome.code < 0:
        return f"uv was stopped ({outcome.output_tail}): try again"
    reason = _last_cause(outcome.stderr) or outcome.output_tail
    for pattern, meaning in _REASONS:
        if re.search(pattern, outcome.stderr):
            return meaning.format(detail=reason)
    return f"{reason}: fix what uv names, then try again"


def _run_or_raise(arguments: Sequence[str], failure: str, lock: int) -> None:
    """Run uv; a failure is an error, of the kind that its reason is."""
    outcome = _uv(arguments, (lock,))
    if not outcome.ok:
        why = explain(outcome)
        kind = NoSpaceError if why.startswith(_FULL) else BrokenBuildError if why.startswith(_NO_WHEEL) else RunError
        raise kind(f"{failure}: {why}")


def _uv(arguments: Sequence[str], inherit: Sequence[int] = ()) -> Outcome:
    """Run uv in the root folder, where no project's settings reach it."""
    command = [executable(), *arguments]
    settings = {**_SETTINGS, **_links()}
    try:
        return run(command, timeout=_TIMEOUT_S, environment=settings, directory=Path(os.sep), inherit=inherit)
    except OSError as error:
        raise RunError(f"uv can't be started ({error.strerror}): {reinstall_words()}") from None


def _links() -> dict[str, str]:
    """Return pip's places of further wheels (PIP_FIND_LINKS) for uv, unless it has its own (UV_FIND_LINKS)."""
    places = os.environ.get("PIP_FIND_LINKS", "").split()
    return {"UV_FIND_LINKS": ",".join(places)} if places and "UV_FIND_LINKS" not in os.environ else {}


def executable() -> str:
    """Return the path of uv. Raise RunError if it is not installed."""
    beside = Path(sys.executable).with_name("uv")
    path = str(beside) if beside.is_file() else shutil.which("uv")
    if not path:
        raise RunError(f"uv is not installed: {reinstall_words()}")
    return path


def _reason(text: str) -> str:
    """Return uv's whole reason on one line, without its hints, and without the kind of error where a cause follows."""
    reason = text.partition("\nhint:")[0].replace("╰─▶", "cause:")
    reason = re.sub(r"^\s*(?:error|×):?\s*", "", reason)
    return " ".join(reason.rpartition("cause:")[2].split()).rstrip(".")


def _last_cause(text: str) -> str:
    """Return the innermost reason that uv gives, without its closing formula."""
    last = key_line(text).removeprefix("error: ").removeprefix("Because ")
    return re.sub(r" and you require .*", "", last).rstrip(".")
