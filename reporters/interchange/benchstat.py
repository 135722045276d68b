"""Go benchmark text, which benchstat reads: a line for each process, one value in it."""

import re
from collections.abc import Iterator
from urllib.parse import quote

from opduel.records import METRICS, Comparison, Report
from opduel.records.measurement import SIDES, Side
from opduel.reporters.interchange.cases import (
    Rendered,
    build_facts,
    cut,
    deciding_samples,
    kept_cases,
    names_over_metrics,
    one_line,
    run_facts,
    side_values,
    why_without_samples,
)
from opduel.reporters.summary import validity_line

PREFIX = "BenchmarkOp/"
UNITS = {"time": "ns/op", "instructions": "instructions/op", "memory": "B/op", "process_memory": "process-B"}
_KEPT = "!\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~"  # with letters and digits, all of ASCII but for the space and %
_LONGEST = 8192  # bytes of a name or value; benchstat gives up on a line of 65,536


def to_benchstat(report: Report, side: Side | None) -> Rendered:
    """One side alone, for ``benchstat control.txt treatment.txt``; or both, told apart by ``side:``, for
    ``benchstat -col side``.

    Everything else that is configuration is the same for both sides: benchstat puts what differs in it in tables apart.
    """
    kept, left_out = kept_cases(report, why_without_samples)
    lines = [*_comments(report), *_configuration(report), *_units(kept)]
    for written in SIDES if side is None else (side,):
        if side is None:
            lines += ["", f"side: {written}"]
        lines += _results(kept, written)
    return Rendered("".join(f"{line}\n" for line in lines), left_out)


def legal_name(case: str) -> str:
    """``case`` as part of a benchmark's name, percent-encoded: no space, and no end like ``-8``, which Go reads as a
    number of processors. ``urllib.parse.unquote`` gives it back, unless it had to be cut."""
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
    """What makes results comparable: those of other runs with the same go into the same table."""
    facts = run_facts(report)
    others = {"platform": "target_platform", "cpu": "cpu_model_name"}
    for key in ("spec", "framework", "platform", "threads", "cpu"):
        if (name := others.get(key, key)) in facts:
            yield f"{key}: {cut(str(facts[name]), _LONGEST)}"


def _units(kept: list[Comparison]) -> Iterator[str]:
    known = [one for one in kept if one.metric in METRICS]
    ways = {_unit(one): one.measure.lower_is_better for one in known}
    for unit, lower in sorted(ways.items()):
        if all(one.measure.lower_is_better == lower for one in known if _unit(one) == unit):  # else nothing can be said
            yield f"Unit {unit} better={'lower' if lower else 'higher'}"


def _results(kept: list[Comparison], side: Side) -> Iterator[str]:
    names = names_over_metrics(kept, lambda case: PREFIX + legal_name(case))
    for one, name in zip(kept, names, strict=True):
        samples = deciding_samples(one)
        for sample, value in zip(samples, side_values(samples, side), strict=True):
            yield f"{name} {max(1, sample.calls)} {value!r} {_unit(one)}"


def _unit(one: Comparison) -> str:
    return UNITS.get(one.metric) or quote(one.unit, safe="/", errors="surrogatepass") or "?"
