"""The toy's git repository, made commit by commit: each says what it slows, breaks or leaves alone."""

import re
import shutil
import subprocess
import zipfile
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
MONDAY = int(datetime(2024, 1, 8, 12, tzinfo=UTC).timestamp())
TOOLS = ("git", "cmake", "ninja", "ccache", "cc")
AUTHOR = "Ada Toymaker <ada@toy.example>"
_IDENTITY = {
    "GIT_AUTHOR_NAME": "Ada Toymaker",
    "GIT_AUTHOR_EMAIL": "ada@toy.example",
    "GIT_COMMITTER_NAME": "Ada Toymaker",
    "GIT_COMMITTER_EMAIL": "ada@toy.example",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "PATH": "/usr/local/bin:/usr/bin:/bin",
}


class ToyProject:
    """A repository at ``folder`` with one commit, on the branch main; more follow an hour apart, from a Monday on."""

    def __init__(self, folder: Path) -> None:
        """A test that makes one is skipped where it can't be compiled."""
        missing = [tool for tool in TOOLS if shutil.which(tool) is None]
        if missing:
            pytest.skip(f"not installed: {', '.join(missing)} (.ci/tools installs them)")
        self.folder = folder
        self.time = MONDAY
        self.subjects: dict[str, str] = {}  # by commit id
        shutil.copytree(HERE / "project", folder)
        self._git("init", "--quiet", "--initial-branch=main")
        self.first = self._commit("A toy", self.time)

    def commit(
        self,
        subject: str,
        *,
        slow: Mapping[str, float] | None = None,
        python_slow: Mapping[str, float] | None = None,
        broken: bool = False,
        stalls: str | None = None,
        docs_only: bool = False,
        python_only: bool = False,
        date: int | None = None,
    ) -> str:
        """Commit a change; returns its id.

        ``slow``: by which factor an operator's C code does more than before; ``python_slow``: the same of its Python
        front end, whose share of a call is small. ``broken``: this commit does not compile, the next one does again.
        ``stalls``: compiling it takes for ever, in a ``sleep`` of that many seconds; likewise. Without any of these
        a number changes that the library holds; with ``python_only``, one in the Python code. ``date``: seconds since
        1970.
        """
        for name, text in (("src/broken.c", broken and "#error broken on purpose\n"), ("stall.cmake", _stall(stalls))):
            (self.folder / name).unlink(missing_ok=True)
            if text:
                (self.folder / name).write_text(text)
        for operator, factor in (slow or {}).items():
            self._multiply(f"src/{operator}.c", r"(#define PASSES )(\d+)", factor)
        for operator, factor in (python_slow or {}).items():
            self._multiply("python/toy/__init__.py", rf'("{operator}": )(\d+)', factor)
        if docs_only:
            with (self.folder / "docs" / "index.md").open("a") as page:
                page.write(f"{subject}\n")
        elif python_only:
            self._count("python/toy/__init__.py", r"(REVISION = )(\d+)")
        elif not python_slow:
            self._count("src/revision.c", r"(#define REVISION )(\d+)")
        self.time = self.time + 3600 if date is None else date
        return self._commit(subject, self.time)

    def branch(self, name: str, at: str = "HEAD") -> None:
        """Go on in another branch, from ``at``."""
        self._git("checkout", "--quiet", "-B", name, at)

    def tag(self, name: str) -> None:
        """Tag the last commit."""
        self._git("tag", name)

    def checkout(self, name: str) -> None:
        """Go on in a branch that there is."""
        self._git("checkout", "--quiet", name)

    def id_of(self, name: str) -> str:
        """The id of a branch's, tag's or commit's commit."""
        return self._git("rev-parse", f"{name}^{{commit}}")

    def write_wheel(self, library: Path, version: str, folder: Path) -> None:
        """A wheel of what is checked out, with a compiled library in it, in a package index at ``folder``."""
        package = folder / "simple" / "toy"
        package.mkdir(parents=True, exist_ok=True)
        info = f"toy-{version}.dist-info"
        code = (self.folder / "python/toy/__init__.py").read_bytes()
        files = {
            "toy/__init__.py": code,
            "toy/libtoy.so": library.read_bytes(),
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: toy\nVersion: {version}\n".encode(),
            f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        }
        record = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
        with zipfile.ZipFile(folder / f"toy-{version}-py3-none-any.whl", "w") as wheel:
            for path, content in {**files, f"{info}/RECORD": record.encode()}.items():
                wheel.writestr(path, content)
        wheels = sorted(path.name for path in folder.glob("toy-*.whl"))
        (package / "index.html").write_text("".join(f'<a href="../../{name}">{name}</a>\n' for name in wheels))

    def _multiply(self, name: str, pattern: str, factor: float) -> None:
        self._substitute(name, pattern, lambda number: round(number * factor))

    def _count(self, name: str, pattern: str) -> None:
        self._substitute(name, pattern, lambda number: number + 1)

    def _substitute(self, name: str, pattern: str, change: Callable[[int], int]) -> None:
        path = self.folder / name
        text, count = re.subn(pattern, lambda match: f"{match[1]}{change(int(match[2]))}", path.read_text())
        assert count == 1, (name, pattern)
        path.write_text(text)

    def _commit(self, subject: str, moment: int) -> str:
        self._git("add", "--all")
        dates = {"GIT_AUTHOR_DATE": f"{moment} +0000", "GIT_COMMITTER_DATE": f"{moment} +0000"}
        self._git("commit", "--quiet", "--message", subject, environment=dates)
        commit = self._git("rev-parse", "HEAD")
        self.subjects[commit] = subject
        return commit

    def _git(self, *arguments: str, environment: Mapping[str, str] | None = None) -> str:
        command = ["git", *arguments]
        variables = {**_IDENTITY, **(environment or {})}
        process = subprocess.run(command, cwd=self.folder, env=variables, capture_output=True, text=True, check=False)
        assert process.returncode == 0, (arguments, process.stderr)
        return process.stdout.strip()


def _stall(seconds: str | None) -> str:
    return f"add_custom_command(TARGET toy PRE_LINK COMMAND sleep {seconds})\n" if seconds else ""
