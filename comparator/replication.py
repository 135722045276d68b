"""Replication: of what was flagged, only what is flagged again, on fresh samples and in the same direction, stays."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from opduel.records import FLAGGED, ONE_SIDED, Comparison, Report, Verdict, Verification


def apply_replication(
    comparisons: Sequence[Comparison], again: Mapping[str, Comparison], not_measured: str | None = None
) -> list[Comparison]:
    """Return the run's comparisons after some of its cases were measured ``again`` (by case id).

    A flagged case keeps its verdict and figures if ``again`` has the same verdict; else it is ``inconclusive``. So
    does a case that only the treatment failed, and failed again. A flagged case that is not in ``again`` stays as it
    is, unless ``not_measured`` says why it could not be measured a second time: then it is ``inconclusive``. All
    other cases stay. A case of which the second measurement says nothing yet, or still looks as the first one said,
    stays ``suspected``. A verdict that the second measurement withheld is withheld.
    """
    return [_replicated(first, again.get(first.case), not_measured) for first in comparisons]


def replicate_report(first: Report, second: Report) -> Report:
    """Return the first report, of which only what the second one replicates stays flagged or failed."""
    again = {comparison.case: comparison for comparison in second.comparisons}
    return replace(first, comparisons=tuple(apply_replication(first.comparisons, again)))


def _replicated(first: Comparison, second: Comparison | None, not_measured: str | None) -> Comparison:
    if first.verdict in FLAGGED and (second is not None or not_measured is not None):
        return _flagged(first, second, not_measured or "")
    if second is not None and first.is_broken_by_treatment and not second.is_broken_by_treatment:
        note = f"failed on the treatment at first, {second.verdict_words} when measured again"
        return replace(first, verdict="inconclusive", failure=None, note=note)
    return first


def _flagged(first: Comparison, second: Comparison | None, not_measured: str) -> Comparison:
    verified = replace(first, verification=_record(first, second), held_back=second.held_back if second else None)
    if second is not None and second.verdict == first.verdict:
        note = "; ".join(filter(None, (first.note, _cause_words(second))))
        return replace(verified, cause=second.cause, note=note) if second.cause else verified
    reason = f"not measured again: {not_measured}" if second is None else _outcome(second)
    note = f"{first.verdict}{_change(first)} at first, not confirmed: {reason}"
    suspected = first.verdict if second is None or _is_open(second, first.verdict) else None
    forecast = None if second is None else second.forecast
    return replace(verified, verdict="inconclusive", note=note, suspected=suspected, forecast=forecast)


def _is_open(second: Comparison, verdict: Verdict) -> bool:
    """Whether the second measurement ended before a test of its own, or on the same side."""
    is_open = second.verdict in ("inconclusive", *ONE_SIDED)
    return is_open and (second.p_value is None or second.suspected == verdict)


def _record(first: Comparison, second: Comparison | None) -> Verification:
    if second is None:
        return Verification(first=first.verdict)
    samples = tuple(sample for sample in second.samples if sample.stage == "confirmation")
    # with fewer than two samples the figures would be the first measurement's
    figures = ("ratio", "ci", "mde", "control", "treatment") if second.decided_on == "confirmation" else ()
    return Verification(
        first=first.verdict,
        verdict=second.verdict,
        p_value=second.p_value,
        q_value=second.q_value,
        rounds=len(samples),
        failure=second.failure,
        note=second.note.removesuffix(_cause_words(second)).removesuffix("; "),
        samples=samples,
        **{name: getattr(second, name) for name in figures},
    )


def _cause_words(second: Comparison) -> str:
    """Return what a note ends with where the case has a cause: it is the confirmed change's."""
    return second.cause.words if second.cause else ""


def _outcome(second: Comparison) -> str:
    if second.failure is not None:
        return f"measured again it failed ({second.failure.reason})"
    figures = _change(second) if second.decided_on == "confirmation" else ""
    return f"{second.verdict_words}{figures} when measured again" + (f" ({second.note})" if second.note else "")


def _change(comparison: Comparison) -> str:
    return "" if comparison.ratio is None else f" {comparison.ratio - 1:+.1%}"
