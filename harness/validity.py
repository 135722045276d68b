"""Whether a run can be trusted: reasons against it, from the host's noise and from the run's own A/A checks."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from opduel.comparator import Bias, fit_priors, run_aa_checks
from opduel.harness.measurement_plan import Measurement
from opduel.records.host_record import NoiseRecord
from opduel.records.run_record import AACheckRecord, ValidityRecord
from opduel.support.text import counted

# From where on a disturbance counts, as means over a measurement; all are judgements.  The first two are in processors:
# the hypervisor's other guests also take caches and memory bandwidth that nothing here shows, hence half.
NEIGHBOURS = 0.2
STOLEN = 0.1
MEMORY_PRESSURE = 0.01  # share of time: a host with memory to spare has none at all
FREQUENCY = 0.2  # the share by which the slowest tenth of readings lies below the fastest
FEWEST_READINGS = 20  # of the frequency

WHY_WITHHELD = "its rounds are too few, or differ too much, for a disturbed host"


@dataclass(frozen=True)
class Frequency:
    """The measuring processors' MHz over a run: the tenth and the ninetieth percentile of all readings."""

    low: float
    high: float

    @classmethod
    def of(cls, mhz: Sequence[float]) -> "Frequency | None":
        """Return them; None where the host tells nothing, or too little."""
        if len(mhz) < FEWEST_READINGS:
            return None
        tenths = statistics.quantiles(mhz, n=10)
        return cls(tenths[0], tenths[-1])


def validity_problems(host: NoiseRecord | None, spare: int, frequency: Frequency | None) -> list[str]:
    """Return why a measurement on such a host can't be trusted; empty if it can.

    ``host`` is the noise meanwhile; ``spare`` counts the processors that opduel may use but has no need
    of: neighbours who fit there are in nobody's way.
    """
    measures = (host.neighbours, host.stolen, host.memory_pressure) if host else (None,) * 3
    neighbours, stolen, pressure = (measure.mean if measure else 0.0 for measure in measures)
    reasons = []
    if neighbours - spare > NEIGHBOURS:
        reasons.append(f"other processes kept {neighbours:.2f} of opduel's processors busy")
    if stolen > STOLEN:
        reasons.append(f"the hypervisor withheld {stolen:.2f} of opduel's processors")
    if pressure > MEMORY_PRESSURE:
        reasons.append(f"processes waited for memory for {100 * pressure:.0f} % of the time")
    if frequency is not None and frequency.low < (1 - FREQUENCY) * frequency.high:
        reasons.append(f"the processors' frequency went from {frequency.high:.0f} down to {frequency.low:.0f} MHz")
    return reasons


def aa_problems(checks: Sequence[AACheckRecord]) -> list[str]:
    """Say which A/A checks found a difference where there is none."""
    return [
        f"{check.case} differed by {100 * (check.ratio - 1):+.1f} % from itself, on the control alone "
        f"({counted(check.rounds or 0, 'round')})"
        for check in checks
        if check.flagged and check.ratio is not None
    ]


def judge_validity(
    first: Measurement, second: Measurement | None, spare: int, timed: bool, holds: bool
) -> ValidityRecord:
    """Return whether the run can be trusted, and all that this was judged by; ``second`` is its verification.
    ``spare``: as in ``validity_problems``. ``timed``: whether it measured time: nothing disturbs counts. ``holds``:
    whether verdicts that the run doesn't support are held back."""
    plan, result = first.plan, first.result
    frequency, aa_samples = Frequency.of(result.mhz), result.aa_samples
    earlier = plan.first_measurement
    priors = earlier.priors if earlier else fit_priors(plan.cases, result.samples, plan.looks)
    checks = run_aa_checks([case for case in plan.aa_cases if case.id in aa_samples], aa_samples, priors)
    verifying = validity_problems(second.noise, spare, None) if second else []
    reasons = [
        *validity_problems(first.noise, spare, frequency),
        *(f"{reason}, while verifying" for reason in verifying),
        *aa_problems(checks),
    ]
    return ValidityRecord(
        valid=not (timed and reasons),
        hold=holds,
        reasons=tuple(reasons) if timed else (),
        frequency_mhz=asdict(frequency) if frequency else None,
        aa_checks=tuple(checks),
    )


def standing_despite(
    validity: ValidityRecord, first: Measurement, second: Measurement | None, spare: int
) -> tuple[frozenset[str], str, str]:
    """Return the ids of the cases whose verdicts stand in a run that was judged invalid, why no others do, and what to
    know of those that do, if anything. Each measurement that was disturbed must support a verdict by itself."""
    bias, frequency = Bias.of(validity.aa_checks), Frequency.of(first.result.mhz)
    stand = frozenset(case.id for case in first.plan.cases)
    whys = []
    for measurement in (first, second):
        if measurement is None:
            continue
        loaded = bool(validity_problems(measurement.noise, spare, frequency))
        whys += [WHY_WITHHELD] if loaded else []
        if loaded or bias:
            plan = measurement.plan
            standing = plan.analysis(measurement.result).standing_cases(loaded=loaded, bias=bias)
            stand -= {case.id for case in plan.cases} - standing
    if bias is None:
        return stand, WHY_WITHHELD, ""
    bias_words = f"an A/A check was off by a factor of {math.exp(bias.largest):.3g}"
    return stand, "; ".join(dict.fromkeys([*whys, bias_words])), f"{bias_words}, and this ratio may be, too"
