"""Asks which primitives of oneDNN and MKL a call runs on either side, by the logs that these libraries print.

A primitive is known by its kind and shape.  Which implementation ran is said beside it, not in its name: the same
convolution by ``jit:avx512_core`` and by ``ref:any`` is one part.  Of a reorder, layouts are what it is about, and part
of the name.

oneDNN's lines are described at https://uxlfoundation.github.io/oneDNN/dev_guide_verbose.html, those of its releases
before 1.0 (``mkldnn_verbose``) lack the engine; MKL's in the oneMKL Developer Guide, "Using oneMKL Verbose Mode".
"""

import re
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from opduel.causes.collectors.process_pairs import Answers, Question, ask_in_pairs
from opduel.harness.profiles import Profiling
from opduel.records import Case, Part
from opduel.records.cause import Observation
from opduel.records.measurement import SIDES, Side

QUESTION = Question("printed", work_ns=50_000_000, most=50)
NOTE = "each primitive's time as its library logs it"
NOTHING = "the libraries logged no primitive"

_ONEDNN = ("onednn_verbose", "dnnl_verbose", "mkldnn_verbose")
_OPERATION = re.compile(r"exec\b")
_LAYOUT = re.compile(r"(?:^| )(src|dst|in|out)[_:]([a-z]*\d+)[_:](?:[^: ]*:)?(?:blocked:)?([A-Za-z][A-Za-z0-9]*)")
# Pooling by releases before 2.0: the dilation precedes the stride, and a shape has dimensions that the input lacks.
_WINDOW = re.compile(r"(k[dhw]\d+)(d[dhw]\d+)(s[dhw]\d+)")
_LACKING = re.compile(r"_i([dh])1o(?:\1)1k(?:\1)1s(?:\1)1d(?:\1)0p(?:\1)0(?=_)")
_MKL = re.compile(r"MKL_VERBOSE (\w+)\((.*)\) ([\d.]+)(ns|us|ms|s)\b")
_RELEASE = re.compile(
    r"(?:onednn|dnnl|mkldnn)_verbose,(?:\w+,)*info,(?:oneDNN|DNNL|Intel\(R\) MKL-DNN) v([\d.]+\d)"
    r"|MKL_VERBOSE (?:Intel\(R\) |one)MKL ([\d.]+\d(?: Update \d+)?)"
)
_POINTER = re.compile(r"0x[0-9a-f]+|\(nil\)")
_NS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}


@dataclass(frozen=True)
class Primitive:
    """One line of a log: ``name`` is the kind and shape, ``ns`` the time that it took."""

    name: str
    implementation: str
    ns: float


def parse_line(line: str) -> Primitive | None:
    """Return the primitive that a line of a log says was executed; None for any other line."""
    fields = line.strip().split(",")
    try:
        if fields[0] in _ONEDNN:
            return _of_onednn(fields[1:])
        if match := _MKL.match(line):
            arguments = ",".join(argument for argument in match[2].split(",") if not _POINTER.fullmatch(argument))
            return Primitive(f"{match[1]}({arguments})", "", float(match[3]) * _NS[match[4]])
    except (IndexError, ValueError):  # cut off, or of a release that says it otherwise
        return None
    return None


def _of_onednn(fields: Sequence[str]) -> Primitive | None:
    """Read ``[version,] [time stamp,] [component,] exec, [engine,] kind, implementation, propagation, layouts, ...,
    shape, milliseconds``."""
    start = next((at for at, field in enumerate(fields[:4]) if _OPERATION.match(field)), None)
    if start is None:
        return None
    fields = fields[start + 1 :]
    if re.match(r"(cpu|gpu)\b", fields[0]):
        fields = fields[1:]
    kind, implementation, propagation, layouts = fields[:4]
    shape, took_ms = fields[-2], float(fields[-1])
    if kind == "reorder":
        sides = [f"{dtype} {layout}" for _, dtype, layout in _LAYOUT.findall(layouts)]
        detail = " to ".join(sides) if len(sides) == 2 else layouts
    else:
        detail = "" if propagation in ("undef", "") else propagation
    if kind in ("pooling", "pooling_v2"):  # 2.x logs all pooling as pooling_v2
        kind, shape = "pooling", _LACKING.sub("", _WINDOW.sub(r"\1\3\2", shape))
    if kind == "concat":  # releases before 2.0 add what comes out
        shape = shape.partition(" ")[0]
    return Primitive(" ".join(filter(None, (kind, detail, shape))), implementation, took_ms * 1e6)


def ask_for_primitives(profiling: Profiling, cases: Sequence[Case]) -> dict[str, Answers]:
    """Return for each case id the answers to ``QUESTION``, in process pairs of their own, whose libraries log."""
    bench = profiling.bench
    environment = {**bench.environment, **profiling.framework.profiling.log_variables}
    return ask_in_pairs(replace(profiling, bench=replace(bench, environment=environment)), cases, [QUESTION])


def primitive_observations(answers: Answers) -> list[Observation]:
    """Return an observation for each process pair, in ns a call. The parts of a side add up to the primitives' time,
    which is only a part of the call's. Raises UnansweredError."""
    return answers.observations(
        QUESTION.op, lambda answer: parts_of(map(parse_line, answer["lines"]), answer["calls"]), NOTHING
    )


def describe_releases(answers: Answers) -> str:
    """Return ``oneDNN 1.7.0 -> 2.4.4`` for the libraries that log another release on the treatment than on the control;
    empty where none does."""
    releases_by_side: dict[Side, dict[str, str]] = {side: {} for side in SIDES}
    for pair in answers.of.get(QUESTION.op, []):
        for side, releases in releases_by_side.items():
            for line in (*pair[side].get("before", ()), *pair[side]["lines"]):
                if match := _RELEASE.match(line):
                    releases["oneDNN" if match[1] else "MKL"] = match[1] or match[2]
    control, treatment = releases_by_side["control"], releases_by_side["treatment"]
    updated = sorted(name for name in control.keys() & treatment.keys() if control[name] != treatment[name])
    return ", ".join(f"{name} {control[name]} -> {treatment[name]}" for name in updated)


def parts_of(primitives: Iterable[Primitive | None], calls: int) -> dict[str, Part]:
    """Return the primitives of so many calls as parts of one: how often each runs, and that many times its median, in
    ns. Of several implementations of one, each is named once."""
    runs_by_name: dict[str, list[Primitive]] = {}
    for primitive in filter(None, primitives):
        runs_by_name.setdefault(primitive.name, []).append(primitive)
    return {
        name: Part(
            statistics.median(run.ns for run in runs) * len(runs) / calls,
            len(runs) / calls,
            implementation=" and ".join(sorted({run.implementation for run in runs if run.implementation})),
        )
        for name, runs in runs_by_name.items()
    }
