"""How fast the measuring processors run, read right after they have measured: an idle one may have slowed down."""

from collections.abc import Iterable
from pathlib import Path

SYS = Path("/sys")


def current_mhz(cpus: Iterable[int], sys_folder: Path = SYS) -> list[float]:
    """MHz of each of ``cpus`` that tells (virtual machines mostly don't).

    https://docs.kernel.org/admin-guide/pm/cpufreq.html, ``scaling_cur_freq``, which is in kHz.
    """
    found = []
    for cpu in cpus:
        try:
            text = (sys_folder / f"devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq").read_text(encoding="ascii")
        except (OSError, ValueError):
            continue
        if text.strip().isdigit() and int(text) > 0:
            found.append(int(text) / 1000)
    return found
