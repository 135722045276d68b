"""The page's content for each case: facts as text, and the data that its scripts draw."""

import json
import math
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote

from opduel.records import (
    Candidate,
    Case,
    Comparison,
    Effort,
    Examination,
    PairSample,
    Verification,
    Work,
    verdict_words,
)
from opduel.records.host_record import RooflineRecord
from opduel.reporters.cause_text import caption, cells
from opduel.reporters.run_text import confidence_text, failure_text, rates_words
from opduel.reporters.screen_table import breakdown_rows
from opduel.reporters.text import printable, printable_lines
from opduel.reporters.units import (
    human_change,
    human_interval,
    human_share,
    human_size,
    human_value,
    scale_of,
)
from opduel.support.text import counted, duration

_DIGITS = 8  # of the numbers that are drawn; those in the table are complete
_FRAME_DIGITS = 6  # of a flame graph's amounts: it is less than 10,000 pixels wide, and its texts show three


def fragment(case: str) -> str:
    """Return the part of an address after the ``#`` that opens this case."""
    return "case=" + quote(printable(case), safe="")


def remark(comparison: Comparison) -> str:
    """Return the remark on a case in the table: injected, failed, held back, note."""
    failure = comparison.failure
    parts = [
        "injected" if comparison.injected else "",
        failure_text(failure) if failure else "",
        f"held back: {verdict_words(comparison.held_back, comparison.metric)}" if comparison.held_back else "",
        "" if failure and comparison.note == failure.reason else comparison.note,
    ]
    return "; ".join(part for part in parts if part)


def case_labels(alpha: float | None) -> list[str]:
    """Return the labels of ``case_data``'s facts, in their order."""
    return [
        *("operator", "direction", "metric", "dtype", "context", "mode", "inputs", "files"),
        *("change", confidence_text(alpha, "interval"), "control", "treatment", "p value", "q value", "threshold"),
        *("minimum detectable effect", "rounds", "effort", "decided on", "held back", "injected", "second measurement"),
        *("work of a call", "rates", "measured on", "note"),
    ]


def case_data(comparison: Comparison, case: Case | None, roofline: RooflineRecord | None) -> dict[str, Any]:
    """Return what the page's script needs of a case, as plain data; unknown facts are empty."""
    divisor, unit = scale_of(
        comparison.control if comparison.control is not None else comparison.treatment, comparison.unit
    )
    again = comparison.verification
    failures = [failure for failure in (comparison.failure, again.failure if again else None) if failure]
    breakdown = comparison.breakdown and {
        "rows": [[printable(name), *cells] for name, cells in breakdown_rows(comparison.breakdown)],
        "note": printable(comparison.breakdown.note),
    }
    return {
        "id": printable(comparison.case),
        "verdict": comparison.verdict,
        "words": comparison.verdict_words,
        "ratio": comparison.ratio,
        "ci": comparison.ci,
        "threshold": comparison.threshold,
        "change": f"{human_change(comparison.ratio)} {human_interval(comparison.ci)}",
        "why": printable(remark(comparison)),
        "facts": [printable(fact) for fact in _facts(comparison, case, roofline)],
        "divisor": divisor,
        "unit": printable(unit),
        "samples": [
            *_drawn(comparison.samples, decides=True),
            *_drawn(again.samples if again else (), decides=False, stage="second measurement"),
        ],
        "failures": [
            {"what": printable(failure_text(failure)), "words": printable_lines(failure.output_tail).strip()}
            for failure in failures
        ],
        "breakdown": breakdown,
        "causes": [_examined(examination) for examination in comparison.cause.examinations] if comparison.cause else [],
    }


def _examined(examination: Examination) -> dict[str, Any]:
    """Return one source's table: its caption, rows and note."""
    return {
        "caption": printable(caption(examination)),
        "rows": [[printable(cell) for cell in cells(part, examination.unit)] for part in examination.candidates],
        "note": printable(examination.note),
        "flame": flame_data(examination),
        "implementations": implementation_rows(examination),
    }


def flame_data(examination: Examination) -> dict[str, Any] | None:
    """Return what ``assets/flame.js`` draws of an examination. A line of ``frames``: depth, control, treatment, name.

    They are one text, not lists: it is half as long, and the browser parses it only when the graph is drawn.
    """
    if not examination.flame:
        return None
    divisor, unit = scale_of(max(examination.flame[0].control, examination.flame[0].treatment), examination.unit)

    def short(amount: float) -> str:
        return f"{amount:.{_FRAME_DIGITS}g}"

    lines = [
        f"{max(frame.depth, 0)} {short(frame.control)} {short(frame.treatment)} {printable(frame.name)}"
        for frame in examination.flame
    ]
    return {
        "caption": printable(examination.source),
        "divisor": divisor,
        "unit": printable(unit),
        "frames": "\n".join(lines),
    }


def implementation_rows(examination: Examination) -> list[list[str]]:
    """Return the table of primitives before and after, of candidates with ``implementations``."""
    primitives = (
        part for part in examination.candidates if any(part.implementations) and examination.source == "primitives"
    )
    return [[printable(cell) for cell in _implementation(part, examination.unit)] for part in primitives]


def _implementation(part: Candidate, unit: str) -> Iterator[str]:
    control, treatment = part.implementations
    yield part.name
    yield control or "-"
    yield treatment or "-"
    yield human_value(part.control, unit)
    yield human_value(part.treatment, unit)


def _facts(comparison: Comparison, case: Case | None, roofline: RooflineRecord | None) -> Iterator[str]:
    yield from (comparison.operator, comparison.direction, comparison.metric)
    yield from (case.dtype, case.context, case.mode, _plain(case.inputs)) if case else ("", "", "", "")
    yield _plain({name: file.location for name, file in case.files.items()}) if case and case.files else ""
    yield _with_number(human_change(comparison.ratio), comparison.ratio, "times")
    yield (
        f"{human_interval(comparison.ci)} ({comparison.ci[0]!r} to {comparison.ci[1]!r} times)" if comparison.ci else ""
    )
    yield _with_number(human_value(comparison.control, comparison.unit), comparison.control, comparison.unit)
    yield _with_number(human_value(comparison.treatment, comparison.unit), comparison.treatment, comparison.unit)
    yield from (exact(comparison.p_value), exact(comparison.q_value))
    yield human_share(comparison.threshold)
    yield human_share(comparison.mde) if comparison.mde is not None else ""
    yield str(comparison.rounds)
    yield _effort(comparison.effort) if comparison.effort else ""
    yield comparison.decided_on or ""
    yield (
        f"would be {verdict_words(comparison.held_back, comparison.metric)} in a valid run"
        if comparison.held_back
        else ""
    )
    yield "yes: the treatment was slowed on purpose" if comparison.injected else ""
    yield _second(comparison.verification, comparison.metric) if comparison.verification else ""
    yield _work(comparison.work) if comparison.work else ""
    yield rates_words(comparison, roofline)
    yield _place(comparison)
    yield comparison.note


def _place(comparison: Comparison) -> str:
    """Return which host of a fleet measured the case; empty for a run on one host."""
    of_kind = f"of the kind {comparison.kind}" if comparison.kind else ""
    return ", ".join(word for word in (comparison.host or "", of_kind) if word)


def _effort(effort: Effort) -> str:
    """Return how much was measured in the last round, and the noise that decided it."""
    noise = (("quad", effort.quad_sd), ("fork", effort.fork_sd), ("pair", effort.pair_sd))
    deviations = ", ".join(f"{level} {human_share(deviation)}" for level, deviation in noise if deviation is not None)
    last_round = f"{counted(effort.forks, 'fork')} of {counted(effort.quads, 'quad')} in the last round"
    words = (last_round, f"{duration(effort.seconds)} in all", f"noise: {deviations}" if deviations else "")
    return "; ".join(filter(None, words))


def _second(again: Verification, metric: str) -> str:
    """Return the result of the second measurement, beside that of the first."""
    if again.verdict is None:
        return f"none was made; the first said {again.first}; {again.note}".rstrip("; ")
    verdict = verdict_words(again.verdict, metric)
    words = f"{verdict}: {human_change(again.ratio)} {human_interval(again.ci)} in {again.rounds} rounds"
    return f"{words}; the first said {again.first}"


def _work(work: Work) -> str:
    amounts = [f"{work.flop:.6g} floating-point operations"] if work.flop is not None else []
    amounts += [human_size(work.bytes)] if work.bytes is not None else []
    return f"{', '.join(amounts) or '-'} ({work.dtype})"


def _drawn(samples: Iterable[PairSample], decides: bool, stage: str | None = None) -> list[list[Any]]:
    """Return each sample as round, stage, whether it decided, control, treatment, log ratio, and forks."""
    return [
        [
            *(sample.round, stage or sample.stage, int(decides)),
            *map(_short, (sample.control, sample.treatment, sample.log_ratio)),
            sample.forks,
        ]
        for sample in samples
    ]


def _plain(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _with_number(text: str, number: float | None, unit: str) -> str:
    return f"{text} ({number!r} {unit})" if number is not None else ""


def probability(value: float | None) -> str:
    """Return a probability with two digits; ``-`` if it is unknown."""
    if value is None or not math.isfinite(value):
        return "-"
    return "<0.0001" if value < 0.0001 else f"{value:.2g}"


def exact(number: float | None) -> str:
    """Return the number in full, by which the table is sorted; empty if it is unknown."""
    return "" if number is None or math.isnan(number) else repr(number).replace("inf", "Infinity")


def _short(number: float) -> float:
    return float(f"{number:.{_DIGITS}g}") if math.isfinite(number) else number
