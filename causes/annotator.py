"""Adds the cause of each change to the comparisons of a run, after all measuring.

A fault in here costs causes alone: no verdict depends on them.
"""

import logging
import math
from collections.abc import Sequence
from dataclasses import replace

from opduel.causes.wording.instructions import attribute_changes
from opduel.causes.wording.sentence import cause_of
from opduel.harness.measurement_plan import MeasurementResult
from opduel.harness.planning.budget import EXPLAINED_METRICS
from opduel.harness.profiles import Profiling
from opduel.harness.run_request import RunRequest
from opduel.records import FLAGGED, Cause, Comparison

MOST_EXPLAINED = 20  # cases of a run, the largest changes first
TOO_MANY = f"its cause was not looked for: the run has {MOST_EXPLAINED} larger changes"
log = logging.getLogger(__name__)


def find_causes(
    comparisons: Sequence[Comparison], request: RunRequest, findings: MeasurementResult, profiling: Profiling
) -> list[Comparison]:
    """Return the comparisons in their order, those of ``changes_to_explain`` with a cause, whose sentence is added to
    the note. Notes also say what time and instructions mean together, where both were compared.

    An aborted run gets no causes, and nothing is begun after the deadline of ``profiling``. A signal meanwhile costs
    the causes, and is noted in ``findings``.
    """
    comparisons = attribute_changes(comparisons)
    changes = changes_to_explain(comparisons, request)
    if findings.aborted or not changes:
        return comparisons
    from opduel.causes.evidence import collect_evidence  # here, because it takes long to import

    explained, cases = changes[:MOST_EXPLAINED], {case.id: case for case in request.cases}
    notes = {comparison.case: TOO_MANY for comparison in changes[MOST_EXPLAINED:]}
    causes: dict[str, Cause | None] = {}
    try:
        evidence = collect_evidence(
            {comparison.case: comparison for comparison in explained}, cases, request, profiling
        )
    except KeyboardInterrupt as error:
        findings.stop(error)
        return comparisons
    except Exception as error:  # a fault of opduel's own
        notes = {comparison.case: _describe_fault(error) for comparison in explained}
    else:
        for comparison in explained:
            of_case = evidence[comparison.case]
            try:
                causes[comparison.case] = cause_of(comparison, of_case.examinations, of_case.compilers)
            except Exception as error:  # likewise, of this case alone
                notes[comparison.case] = _describe_fault(error)
    return [
        _with_cause(comparison, causes.get(comparison.case), notes.get(comparison.case, ""))
        for comparison in comparisons
    ]


def changes_to_explain(comparisons: Sequence[Comparison], request: RunRequest) -> list[Comparison]:
    """Return the comparisons whose cause is looked for, the largest change first: all changes that were not injected
    (``--explain all``), or those that a second measurement confirmed, as all changes of a run that replicates an
    earlier one are; none with ``--explain none``."""
    if request.configuration.explain == "none":
        return []
    changes = [
        comparison
        for comparison in comparisons
        if comparison.verdict in FLAGGED
        and comparison.ratio
        and comparison.metric in EXPLAINED_METRICS
        and not comparison.injected
    ]
    if request.configuration.explain == "confirmed" and request.first_measurement is None:
        changes = [
            comparison
            for comparison in changes
            if comparison.verification is not None and comparison.verification.verdict == comparison.verdict
        ]
    return sorted(changes, key=lambda comparison: -abs(math.log(comparison.ratio or 1.0)))


def _describe_fault(error: Exception) -> str:
    """Return in one line why there is no cause."""
    log.warning("a cause was lost", exc_info=error if log.isEnabledFor(logging.DEBUG) else None)
    return f"its cause was not found: {type(error).__name__}: {' '.join(str(error).split())}"


def _with_cause(comparison: Comparison, cause: Cause | None, note: str) -> Comparison:
    note = cause.words if cause else note
    if not note:
        return comparison
    return replace(comparison, cause=cause, note="; ".join(filter(None, (comparison.note, note))))
