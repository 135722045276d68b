"""Go benchmark text, which benchstat reads: a line for each process, one value in it."""

import re
from collections.abc import Iterator
from urllib.parse import quote

from opduel.records import METRICS, Comparison, Report
from opduel.records.measurement import SIDES, Side
from opduel.reporters.formats import Rendered
from opduel.reporters.interchange.cases import (
    build_facts,
    deciding_samples,
    named_cases,
    one_line,
    run_facts,
    side_values,
    why_without_samples,
)
from opduel.reporters.summary import validity_line
from opduel.support.digests import cut

PREFIX = "BenchmarkOp/"
UNITS = {"time": "ns/op", "instructions": "instructions/op", "memory": "B/op", "process_memory": "process-B"}
_KEPT = "!\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~"  # with letters and digits, all of ASCII but for the space and %
_LONGEST = 8192  # bytes of a name or value; benchstat gives up on a line of 65,536


def to_benchstat(report: Report, side: Side | None) -> Rendered:
    """Return one side, for ``benchstat control.txt treatment.txt``, or both with ``side:``, for ``benchstat -col
    side``.

    All other configuration is the same for both sides, since benchstat makes separate tables of what differs in it.
    """
    cases, left_out = named_cases(report, why_without_samples, lambda case: PREFIX + legal_name(case), True)
    lines = [*_comments(report), *_configuration(report), *_units([comparison for comparison, _ in cases])]
    for written in SIDES if side is None else (side,):
        if side is None:
            lines += ["", f"side: {written}"]
        lines += _results(cases, written)
    return Rendered("".join(f"{line}\n" for line in lines), left_out)


def legal_name(case: str) -> str:
    """Return ``case`` as part of a benchmark's name, percent-encoded: no space, and no end like ``-8``, which Go
    reads as a number of processors. ``urllib.parse.unquote`` gives it back, unless it had to be cut."""
    name = quote(case, safe=_KEPT, errors="surrogatepass")
    return re.sub(r"-(?=\d+$)", "%2D", cut(name, _LONGEST)) or "-"


def _comments(report: Report) -> Iterator[str]:
    for key, value in run_facts(report).items():
        yield f"# {key} {cut(str(value), _LONGEST)}"
    for side in SIDES:
        for key, value in build_facts(getattr(report, side)).items():
            yield f"# {side} {key} {cut(str(value), _LONGEST)}"
    if line := validity_line(report):
        yield f"# {cut(one_line(line), _LONGEST)}"


def _configuration(report: Report) -> Iterator[str]:
    """Yield the facts that must be the same for results of several runs to be in one table."""
    facts = run_facts(report)
    fact_names = {"platform": "target_platform", "cpu": "cpu_model_name"}
    for key in ("spec", "framework", "platform", "threads", "cpu"):
        if (name := fact_names.get(key, key)) in facts:
            yield f"{key}: {cut(str(facts[name]), _LONGEST)}"


def _units(comparisons: list[Comparison]) -> Iterator[str]:
    known_metrics = [comparison for comparison in comparisons if comparison.metric in METRICS]
    ways = {(_unit(comparison), comparison.measure.lower_is_better) for comparison in known_metrics}
    for unit, lower in sorted(ways):
        if (unit, not lower) not in ways:  # else nothing can be said
            yield f"Unit {unit} better={'lower' if lower else 'higher'}"


def _results(cases: list[tuple[Comparison, str]], side: Side) -> Iterator[str]:
    for comparison, name in cases:
        samples = deciding_samples(comparison)
        for sample, value in zip(samples, side_values(samples, side), strict=True):
            yield f"{name} {max(1, sample.calls)} {value!r} {_unit(comparison)}"


def _unit(comparison: Comparison) -> str:
    return UNITS.get(comparison.metric) or quote(comparison.unit, safe="/", errors="surrogatepass") or "?"
