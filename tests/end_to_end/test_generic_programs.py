"""The whole product on programs: printed values, a slower one found, and failures that cost their own cases alone."""

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from forked import ONE_FORK, Forked

ROOT = Path(__file__).resolve().parent.parent.parent


def program(path: Path, *lines: str) -> str:
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]), encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def line(name: str, value: float, unit: str, lower: bool = True) -> str:
    return "echo '" + json.dumps({"name": name, "value": value, "unit": unit, "lower_is_better": lower}) + "'"


def measured(folder: Path, code: int, tests: list[dict[str, Any]], *sides: str) -> tuple[dict[str, Any], str]:
    """The comparisons by case, and what was logged."""
    spec = folder / "own.json"
    spec.write_text(json.dumps({"framework": "generic", "tests": tests}), encoding="utf-8")
    options = ["-b", str(spec), "--busy_host", "report", "--simple_local_reporter", str(folder / "report")]
    process = Forked([sys.executable, str(ROOT / "harness.py"), *options, *sides], cwd=folder, first=ONE_FORK)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == code, errors
    report = json.loads((folder / "report" / "report.json").read_text(encoding="utf-8"))
    return {row["case"]: row for row in report["comparisons"]}, errors


def test_programs_are_measured_and_what_they_print_is_compared(tmp_path: Path) -> None:
    same, noise = line("same", 4, "MB") + "; " + line("copies", 0, ""), "echo not json"
    strict = '[ -z "$STRICT" ] || { [ "$(cat made)" = "$(cat)" ] && rm made && exit 7; }'
    control = program(tmp_path / "a", strict, noise, line("rate", 100, "MB/s", False), line("rise", 5, "ms"), same)
    bad = "[ -z \"$BAD\" ] || { echo 'no data' >&2; exit 3; }"
    treatment = program(
        tmp_path / "b",
        strict,
        bad,
        line("rate", 80, "MB/s", False),
        line("rise", 4, "ms"),
        line("new", 1, ""),
        line("copies", 3, ""),
    )
    prepare = ["sh", "-c", "echo own > made"]
    surroundings = {"stdin": "own.txt", "exit_codes": [7], "fresh_folder": True, "prepare": prepare}
    tests: list[dict[str, Any]] = [
        {"command": ["{program}"], "parse": "json_lines", "identifier": "it", "metric": ["value", "process_memory"]},
        {"command": ["{program}"], "identifier": "bad", "env": {"BAD": "1"}, "metric": "cpu_time"},
        {"command": ["{program}"], "identifier": "timed", "threshold": 0.9},
        {"command": ["{program}"], "identifier": "prepared", "threshold": 0.9, "env": {"STRICT": "1"}, **surroundings},
    ]
    (tmp_path / "own.txt").write_text("own\n")
    sides = ("--control", control, "--treatment", treatment, "--max_rounds", "5")
    rows, errors = measured(tmp_path, 1, tests, *sides)
    assert {case: row["verdict"] for case, row in rows.items() if row["metric"] == "value"} == {
        "it.rate/value": "regressed",
        "it.rise/value": "improved",
        "it.copies/value": "regressed",
        "it.same/value": "failed",
        "it.new/value": "failed",
    }
    rise, rate = rows["it.rise/value"], rows["it.rate/value"]
    assert (rise["control"], rise["treatment"], rise["unit"]) == (5e6, 4e6, "ns")
    copies = rows["it.copies/value"]
    assert [copies[name] for name in ("ratio", "control", "treatment", "difference")] == [None, 0, 3, 3]
    assert (rate["unit"], rate["lower_is_better"]) == ("MB/s", False)
    sides_of = {case: row["failure"] and (row["failure"]["side"], row["failure"]["kind"]) for case, row in rows.items()}
    assert sides_of["it.same/value"] == ("treatment", "missing")
    assert sides_of["it.new/value"] == ("control", "missing")
    assert sides_of["bad/cpu_time"] == ("treatment", "error")
    reason = rows["bad/cpu_time"]["failure"]
    assert reason["reason"].startswith("the program ended with exit code 3: no data (if that is right, list it in")
    assert reason["output_tail"] == "no data"
    for case in ("timed", "prepared"):
        assert (rows[case]["failure"], rows[case]["rounds"] in (2, 5)) == (None, True)  # its looks
    assert rows["it/process_memory"]["control"] > 100_000
    assert "it: the treatment does not print same" in errors


def test_a_killed_controller_leaves_no_process_of_a_program_behind(tmp_path: Path) -> None:
    """Killed by SIGKILL: nobody but the workers can end what the program has started, and waits for."""
    slow = program(tmp_path / "slow", f"sleep 100 & echo $! > {tmp_path}/new && mv {tmp_path}/new {tmp_path}/pid; wait")
    spec = tmp_path / "own.json"
    spec.write_text(json.dumps({"framework": "generic", "tests": [{"command": ["{program}"], "identifier": "it"}]}))
    options = ["-b", str(spec), "--control", slow, "--treatment", slow, "--busy_host", "report"]
    process = Forked([sys.executable, str(ROOT / "harness.py"), *options], cwd=tmp_path, first=ONE_FORK)
    assert within(60, (tmp_path / "pid").exists)
    program_pid = int((tmp_path / "pid").read_text())
    try:
        assert not has_ended(program_pid)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=60)
        assert within(20, lambda: has_ended(program_pid))
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(program_pid, signal.SIGKILL)


def has_ended(pid: int) -> bool:
    """Whether it is gone, or dead and not yet waited for by whoever it was left to."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def within(seconds: float, holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.01)
    return holds()
