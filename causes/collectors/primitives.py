"""What primitives of oneDNN and MKL a call runs on either side, by the logs that these libraries print.

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
PAIRS = 5
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


def parsed(line: str) -> Primitive | None:
    """The primitive that a line of a log says was executed; None for any other line."""
    fields = line.strip().split(",")
    try:
        if fields[0] in _ONEDNN:
            return _of_onednn(fields[1:])
        if found := _MKL.match(line):
            arguments = ",".join(one for one in found[2].split(",") if not _POINTER.fullmatch(one))
            return Primitive(f"{found[1]}({arguments})", "", float(found[3]) * _NS[found[4]])
    except (IndexError, ValueError):  # cut off, or of a release that says it otherwise
        return None
    return None


def _of_onednn(fields: Sequence[str]) -> Primitive | None:
    """``[version,] [time stamp,] [component,] exec, [engine,] kind, implementation, propagation, layouts, ..., shape,
    milliseconds``."""
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
        what = " to ".join(sides) if len(sides) == 2 else layouts
    else:
        what = "" if propagation in ("undef", "") else propagation
    if kind in ("pooling", "pooling_v2"):  # 2.x logs all pooling as pooling_v2
        kind, shape = "pooling", _LACKING.sub("", _WINDOW.sub(r"\1\3\2", shape))
    if kind == "concat":  # releases before 2.0 add what comes out
        shape = shape.partition(" ")[0]
    return Primitive(" ".join(filter(None, (kind, what, shape))), implementation, took_ms * 1e6)


def ask_for_primitives(profiling: Profiling, cases: Sequence[Case]) -> dict[str, Answers]:
    """Case id -> answers to ``QUESTION``, in process pairs of their own, whose libraries log; in one pair alone for a
    case in which no primitive ran on either side."""
    bench = profiling.bench
    environment = {**bench.environment, **profiling.framework.profiling.log_variables}
    logging = replace(profiling, bench=replace(bench, environment=environment))
    found = ask_in_pairs(logging, cases, [QUESTION], pairs=1)
    worth = [case for case in cases if not isinstance(primitive_observations(found[case.id]), str)]
    further = ask_in_pairs(logging, worth, [QUESTION], pairs=PAIRS - 1) if worth else {}
    return {case_id: _joined(first, further.get(case_id)) for case_id, first in found.items()}


def _joined(first: Answers, further: Answers | None) -> Answers:
    if further is None:
        return first
    of = {op: [*first.of.get(op, []), *further.of.get(op, [])] for op in {*first.of, *further.of}}
    return Answers(of, {**first.problems, **further.problems}, [*first.failures, *further.failures])


def primitive_observations(answers: Answers) -> list[Observation] | str:
    """Of one case: an observation for each process pair, in ns a call; or why there is none, in one line. The parts of
    a side add up to the primitives' time, which is only a part of the call's."""
    found = answers.about(QUESTION.op)
    if isinstance(found, str):
        return found
    observations: list[Observation] = [
        {side: parts_of(map(parsed, pair[side]["lines"]), pair[side]["calls"]) for side in SIDES} for pair in found
    ]
    return observations if any(parts for one in observations for parts in one.values()) else NOTHING


def released(answers: Answers) -> str:
    """``oneDNN 1.7.0 -> 2.4.4``: the libraries that say another release of themselves on the treatment than on the
    control, in one line; empty where none does."""
    found: dict[Side, dict[str, str]] = {side: {} for side in SIDES}
    for pair in answers.of.get(QUESTION.op, []):
        for side, releases in found.items():
            for line in (*pair[side].get("before", ()), *pair[side]["lines"]):
                if said := _RELEASE.match(line):
                    releases["oneDNN" if said[1] else "MKL"] = said[1] or said[2]
    control, treatment = found["control"], found["treatment"]
    both = sorted(name for name in control.keys() & treatment.keys() if control[name] != treatment[name])
    return ", ".join(f"{name} {control[name]} -> {treatment[name]}" for name in both)


def parts_of(primitives: Iterable[Primitive | None], calls: int) -> dict[str, Part]:
    """The primitives of so many calls as parts of one: how often each runs, and that many times its median, in ns. Of
    several implementations of one, each is named once."""
    found: dict[str, list[Primitive]] = {}
    for one in primitives:
        if one is not None:
            found.setdefault(one.name, []).append(one)
    return {
        name: Part(
            statistics.median(one.ns for one in group) * len(group) / calls,
            len(group) / calls,
            implementation=" and ".join(sorted({one.implementation for one in group if one.implementation})),
        )
        for name, group in found.items()
    }
