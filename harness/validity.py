"""Can the run be trusted? Reasons against it, from the host's noise and from the run's own A/A comparisons."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opduel.comparator import AACheck


@dataclass(frozen=True)
class Limits:
    """From where on a disturbance counts, as means over a measurement.

    docs/explanation/statistics.md has what lies behind them.

    ``neighbours`` and ``stolen`` are in processors: a fifth of one is what the 20 % trimmed mean can leave out at
    each end; the hypervisor's other guests also take caches and memory bandwidth that nothing here shows, hence half
    of that.  ``memory_pressure`` is a share of time: a host with memory to spare has none at all.
    ``frequency`` is the share by which the slowest tenth of readings lies below the fastest.
    """

    neighbours: float = 0.2
    stolen: float = 0.1
    memory_pressure: float = 0.01
    frequency: float = 0.2


LIMITS = Limits()
FEWEST_READINGS = 20  # of the frequency


@dataclass(frozen=True)
class Frequency:
    """The measuring processors' MHz over a run: the tenth and the ninetieth percentile of all readings."""

    low: float
    high: float

    @classmethod
    def of(cls, mhz: Sequence[float]) -> "Frequency | None":
        """None where the host tells nothing, or too little."""
        if len(mhz) < FEWEST_READINGS:
            return None
        tenths = statistics.quantiles(mhz, n=10)
        return cls(tenths[0], tenths[-1])


def validity_problems(
    host: Mapping[str, Any] | None, spare: int, frequency: Frequency | None, limits: Limits = LIMITS
) -> list[str]:
    """Why a measurement on such a host can't be trusted; empty if it can.

    ``host`` is a phase of ``HostMonitor.summary``; ``spare`` counts the processors that opduel may use but has no need
    of: neighbours who fit there are in nobody's way.
    """
    host = host or {}
    reasons = []
    crowding = _mean(host, "neighbours") - spare
    if crowding > limits.neighbours:
        reasons.append(f"other processes kept {_mean(host, 'neighbours'):.2f} of opduel's processors busy")
    if _mean(host, "stolen") > limits.stolen:
        reasons.append(f"the hypervisor withheld {_mean(host, 'stolen'):.2f} of opduel's processors")
    if _mean(host, "memory_pressure") > limits.memory_pressure:
        reasons.append(f"processes waited for memory for {_mean(host, 'memory_pressure'):.0%} of the time")
    if frequency is not None and frequency.low < (1 - limits.frequency) * frequency.high:
        reasons.append(f"the processors' frequency went from {frequency.high:.0f} down to {frequency.low:.0f} MHz")
    return reasons


def aa_problems(checks: Sequence[AACheck]) -> list[str]:
    """Sentinels that found a difference where there is none."""
    return [
        f"{check.case} differed by {check.ratio - 1:+.1%} from itself, on the control alone ({check.rounds} rounds)"
        for check in checks
        if check.flagged and check.ratio is not None
    ]


def _mean(host: Mapping[str, Any], key: str) -> float:
    """0 where the host doesn't tell."""
    spread = host.get(key)
    return float(spread["mean"]) if spread else 0.0
