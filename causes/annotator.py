"""Adds the cause of each change to the comparisons of a run, after all measuring.

A fault in here costs causes alone: no verdict depends on them.
"""

import logging
import math
import time
from collections.abc import Sequence
from dataclasses import replace

from opduel.causes.wording.instructions import attribute_changes
from opduel.causes.wording.sentence import cause_of
from opduel.harness.measurement_plan import MeasurementResult
from opduel.harness.planning.budget import EXPLAINED_METRICS
from opduel.harness.profiles import Profiling
from opduel.harness.run_request import RunRequest
from opduel.records import FLAGGED, Cause, Comparison
from opduel.support.text import counted, duration

MOST_EXPLAINED = 20  # cases of a run, the largest changes first
TOO_MANY = f"its cause was not looked for: the run has {MOST_EXPLAINED} larger changes"
log = logging.getLogger(__name__)


def find_causes(
    comparisons: Sequence[Comparison],
    request: RunRequest,
    findings: MeasurementResult,
    profiling: Profiling,
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
    from opduel.causes.evidence import LONGEST_S, collect_evidence  # here, because it takes long to import

    longest_s = min(LONGEST_S, profiling.deadline - time.monotonic())
    if longest_s > 0:
        number = counted(min(len(changes), MOST_EXPLAINED), "changed case")
        log.info("looking for the cause of %s, in at most about %s", number, duration(round(longest_s)))
    explained = {comparison.case: comparison for comparison in changes[:MOST_EXPLAINED]}
    notes = {comparison.case: TOO_MANY for comparison in changes[MOST_EXPLAINED:]}
    causes: dict[str, Cause] = {}
    try:
        cases = {case.id: case for case in request.cases}
        evidence = collect_evidence(explained, cases, request, profiling)
    except KeyboardInterrupt as error:
        findings.stop(error)
        return comparisons
    except Exception as error:  # a fault of opduel's own
        evidence, notes = {}, dict.fromkeys(explained, _describe_fault(error))
    for case_id, of_case in evidence.items():
        try:
            if cause := cause_of(explained[case_id], of_case.examinations, of_case.compilers):
                causes[case_id], notes[case_id] = cause, cause.words
        except Exception as error:  # likewise, of this case alone
            notes[case_id] = _describe_fault(error)
    return [
        replace(comparison, cause=causes.get(case_id), note="; ".join(filter(None, (comparison.note, notes[case_id]))))
        if (case_id := comparison.case) in notes
        else comparison
        for comparison in comparisons
    ]


def changes_to_explain(comparisons: Sequence[Comparison], request: RunRequest) -> list[Comparison]:
    """Return the comparisons whose cause is looked for, the largest change first: all changes that were not injected
    (``--explain all``), or those that a second measurement confirmed, as all changes of a run that replicates an
    earlier one are; none with ``--explain none``."""
    if request.configuration.explain == "none":
        return []
    takes_all = request.configuration.explain == "all" or request.first_measurement is not None
    changes = [
        comparison
        for comparison in comparisons
        if comparison.verdict in FLAGGED
        and comparison.ratio
        and comparison.metric in EXPLAINED_METRICS
        and not comparison.injected
        and (takes_all or (comparison.verification and comparison.verification.verdict == comparison.verdict))
    ]
    return sorted(changes, key=lambda comparison: -abs(math.log(comparison.ratio or 1.0)))


def _describe_fault(error: Exception) -> str:
    """Return in one line why there is no cause."""
    log.warning("a cause was lost", exc_info=error if log.isEnabledFor(logging.DEBUG) else None)
    return f"its cause was not found: {type(error).__name__}: {' '.join(str(error).split())}"
