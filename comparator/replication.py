"""Replication: a flagged case stays flagged only if fresh samples flag it again, in the same direction."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from opduel.records import FLAGGED, ONE_SIDED, Comparison, Report, Verification

FIGURES = ("ratio", "ci", "difference", "difference_ci", "mde", "control", "treatment")


def apply_replication(
    comparisons: Sequence[Comparison], again: Mapping[str, Comparison], not_measured: str | None = None
) -> list[Comparison]:
    """Return the run's comparisons after some of its cases were measured ``again`` (by case id).

    A flagged case keeps its verdict and figures if ``again`` has the same verdict, and a case that only the treatment
    failed keeps its failure if the treatment fails again; otherwise both are ``inconclusive``. A flagged case that is
    not in ``again`` keeps its verdict, unless ``not_measured`` says why it could not be measured. A case stays
    ``suspected`` if the second measurement ended before its first look, or still points the same way; a verdict that it
    withheld is withheld.
    """
    return [_replicated(first, again.get(first.case), not_measured) for first in comparisons]


def replicate_report(first: Report, second: Report) -> Report:
    """Return the first report, in which only cases that the second one replicates stay flagged or failed."""
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
    # still open where the second measurement ended before its first look, or suspects the same verdict
    is_open = second is None or (
        second.verdict in ("inconclusive", *ONE_SIDED) and (second.p_value is None or second.suspected == first.verdict)
    )
    forecast = None if second is None else second.forecast
    suspected = first.verdict if is_open else None
    return replace(verified, verdict="inconclusive", note=note, suspected=suspected, forecast=forecast)


def _record(first: Comparison, second: Comparison | None) -> Verification:
    if second is None:
        return Verification(first=first.verdict)
    samples = tuple(sample for sample in second.samples if sample.stage == "confirmation")
    # with fewer than two confirmation samples, second has the figures of the first measurement
    figures = FIGURES if second.decided_on == "confirmation" else ()
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
    return second.cause.words if second.cause else ""


def _outcome(second: Comparison) -> str:
    if second.failure is not None:
        return f"measured again it failed ({second.failure.reason})"
    figures = _change(second) if second.decided_on == "confirmation" else ""
    return f"{second.verdict_words}{figures} when measured again" + (f" ({second.note})" if second.note else "")


def _change(comparison: Comparison) -> str:
    if comparison.difference is not None:
        return f" {comparison.difference:+.3g} {comparison.unit}".rstrip()
    return "" if comparison.ratio is None else f" {comparison.ratio - 1:+.1%}"
