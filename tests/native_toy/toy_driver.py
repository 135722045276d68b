"""repo_driver.py on a toy project: started as a user would, with folders of its own, and what it left looked at."""

import json
import os
import sqlite3
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from forked import Forked
from toy_native import SPEC, write_specifications
from toy_project import ToyProject

LAUNCH = Path(__file__).resolve().with_name("launch.py")
KNOWN = LAUNCH.with_name("known.py")
LONG_S = 300.0  # against hanging for ever, on however slow a machine; no test waits for it to pass
# Verdicts in short runs on a machine that is shared: changes that matter are large, and so are those that are made.
# Nobody looks for causes, which takes as long as all else: tests/causes/ does.
QUICK = ("--threshold", "15%", "--max_rounds", "10", "--sentinels", "0", "--busy_host", "report", "--min_free", "0")
QUICK += ("--explain", "none")


@dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class ToyDriver:
    """The command with its options. ``work`` is the work directory, ``cache`` the build cache, which may be shared."""

    project: ToyProject
    specifications: Path
    work: Path
    cache: Path
    options: tuple[str, ...] = QUICK
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def reports_folder(self) -> Path:
        return self.work / "reports"

    def with_environment(self, **variables: str) -> "ToyDriver":
        return replace(self, environment={**self.environment, **variables})

    def command(self, *arguments: str, spec: str = SPEC) -> list[str]:
        """The whole command; the remote is the project's folder unless the arguments say another."""
        names_remote = {"--remote_repository", "--repo_dir"} & set(arguments)
        remote = [] if names_remote else ["--remote_repository", str(self.project.folder)]
        mode = [] if "--bisect_releases" in arguments else ["--ab_testing", *remote]
        folders = ["--work_dir", str(self.work), "--exec_dir", str(self.cache)]
        reports = ["--local_reporter", str(self.reports_folder)]
        spec_option = ["-b", str(self.specifications / spec)]
        return self.launch("repo_driver", *mode, *spec_option, *folders, *reports, *self.options, *arguments)

    def launch(self, command: str, *arguments: str) -> list[str]:
        """Another command, with the toy among its frameworks."""
        return [sys.executable, str(LAUNCH), str(self.specifications), command, *arguments]

    def start(self, *arguments: str) -> Forked:
        """Start it, with its output in files: nobody needs to read along."""
        self.work.mkdir(parents=True, exist_ok=True)
        with (self.work / "out").open("w") as out, (self.work / "err").open("w") as err:
            return self.fork(self.command(*arguments), stdout=out, stderr=err)

    def fork(self, command: Sequence[str], **streams: IO[str]) -> Forked:
        """Start one of its commands, in this user's environment."""
        return Forked(command, env=self.variables(), first=KNOWN, **streams)

    def end(self, process: Forked) -> Outcome:
        """Wait for it to end."""
        code = process.wait(LONG_S)
        return Outcome(code, (self.work / "out").read_text(), (self.work / "err").read_text())

    def run(self, *arguments: str) -> Outcome:
        """Run it to its end."""
        return self.end(self.start(*arguments))

    def run_other(self, command: str, *arguments: str) -> Outcome:
        """Run another command to its end."""
        with self.fork(self.launch(command, *arguments)) as process:
            out, err = process.communicate(LONG_S)
            return Outcome(process.wait(), out, err)

    def variables(self) -> dict[str, str]:
        """A user's environment with folders of its own."""
        home = self.work / "user"
        dropped = ("UV_INDEX", "UV_DEFAULT_INDEX", "UV_FIND_LINKS", "PYTHONPATH")
        return {
            **{name: value for name, value in os.environ.items() if name not in dropped},
            "XDG_CONFIG_HOME": str(home / "config"),
            "XDG_STATE_HOME": str(home / "state"),
            "XDG_CACHE_HOME": str(home / "cache"),
            "CCACHE_DIR": str(self.cache.parent / "ccache"),
            "UV_CACHE_DIR": str(self.cache.parent / "uv"),
            **self.environment,
        }

    def reports(self) -> list[dict[str, Any]]:
        """All reports on disk, in the order in which they were written."""
        paths = sorted(self.reports_folder.rglob("report.json"), key=lambda path: path.stat().st_mtime_ns)
        return [json.loads(path.read_text()) for path in paths]

    def journal(self, query: str) -> list[tuple[Any, ...]]:
        """What the journal says, read beside whoever writes it."""
        connection = sqlite3.connect(f"file:{self.work / 'journal.db'}?mode=ro", uri=True, timeout=30)
        try:
            return connection.execute(query).fetchall()
        finally:
            connection.close()

    def compile_logs(self) -> list[Path]:
        """The logs of all compiles."""
        return sorted((self.work / "builds" / "logs").glob("*.log"))


def toy_driver(
    folder: Path,
    project: ToyProject,
    shared: Path | None = None,
    options: tuple[str, ...] = QUICK,
    releases: Mapping[str, str] | None = None,
) -> ToyDriver:
    """A driver in ``folder``; builds, ccache's and uv's caches are ``shared`` with others, or its own."""
    specifications = write_specifications(folder / "specifications", project.folder, releases)
    return ToyDriver(project, specifications, folder / "work", (shared or folder) / "builds", options)


def verdicts(report: Mapping[str, Any]) -> dict[str, str]:
    """Case id -> verdict."""
    return {row["case"]: row["verdict"] for row in report["comparisons"]}


@dataclass(frozen=True)
class Shared:
    """A project whose branches are only read, and the folder of the caches."""

    project: ToyProject
    caches: Path
    slow: str  # the commit of main that slows mul
    broken: str  # and the one that does not compile


def wait_for(holds: Callable[[], object], process: Forked) -> None:
    """Until it is so; the process must not have ended before."""
    deadline = time.monotonic() + LONG_S
    while not holds():
        assert process.poll() is None, "it ended before"
        assert time.monotonic() < deadline
        time.sleep(0.005)
