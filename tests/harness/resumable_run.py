"""A run with the toy framework and a log in a file: python resumable_run.py LOG, to be killed and started again."""

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from test_run import request
from toy_bench import toy_case

from opduel.harness.checkpoint import StoredRound, from_text
from opduel.harness.measurement_plan import Progress
from opduel.harness.run import run_ab
from opduel.harness.run_request import RunRequest
from opduel.records import Case, PairSample, Report


class ListLog:
    """Keeps texts in memory."""

    def __init__(self, texts: Sequence[str] = ()) -> None:
        self.texts = list(texts)

    def rounds(self) -> list[str]:
        return list(self.texts)

    def keep(self, text: str) -> None:
        self.texts.append(text)

    def stored_rounds(self) -> list[StoredRound]:
        return [entry for entry in map(from_text, self.texts) if isinstance(entry, StoredRound)]


class FileLog:
    """One text a line, appended and flushed to disk; half a line, which a kill leaves behind, is ended first."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def rounds(self) -> list[str]:
        if not self._path.exists():
            return []
        return self._path.read_text(encoding="utf-8", errors="replace").split("\n")[:-1]

    def keep(self, text: str) -> None:
        ends_a_line = not self._path.exists() or self._path.read_bytes()[-1:] in (b"", b"\n")
        with self._path.open("a", encoding="utf-8", newline="\n") as file:
            file.write(("" if ends_a_line else "\n") + text + "\n")
            file.flush()
            os.fsync(file.fileno())


def same(name: str = "same") -> Case:
    return replace(toy_case(name), threshold=0.5)


def slow() -> Case:
    return replace(toy_case("slow", slower=3), threshold=0.3)


def logged_request(log: Any, *cases: Case, **changes: Any) -> RunRequest:
    """A run that keeps its rounds in ``log``, on a host of which nothing is asked."""
    return replace(request(*cases, max_rounds=6), log=log).configured(**{"busy_host": "report", **changes})


def stop_at(rounds: int) -> Callable[[Progress], None]:
    """Called with the progress: a signal comes when so many rounds are done."""

    def interrupt(progress: Progress) -> None:
        if progress.rounds == rounds:
            raise KeyboardInterrupt("stopped by SIGTERM")

    return interrupt


def kept_samples(rounds: Sequence[StoredRound]) -> set[PairSample]:
    return {sample for stored in rounds for sample in stored.result.samples}


def samples(report: Report) -> list[PairSample]:
    """All there are, without those of A/A checks."""
    again = [comparison.verification.samples for comparison in report.comparisons if comparison.verification]
    return [sample for some in [*(comparison.samples for comparison in report.comparisons), *again] for sample in some]


def run(path: Path) -> Report:
    """One case that is slower on the treatment, one that is alike, and one that always fails; measured twice."""
    return run_ab(
        logged_request(FileLog(path), slow(), same(), toy_case("bad", "abort"), verify=True, verify_after=0.0)
    )


if __name__ == "__main__":
    run(Path(sys.argv[1]))
