"""The page's content for each case: facts as text, and the data that its scripts draw."""

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

from opduel.records import Case, Comparison, Effort, Examination, PairSample, Report, Verification, Work, verdict_words
from opduel.reporters.cause_text import breakdown_rows, caption, cells
from opduel.reporters.changes import change_and_interval, effect_text
from opduel.reporters.needs import reason_and_needs
from opduel.reporters.run_text import certainty, failure_text, rates_words
from opduel.reporters.units import ABSENT, human_share, human_size, human_value, scale_of
from opduel.support.text import counted, duration, printable, printable_lines

_DIGITS = 8  # of the numbers that are drawn; those in the table are complete


def fragment(case: str) -> str:
    """Return the part of an address after the ``#`` that opens this case."""
    return "case=" + quote(printable(case), safe="")


def remark(comparison: Comparison, needs: str = "") -> str:
    """Return the remark on a case in the table: injected, failed, note, and what it needs to be decided."""
    failure = comparison.failure
    parts = [
        "injected" if comparison.injected else "",
        failure_text(failure) if failure else "",
        "" if failure and comparison.note == failure.reason else reason_and_needs(comparison, needs),
    ]
    return "; ".join(filter(None, parts))


def case_data(comparison: Comparison, facts: Mapping[str, str], needs: str) -> dict[str, Any]:
    """Return what the page's script needs of a case, as plain data, with these ``facts``; ``needs``: as ``remark``."""
    usual = comparison.treatment if comparison.control is None else comparison.control
    divisor, unit = scale_of(usual, comparison.unit)
    again, has_ratios = comparison.verification, comparison.difference is None
    failures = [failure for failure in (comparison.failure, again.failure if again else None) if failure]
    breakdown = comparison.breakdown and {
        "part": comparison.part,
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
        "change": effect_text(comparison, comparison.unit),
        "why": printable(remark(comparison, needs)),
        "facts": [printable(fact) for fact in facts.values()],
        "divisor": divisor,
        "unit": printable(unit),
        "samples": [
            *_drawn(comparison.samples, has_ratios),
            *_drawn(again.samples if again else (), has_ratios, stage="second measurement"),
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
    lines = [  # six digits: a graph is less than 10,000 pixels wide, and its texts show three
        f"{max(frame.depth, 0)} {frame.control:.6g} {frame.treatment:.6g} {printable(frame.name)}"
        for frame in examination.flame
    ]
    source = printable(examination.source)
    return {"caption": source, "divisor": divisor, "unit": printable(unit), "frames": "\n".join(lines)}


def implementation_rows(examination: Examination) -> list[list[str]]:
    """Return the table of primitives before and after, of candidates with ``implementations``."""
    if examination.source != "primitives":
        return []
    return [
        [
            *(printable(name or "-") for name in (part.name, *part.implementations)),
            *(human_value(amount, examination.unit) for amount in (part.control, part.treatment)),
        ]
        for part in examination.candidates
        if any(part.implementations)
    ]


def case_facts(comparison: Comparison, case: Case | None, report: Report) -> dict[str, str]:
    """Return the facts of a case by their labels, which are the same for all cases; unknown facts are empty."""
    held_back, unit = comparison.held_back, comparison.unit
    change, interval = change_and_interval(comparison, unit)
    files = {name: file.location for name, file in case.files.items()} if case else {}

    def if_known(words: str) -> str:
        return "" if words == ABSENT else words

    return {
        "operator": comparison.operator if comparison.direction else "",
        "function": comparison.operator if "." in comparison.operator and not comparison.direction else "",
        "direction": comparison.direction,
        "metric": comparison.metric,
        "dtype": case.dtype if case else "",
        "context": case.context if case else "",
        "mode": case.mode if case else "",
        "inputs": _plain(case.inputs) if case and case.inputs else "",
        "files": _plain(files) if files else "",
        "change": if_known(change),
        f"interval{certainty(report.configuration.alpha)}": if_known(interval),
        "control": if_known(human_value(comparison.control, unit)),
        "treatment": if_known(human_value(comparison.treatment, unit)),
        "p value": if_known(probability(comparison.p_value)),
        "q value": if_known(probability(comparison.q_value)),
        "threshold": human_share(comparison.threshold),
        "minimum detectable effect": if_known(human_share(comparison.mde)),
        "rounds": str(comparison.rounds),
        "effort": _effort(comparison.effort) if comparison.effort else "",
        "decided on": comparison.decided_on or "",
        "held back": f"would be {verdict_words(held_back, comparison.metric)} in a valid run" if held_back else "",
        "injected": "yes: the treatment was slowed on purpose" if comparison.injected else "",
        "second measurement": _second(comparison.verification, comparison) if comparison.verification else "",
        "work of a call": _work(comparison.work) if comparison.work else "",
        "rates": rates_words(comparison, report.host.roofline),
        "measured on": _place(comparison),
        "note": comparison.note,
    }


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


def _second(again: Verification, first: Comparison) -> str:
    """Return the result of the second measurement, beside that of the first."""
    if again.verdict is None:
        return f"none was made; the first said {again.first}; {again.note}".rstrip("; ")
    verdict = verdict_words(again.verdict, first.metric)
    effect = effect_text(again, first.unit)
    return f"{verdict}: {effect} in {counted(again.rounds, 'round')}; the first said {again.first}"


def _work(work: Work) -> str:
    amounts = [f"{work.flop:.6g} floating-point operations"] if work.flop is not None else []
    amounts += [human_size(work.bytes)] if work.bytes is not None else []
    return f"{', '.join(amounts) or '-'} ({work.dtype})"


def _drawn(samples: Iterable[PairSample], has_ratios: bool, stage: str = "") -> list[list[Any]]:
    """Return each sample as round, stage, whether it decided, control, treatment, log ratio, and forks; those of
    another ``stage`` than their own did not decide."""
    return [
        [
            *(sample.round, stage or sample.stage, int(not stage)),
            *map(_short, (sample.control, sample.treatment)),
            _short(sample.log_ratio) if has_ratios else None,
            sample.forks,
        ]
        for sample in samples
    ]


def _plain(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def probability(value: float | None) -> str:
    """Return a probability with two digits; ``-`` if it is unknown."""
    if value is None or not math.isfinite(value):
        return ABSENT
    return "<0.0001" if value < 0.0001 else f"{value:.2g}"


def exact(number: float | None) -> str:
    """Return the number in full, by which the table is sorted; empty if it is unknown."""
    return "" if number is None or math.isnan(number) else repr(number).replace("inf", "Infinity")


def _short(number: float) -> float:
    return float(f"{number:.{_DIGITS}g}") if math.isfinite(number) else number
