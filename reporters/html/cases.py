"""What the page says about each case: facts as text, and the data that its scripts draw."""

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
from opduel.records.text import counted
from opduel.reporters.cause_text import caption, cells
from opduel.reporters.run_text import confidence_text, failure_text, rates_words
from opduel.reporters.screen_table import breakdown_rows
from opduel.reporters.text import printable, printable_lines
from opduel.reporters.units import (
    human_change,
    human_duration,
    human_interval,
    human_share,
    human_size,
    human_value,
    scale_of,
)

_DIGITS = 8  # of the numbers that are drawn; those in the table are whole
_FRAME_DIGITS = 6  # of a flame graph's amounts: it is less than 10,000 pixels wide, and its words have three


def fragment(case: str) -> str:
    """The part of an address behind the ``#`` that opens this case."""
    return "case=" + quote(printable(case), safe="")


def remark(one: Comparison) -> str:
    """What is to be said of a case in the table: injected, failed, noted."""
    failure = one.failure
    parts = [
        "injected" if one.injected else "",
        failure_text(failure) if failure else "",
        f"held back: {verdict_words(one.held_back, one.metric)}" if one.held_back else "",
        "" if failure and one.note == failure.reason else one.note,
    ]
    return "; ".join(part for part in parts if part)


def case_labels(alpha: float | None) -> list[str]:
    """The labels of ``case_data``'s facts, in their order."""
    return [
        *("operator", "direction", "metric", "dtype", "context", "mode", "inputs", "files"),
        *("change", confidence_text(alpha, "interval"), "control", "treatment", "p value", "q value", "threshold"),
        *("minimum detectable effect", "rounds", "effort", "decided on", "held back", "injected", "second measurement"),
        *("work of a call", "rates", "measured on", "note"),
    ]


def case_data(one: Comparison, case: Case | None, roofline: Any) -> dict[str, Any]:
    """What the page's script needs of a case, as plain data; facts that are not known are empty."""
    divisor, unit = scale_of(one.control if one.control is not None else one.treatment, one.unit)
    again = one.verification
    failures = [failure for failure in (one.failure, again.failure if again else None) if failure]
    breakdown = one.breakdown and {
        "rows": [[printable(name), *cells] for name, cells in breakdown_rows(one.breakdown)],
        "note": printable(one.breakdown.note),
    }
    return {
        "id": printable(one.case),
        "verdict": one.verdict,
        "words": one.verdict_words,
        "ratio": one.ratio,
        "ci": one.ci,
        "threshold": one.threshold,
        "said": f"{human_change(one.ratio)} {human_interval(one.ci)}",
        "why": printable(remark(one)),
        "facts": [printable(fact) for fact in _facts(one, case, roofline)],
        "divisor": divisor,
        "unit": printable(unit),
        "samples": [
            *_drawn(one.samples, decides=True),
            *_drawn(again.samples if again else (), decides=False, stage="second measurement"),
        ],
        "failures": [
            {"what": printable(failure_text(one)), "words": printable_lines(one.output_tail).strip()}
            for one in failures
        ],
        "breakdown": breakdown,
        "causes": [_examined(one) for one in one.cause.examinations] if one.cause else [],
    }


def _examined(one: Examination) -> dict[str, Any]:
    """One source's table: its caption, its rows, and what is to be said of it."""
    return {
        "caption": printable(caption(one)),
        "rows": [[printable(cell) for cell in cells(part, one.unit)] for part in one.candidates],
        "note": printable(one.note),
        "flame": flame_data(one),
        "implementations": implementation_rows(one),
    }


def flame_data(one: Examination) -> dict[str, Any] | None:
    """What ``assets/flame.js`` draws of an examination. A line of ``frames``: depth, control, treatment, name.

    They are one text, not lists: that is half as long, and a browser takes it apart only when the graph is drawn.
    """
    if not one.flame:
        return None
    divisor, unit = scale_of(max(one.flame[0].control, one.flame[0].treatment), one.unit)

    def short(amount: float) -> str:
        return f"{amount:.{_FRAME_DIGITS}g}"

    lines = [
        f"{max(frame.depth, 0)} {short(frame.control)} {short(frame.treatment)} {printable(frame.name)}"
        for frame in one.flame
    ]
    return {"caption": printable(one.source), "divisor": divisor, "unit": printable(unit), "frames": "\n".join(lines)}


def implementation_rows(one: Examination) -> list[list[str]]:
    """The rows of a table of primitives before and after, of the candidates that say their ``implementations``."""
    found = (part for part in one.candidates if any(part.implementations) and one.source == "primitives")
    return [[printable(cell) for cell in _implementation(part, one.unit)] for part in found]


def _implementation(part: Candidate, unit: str) -> Iterator[str]:
    control, treatment = part.implementations
    yield part.name
    yield control or "-"
    yield treatment or "-"
    yield human_value(part.control, unit)
    yield human_value(part.treatment, unit)


def _facts(one: Comparison, case: Case | None, roofline: Any) -> Iterator[str]:
    yield from (one.operator, one.direction, one.metric)
    yield from (case.dtype, case.context, case.mode, _plain(case.inputs)) if case else ("", "", "", "")
    yield _plain({name: file.location for name, file in case.files.items()}) if case and case.files else ""
    yield _with_number(human_change(one.ratio), one.ratio, "times")
    yield f"{human_interval(one.ci)} ({one.ci[0]!r} to {one.ci[1]!r} times)" if one.ci else ""
    yield _with_number(human_value(one.control, one.unit), one.control, one.unit)
    yield _with_number(human_value(one.treatment, one.unit), one.treatment, one.unit)
    yield from (exact(one.p_value), exact(one.q_value))
    yield human_share(one.threshold)
    yield human_share(one.mde) if one.mde is not None else ""
    yield str(one.rounds)
    yield _effort(one.effort) if one.effort else ""
    yield one.decided_on or ""
    yield f"would be {verdict_words(one.held_back, one.metric)} in a valid run" if one.held_back else ""
    yield "yes: the treatment was slowed on purpose" if one.injected else ""
    yield _second(one.verification, one.metric) if one.verification else ""
    yield _work(one.work) if one.work else ""
    yield rates_words(one, roofline)
    yield _place(one)
    yield one.note


def _place(one: Comparison) -> str:
    """Which host of a fleet measured it; empty for a run on one host."""
    of_kind = f"of the kind {one.kind}" if one.kind else ""
    return ", ".join(word for word in (one.host or "", of_kind) if word)


def _effort(effort: Effort) -> str:
    """How much was measured in the last round, and the noise that decided it."""
    noise = (("quad", effort.quad_sd), ("fork", effort.fork_sd), ("pair", effort.pair_sd))
    deviations = ", ".join(f"{level} {human_share(deviation)}" for level, deviation in noise if deviation is not None)
    last_round = f"{counted(effort.forks, 'fork')} of {counted(effort.quads, 'quad')} in the last round"
    words = (last_round, f"{human_duration(effort.seconds)} in all", f"noise: {deviations}" if deviations else "")
    return "; ".join(filter(None, words))


def _second(again: Verification, metric: str) -> str:
    """What the second measurement found of what the first one had flagged."""
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
    """Each sample as round, stage, whether it decided, control, treatment, log ratio, and forks."""
    return [
        [
            *(one.round, stage or one.stage, int(decides)),
            *map(_short, (one.control, one.treatment, one.log_ratio)),
            one.forks,
        ]
        for one in samples
    ]


def _plain(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _with_number(shown: str, number: float | None, unit: str) -> str:
    return f"{shown} ({number!r} {unit})" if number is not None else ""


def probability(value: float | None) -> str:
    """To two digits; ``-`` for what is not known."""
    if value is None or not math.isfinite(value):
        return "-"
    return "<0.0001" if value < 0.0001 else f"{value:.2g}"


def exact(number: float | None) -> str:
    """The number in full, as the table is sorted by it; empty for what is not known."""
    return "" if number is None or math.isnan(number) else repr(number).replace("inf", "Infinity")


def _short(number: float) -> float:
    return float(f"{number:.{_DIGITS}g}") if math.isfinite(number) else number
