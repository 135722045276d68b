"""Candidates of a cause in words: names that people can read, how often they run, and their shares."""

import re
from collections.abc import Sequence

from opduel.records.cause import ONE_BY_ONE, VECTORS, Candidate, without_clone
from opduel.records.text import clipped, counted

NOUNS = {"ns": "time", "instructions": "instructions", "bytes": "memory"}  # by unit
LONGEST_ARGUMENTS = 24  # characters of template arguments
LONGEST_NAME = 120  # characters of a name in the sentence
# Where CPython's own functions are: files of its source, or its library where there is no debug information.
_INTERPRETER = re.compile(
    r"(?:^|/)(?:Include|Modules|Objects|Parser|Python)/[\w./-]+\.[ch](?::\d+)?$|^(?:lib)?python\d"
)


def listed(parts: Sequence[Candidate]) -> str:
    """``f and 2 more``."""
    others = len(parts) - 1
    return short_name(parts[0].name) + (f" and {others} more" if others else "")


def claims(leads: Sequence[Candidate], added: str) -> str:
    """``2 calls of f per call, new (file:12), account for 96 % [93, 99] of the added time``; several after colons."""
    if len(leads) == 1:
        lead = leads[0]
        if is_renamed(lead):
            return f"{described(lead).rstrip(',')}: {share_of(lead)} {added}".rstrip()
        verb = "account for" if described(lead)[:1].isdigit() and _plural(lead) else "accounts for"
        return f"{described(lead)} {verb} {share_of(lead)} {added}".rstrip()
    return ", ".join(
        f"{described(one).rstrip(',')}: {share_of(one)}{' ' + added if added and not at else ''}"
        for at, one in enumerate(leads)
    )


def _plural(candidate: Candidate) -> bool:
    return _calls_of(candidate)[0] is not None and f"{_calls_of(candidate)[0]:.3g}" != "1"


def _calls_of(candidate: Candidate) -> tuple[float | None, str]:
    """How often the side that alone has it calls it, and what became of it; empty for what both sides have."""
    if candidate.control == 0 and not candidate.was:
        return candidate.calls[1], "new"
    if candidate.treatment == 0 and not candidate.was:
        return candidate.calls[0], "gone"
    return None, ""


def is_of_the_interpreter(candidate: Candidate) -> bool:
    """Whether a native function is one of CPython's own: by its place, or by its name where that is not known. NumPy's
    have such names, too (``PyArray_NewFromDescr_int``)."""
    if candidate.where:
        return bool(_INTERPRETER.search(candidate.where))
    return bool(re.match(r"_?Py(?:[A-Z]|_)", candidate.name))


def is_renamed(candidate: Candidate) -> bool:
    """Whether it has another name on the control, and not just a clone's, or that of another module."""
    before, after = (without_clone(name).rpartition(".")[2] for name in (candidate.was, candidate.name))
    return bool(candidate.was) and before != after


def described(candidate: Candidate) -> str:
    """``2 calls of f per call, new (file:12),``: what is known of a candidate besides its share."""
    name, where = short_name(candidate.name), f" ({short_name(candidate.where)})" if candidate.where else ""
    if candidate.merged:
        more = f" and {len(candidate.merged) - 1} more" if len(candidate.merged) > 1 else ""
        name += f" with {short_name(candidate.merged[0])}{more}, inlined or split,"
    if is_renamed(candidate):
        return f"{short_name(candidate.was)} became {name}{where}"
    calls, fate = _calls_of(candidate)
    before, after = candidate.implementations
    if before and after and before != after and not _of_vectors(candidate):
        return f"{name}, whose {short_name(before)} became {short_name(after)},"
    place = short_name(candidate.where or ("" if _of_vectors(candidate) else after or before))
    place = ", ".join(filter(None, (place, candidate.caller and f"called by {short_name(candidate.caller)}")))
    where = f" ({place})" if place else ""
    if fate:
        often = f"{_counted_calls(calls)} of {name} per call" if calls else name
        return f"{often}, {fate}{where},"
    often_before, often_after = candidate.calls
    if often_before and often_after and abs(often_after / often_before - 1) >= 0.01:
        return f"{name}{where}, {_counted_calls(often_after)} per call where it was {often_before:.3g},"
    return f"{name}{where}"


def _of_vectors(candidate: Candidate) -> bool:
    """Whether its implementations are what a native function works on."""
    return any(one == ONE_BY_ONE or one.startswith(VECTORS) for one in candidate.implementations)


def _counted_calls(calls: float) -> str:
    """``1 call``, ``2.5 calls``."""
    return counted(round(calls), "call") if calls == round(calls) else f"{calls:.3g} calls"


def share_of(candidate: Candidate) -> str:
    """``96 % [93, 99]``."""
    low, high = (round(100 * limit) for limit in candidate.ci or (0.0, 0.0))
    share = f"{100 * (candidate.share or 0.0):.0f} %"
    return share if low == high else f"{share} [{low}, {high}]"


def bare(name: str) -> str:
    """A function's name without its return type, its parameters and ``(anonymous namespace)::``, and with ``<...>`` for
    long template arguments."""
    name = without_clone(name).replace("(anonymous namespace)::", "")
    if not name.endswith((")", ") const")) or "(" not in name:
        return name
    kept, depth, angle = "", 0, 0
    for char in name:
        depth += char == "("
        angle += char == "<"
        if not depth:
            kept += "\0" if angle and char == " " else char
        angle -= char == ">"
        depth -= char == ")"
    kept = kept.removesuffix(" const").rpartition(" ")[2].replace("\0", " ")
    return re.sub(rf"<[^<>]{{{LONGEST_ARGUMENTS},}}>", "<...>", kept) or name


def short_name(text: str) -> str:
    """A name or place, as it is in a sentence."""
    return clipped(bare(text), LONGEST_NAME)
