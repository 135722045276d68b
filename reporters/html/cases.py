"""What the page tells of each case: a row of the table, and what is shown when it is opened."""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from opduel.records import Case, Comparison, Failure, PairSample, Verification, Work
from opduel.reporters.rates import rates_words
from opduel.reporters.screen_breakdown import breakdown_rows
from opduel.reporters.summary import WORST_FIRST
from opduel.reporters.text import printable
from opduel.reporters.units import human_change, human_interval, human_share, human_size, human_value, scale_of

_DIGITS = 8  # of the numbers that are drawn; those in the table are whole


@dataclass(frozen=True)
class Row:
    """One case in the table. Texts are safe to show, and still to be escaped; ``exact`` is what columns are sorted
    by: empty for what is not known."""

    verdict: str
    rank: int
    case: str
    fragment: str
    change: str
    interval: str
    p_value: str
    q_value: str
    threshold: str
    smallest: str
    rounds: int
    control: str
    treatment: str
    note: str
    exact: dict[str, str]


def rows(comparisons: Sequence[Comparison]) -> list[Row]:
    """The table's rows, in the order given."""
    return [_row(one) for one in comparisons]


def fragment_of(case: str) -> str:
    """The part of an address behind the ``#`` that opens this case."""
    return "case=" + quote(printable(case), safe="")


def _row(one: Comparison) -> Row:
    numbers = {
        "change": one.ratio,
        "interval": None if one.ci is None else one.ci[1] - one.ci[0],
        "p_value": one.p_value,
        "q_value": one.q_value,
        "threshold": one.threshold,
        "smallest": one.mde,
        "control": one.control,
        "treatment": one.treatment,
    }
    unit = printable(one.unit)
    return Row(
        verdict=one.verdict,
        rank=WORST_FIRST.index(one.verdict),
        case=printable(one.case),
        fragment=fragment_of(one.case),
        change=human_change(one.ratio),
        interval=human_interval(one.ci),
        p_value=_probability(one.p_value),
        q_value=_probability(one.q_value),
        threshold=human_share(one.threshold),
        smallest=human_share(one.mde),
        rounds=one.rounds,
        control=human_value(one.control, unit),
        treatment=human_value(one.treatment, unit),
        note=_remark(one),
        exact={name: _exactly(number) for name, number in numbers.items()},
    )


def _remark(one: Comparison) -> str:
    """What is to be said of a case in the table: injected, failed, noted."""
    failure = one.failure
    parts = [
        "injected" if one.injected else "",
        f"{failure.side}: {failure.kind}: {failure.reason}" if failure else "",
        f"held back: {one.held_back}" if one.held_back else "",
        "" if failure and one.note == failure.reason else one.note,
    ]
    return printable("; ".join(part for part in parts if part))


def case_labels(alpha: Any) -> list[str]:
    """The labels of ``case_data``'s facts, in their order."""
    confidence = f"{100 * (1 - alpha):g} % interval" if isinstance(alpha, float) and 0 < alpha < 1 else "interval"
    return [
        *("operator", "direction", "metric", "dtype", "context", "mode", "inputs", "files"),
        *("change", confidence, "control", "treatment", "p value", "q value", "threshold"),
        *("minimum detectable effect", "rounds", "decided on", "held back", "injected", "second measurement"),
        *("work of a call", "rates", "note"),
    ]


def case_data(one: Comparison, case: Case | None, roofline: Any) -> dict[str, Any]:
    """What the page's script needs of a case, as plain data; facts that are not known are empty."""
    divisor, unit = scale_of(one.control if one.control is not None else one.treatment, one.unit)
    again = one.verification
    return {
        "id": printable(one.case),
        "verdict": one.verdict,
        "ratio": one.ratio,
        "ci": one.ci,
        "threshold": one.threshold,
        "said": f"{human_change(one.ratio)} {human_interval(one.ci)}",
        "why": _remark(one),
        "facts": [printable(fact) for fact in _facts(one, case, roofline)],
        "divisor": divisor,
        "unit": printable(unit),
        "samples": [
            *_drawn(one.samples, decided=one.decided_on),
            *_drawn(again.samples if again else (), decided=None, stage="second measurement"),
        ],
        "failures": [_failure(failure) for failure in (one.failure, again.failure if again else None) if failure],
        "breakdown": _breakdown(one),
    }


def _facts(one: Comparison, case: Case | None, roofline: Any) -> Iterable[str]:
    yield from (one.operator, one.direction, one.metric)
    yield from (case.dtype, case.context, case.mode, _plain(case.inputs)) if case else ("", "", "", "")
    yield _plain({name: file.location for name, file in case.files.items()}) if case and case.files else ""
    yield _with_number(human_change(one.ratio), one.ratio, "times")
    yield f"{human_interval(one.ci)} ({one.ci[0]!r} to {one.ci[1]!r} times)" if one.ci else ""
    yield _with_number(human_value(one.control, one.unit), one.control, one.unit)
    yield _with_number(human_value(one.treatment, one.unit), one.treatment, one.unit)
    yield from (_exactly(one.p_value), _exactly(one.q_value))
    yield human_share(one.threshold)
    yield human_share(one.mde) if one.mde is not None else ""
    yield str(one.rounds)
    yield one.decided_on or ""
    yield f"would be {one.held_back} if the run could be trusted" if one.held_back else ""
    yield "yes: the treatment was slowed on purpose" if one.injected else ""
    yield _second(one.verification) if one.verification else ""
    yield _work(one.work) if one.work else ""
    yield rates_words(one, roofline)
    yield one.note


def _second(again: Verification) -> str:
    """What the second measurement found of what the first one had flagged."""
    if again.verdict is None:
        return f"none was made; the first said {again.first}; {again.note}".rstrip("; ")
    words = f"{again.verdict}: {human_change(again.ratio)} {human_interval(again.ci)} in {again.rounds} rounds"
    return f"{words}; the first said {again.first}"


def _work(work: Work) -> str:
    amounts = [
        f"{work.flop:.6g} floating-point operations" if work.flop is not None else "",
        human_size(work.bytes) if work.bytes is not None else "",
    ]
    return f"{', '.join(amount for amount in amounts if amount) or '-'} ({work.dtype})"


def _drawn(samples: Iterable[PairSample], decided: str | None, stage: str | None = None) -> list[list[Any]]:
    """Each sample as round, stage, whether it decided, control, treatment, log ratio, and forks."""
    return [
        [
            one.round,
            stage or one.stage,
            int(one.stage == decided),
            _short(one.control),
            _short(one.treatment),
            _short(one.log_ratio),
            one.forks,
        ]
        for one in samples
    ]


def _failure(failure: Failure) -> dict[str, str]:
    return {
        "what": printable(f"{failure.side}: {failure.kind}: {failure.reason}"),
        "words": "\n".join(map(printable, failure.output_tail.splitlines())).strip(),
    }


def _breakdown(one: Comparison) -> dict[str, Any] | None:
    if one.breakdown is None:
        return None
    table = [[printable(name), *cells] for name, cells in breakdown_rows(one.breakdown)]
    return {"rows": table, "note": printable(one.breakdown.note)}


def _plain(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _with_number(shown: str, number: float | None, unit: str) -> str:
    return f"{shown} ({number!r} {unit})" if number is not None else ""


def _probability(value: float | None) -> str:
    if value is None or not math.isfinite(value):
        return "-"
    return "<0.0001" if value < 0.0001 else f"{value:.2g}"


def _exactly(number: float | None) -> str:
    """The number in full, as the table is sorted by it; empty for what is not known."""
    return "" if number is None or math.isnan(number) else repr(number).replace("inf", "Infinity")


def _short(number: float) -> float:
    return float(f"{number:.{_DIGITS}g}") if math.isfinite(number) else number
