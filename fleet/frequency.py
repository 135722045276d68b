"""One frequency for all processors while a host is a worker (https://docs.kernel.org/admin-guide/pm/cpufreq.html)."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from opduel.harness.machine.host import SYS
from opduel.records import UsageError

POLICIES = SYS / "devices/system/cpu/cpufreq"


@contextmanager
def frequency_set(frequency: str, policies: Path = POLICIES) -> Iterator[None]:
    """Run all processors at one frequency, in MHz or "max", "mid" or "min", and put the limits back at the end.
    UsageError: this host has no cpufreq, doesn't go so slow or fast, or doesn't let this user set it."""
    folders = sorted(policies.glob("policy*"))
    if not folders:
        raise UsageError(f"--set_freq {frequency}: this host has no frequency control (no {policies}): leave it out")
    with ExitStack() as stack:
        for folder in folders:
            try:
                lowest, highest = _limits(folder, "cpuinfo")
                levels = {"max": highest, "mid": (lowest + highest) // 2, "min": lowest}
                target = levels[frequency] if frequency in levels else round(float(frequency) * 1000)  # kHz
                if not lowest <= target <= highest:
                    bounds = f"{lowest / 1000:g} to {highest / 1000:g} MHz"
                    raise UsageError(f"--set_freq {frequency}: this host goes from {bounds}: give one within it")
                limits = _limits(folder, "scaling")
                _write_limits(folder, target, target)
            except OSError as error:
                fix = "start the worker as root" if isinstance(error, PermissionError) else "leave it out"
                raise UsageError(f"--set_freq {frequency}: cannot be set ({error.strerror}): {fix}") from None
            stack.callback(_write_limits, folder, *limits)
        yield


def _limits(folder: Path, kind: str) -> tuple[int, int]:
    """Return the lowest and the highest frequency in kHz."""
    low, high = (int((folder / f"{kind}_{name}_freq").read_text()) for name in ("min", "max"))
    return low, high


def _write_limits(folder: Path, low: int, high: int) -> None:
    """Set both limits. The lower one goes to the bottom first: the kernel refuses it above the upper one."""
    for name, value in (("min", _limits(folder, "cpuinfo")[0]), ("max", high), ("min", low)):
        (folder / f"scaling_{name}_freq").write_text(f"{value}\n")
