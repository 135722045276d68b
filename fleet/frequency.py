"""A host's processor frequency while it is a worker: the governor and the limits of cpufreq, put back afterwards.

A process of its own, the guard, puts them back when the worker has ended, however it did.  If that one is killed, too,
the next worker with the same folder does, from the file in which the former values are kept.

https://docs.kernel.org/admin-guide/pm/cpufreq.html
"""

import contextlib
import fcntl
import json
import logging
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from opduel.harness.host import PROC, SYS, text_of
from opduel.records import UsageError
from opduel.records.atomic import write_atomically

CPUS = SYS / "devices/system/cpu"
STATE = ".frequency.json"  # in the worker's folder
GOVERNOR, LOWEST, HIGHEST = "scaling_governor", "scaling_min_freq", "scaling_max_freq"
LEVELS = ("max", "mid", "min")
PATIENCE_S = 10.0  # for the guard of an earlier worker
SHORT_PATIENCE_S = 2.0  # the same, for a worker that sets nothing itself

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class FrequencyChoice:
    """What a worker sets: the governor, and one frequency, in MHz or as one of ``LEVELS``; None: left alone."""

    governor: str | None = None
    frequency: str | None = None

    def __bool__(self) -> bool:
        return self.governor is not None or self.frequency is not None

    @property
    def option(self) -> str:
        """The option that is named in errors about the host."""
        return f"--governor {self.governor}" if self.governor is not None else f"--set_freq {self.frequency}"

    @property
    def tags(self) -> list[str]:
        """By which runs can ask for a host that is set so."""
        tags = [f"governor-{self.governor}"] if self.governor is not None else []
        return tags + ([f"freq-{self.frequency}"] if self.frequency is not None else [])


@contextlib.contextmanager
def frequency_set(choice: FrequencyChoice, folder: Path, cpus: Path = CPUS) -> Iterator[None]:
    """Within it all processors are set as chosen; after it as they were before. A former worker's settings that were
    not put back are, first, even if nothing is chosen.

    Raises:
        UsageError: the host has no cpufreq, doesn't have that governor or frequency, doesn't let this user set it, or
            another worker on it does.
    """
    state = folder / STATE
    policies = _policies(cpus)
    if not choice:
        if policies and state.exists():
            with contextlib.suppress(OSError), _only_one(policies[0], SHORT_PATIENCE_S) as lock:
                if lock is not None:
                    _put_back_if_left(state, cpus)
        yield
        return
    if not policies:
        raise UsageError(f"{choice.option}: this host has no frequency control (no {cpus}/cpu*/cpufreq): leave it out")
    with _only_one(policies[0], PATIENCE_S) as lock:
        if lock is None:
            raise UsageError(f"{choice.option}: another worker on this host sets it: end that one, or leave this out")
        _put_back_if_left(state, cpus)
        wanted = {policy: _wanted(choice, policy) for policy in policies}
        former = {policy.parent.name: _values(policy, wanted[policy]) for policy in policies}
        write_atomically(state, json.dumps({"boot": _boot(), "cpus": former}).encode())
        with _guarded(state, cpus, lock):
            for policy, values in wanted.items():
                _set(choice, policy, values)
            yield


def put_back(state: Path, cpus: Path) -> None:
    """Put back what the file says, and remove it. What was kept before the machine was started is of no use, and what
    a processor refuses is passed over."""
    try:
        kept = json.loads(state.read_text(encoding="utf-8"))
        known: Mapping[str, Mapping[str, str]] = kept["cpus"] if kept["boot"] == _boot() else {}
        for name, values in known.items():
            policy = cpus / name / "cpufreq"
            for file in _ordered(policy, values):
                with contextlib.suppress(OSError):
                    _write(policy / file, values[file])
    except FileNotFoundError:
        return
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        log.warning("%s is damaged: what it kept of the processors' frequencies can't be put back", state)
    state.unlink(missing_ok=True)


def _put_back_if_left(state: Path, cpus: Path) -> None:
    if state.exists():
        log.info("putting back the frequency settings that an earlier worker left")
        put_back(state, cpus)


def _policies(cpus: Path) -> list[Path]:
    """The cpufreq folders of all processors, each once: several may share one."""
    found: dict[Path, Path] = {}
    for policy in sorted(cpus.glob("cpu[0-9]*/cpufreq"), key=lambda one: int(one.parent.name[3:])):
        found.setdefault(policy.resolve(), policy)
    return list(found.values())


def _wanted(choice: FrequencyChoice, policy: Path) -> dict[str, str]:
    """What is to be written into the files of a processor. UsageError: it doesn't have that."""
    values: dict[str, str] = {}
    if choice.frequency is not None:
        one = str(_frequency(choice.frequency, policy))
        values |= {LOWEST: one, HIGHEST: one}
    if choice.governor is not None:
        there = text_of(policy / "scaling_available_governors").split()
        if choice.governor not in there:
            have = ", ".join(there) or "none"
            raise UsageError(f"--governor {choice.governor}: this host's governors are {have}: give one of them")
        values[GOVERNOR] = choice.governor
    return values


def _frequency(text: str, policy: Path) -> int:
    """In kHz. UsageError: the processor doesn't go so slow, or so fast."""
    try:
        lowest, highest = (int(text_of(policy / f"cpuinfo_{which}_freq")) for which in ("min", "max"))
    except ValueError:
        raise UsageError(f"--set_freq {text}: this host doesn't say what frequencies it has: leave it out") from None
    if text in LEVELS:
        steps = [int(one) for one in text_of(policy / "scaling_available_frequencies").split()] or [lowest, highest]
        return {"max": highest, "min": lowest, "mid": int(statistics.median(steps))}[text]
    if not lowest <= (wanted := round(float(text) * 1000)) <= highest:
        bounds = f"{lowest / 1000:g} to {highest / 1000:g} MHz"
        raise UsageError(f"--set_freq {text}: {policy.parent.name} goes from {bounds}: give a frequency within it")
    return wanted


def _values(policy: Path, names: Mapping[str, str]) -> dict[str, str]:
    return {name: text_of(policy / name).strip() for name in names}


def _set(choice: FrequencyChoice, policy: Path, values: Mapping[str, str]) -> None:
    try:
        for name in _ordered(policy, values):
            _write(policy / name, values[name])
    except OSError as error:
        who = "start the worker as root" if isinstance(error, PermissionError) else "leave it out"
        raise UsageError(f"{choice.option}: {policy} cannot be set ({error.strerror}): {who}") from None
    for name, value in _values(policy, values).items():
        if value != values[name]:
            why = f"{policy / name} stays at {value}, though {values[name]} was written"
            raise UsageError(f"{choice.option}: {why}: give another, or leave it out")


def _ordered(policy: Path, values: Mapping[str, str]) -> list[str]:
    """The files in the order in which they can be written: the lower limit is never above the upper one."""
    limits = [LOWEST, HIGHEST]
    if not set(limits) <= set(values):
        return list(values)
    if int(values[HIGHEST]) >= int(text_of(policy / LOWEST) or 0):
        limits.reverse()
    return [*limits, *(name for name in values if name not in limits)]


def _write(file: Path, value: str) -> None:
    opened = os.open(file, os.O_WRONLY | os.O_TRUNC)  # not made: the host has it, or lacks it
    try:
        os.write(opened, f"{value}\n".encode())
    finally:
        os.close(opened)


def _boot() -> str:
    return text_of(PROC / "sys/kernel/random/boot_id").strip()


@contextlib.contextmanager
def _only_one(policy: Path, patience_s: float) -> Iterator[int | None]:
    """Within it no other worker on this machine sets frequencies; None if one still does. The lock is the guard's, too:
    that of a worker which was killed puts its settings back before another one begins."""
    lock = os.open(policy, os.O_RDONLY | os.O_DIRECTORY)
    try:
        end = time.monotonic() + patience_s
        while not (held := _locked(lock)) and time.monotonic() < end:
            time.sleep(0.1)
        yield lock if held else None
    finally:
        os.close(lock)


def _locked(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def _guarded(state: Path, cpus: Path, lock: int) -> Iterator[None]:
    """Within it a process waits for the end of this one, to put the settings back."""
    command = [sys.executable, "-m", "opduel.fleet.frequency", str(state), str(cpus)]
    root = Path(__file__).absolute().parents[2]  # from where Python finds opduel, installed or not
    guard = subprocess.Popen(command, stdin=subprocess.PIPE, cwd=root, pass_fds=[lock], start_new_session=True)
    assert guard.stdin is not None
    try:
        yield
    finally:
        guard.stdin.close()
        try:
            guard.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            guard.kill()
            guard.wait()
        put_back(state, cpus)  # if the guard was killed


def main() -> None:
    """The guard: wait until the worker has ended; then put back its settings."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while os.read(0, 4096):
        pass
    put_back(Path(sys.argv[1]), Path(sys.argv[2]))


if __name__ == "__main__":
    main()
