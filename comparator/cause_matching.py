"""Which parts of a call on one side are which on the other: clones, renamed functions, and functions that were inlined.

Parts are only ever joined, so that the whole difference of every process pair stays what it is.
"""

import difflib
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from opduel.records.cause import Observation, Part, without_clone
from opduel.records.measurement import Side

Amounts = npt.NDArray[np.float64]
OTHER: Mapping[Side, Side] = {"control": "treatment", "treatment": "control"}
DOMINANT = 0.5  # share of a part's amount from which on one caller is the one that it may have been inlined into
CANCELLED = 0.5  # share of a caller's change that functions of one side alone must make up for to be merged into it
SIMILAR, SIMILAR_IN_PLACE = 0.8, 0.5  # likeness of names: anywhere, and below the same caller
SAME_CALLS = 0.01  # so much of a call more or less a call of the case is none
SAME_AMOUNT = 0.1  # amounts closer than this share are nearly the same
MOST_COMPARED = 50  # the largest parts of each side whose names are compared letter by letter
MOST_LETTERS = 200  # of a name that are compared
DEEPEST = 20  # calls between a part and the function that it was inlined into

INSTRUCTION_SET = re.compile(
    r"_?(?:avx512_core_\w*?|avx512_?(?:skx|spr|icl|core|cd|knl|f)?|avx2|avx|fma3|sse4_?[12]|ssse3|sse[23]|x86_v[234]"
    r"|neon|asimd|asimdhp|sve\d*|vsx\d?)(?![a-z0-9])"
)


@dataclass(frozen=True)
class Matched:
    """One part on both sides; ``control`` and ``treatment`` are its amounts per call, by process pair (shape (n,)).

    ``names`` are all names that it has on a side, the one that it goes by first; none on a side that lacks it.
    ``implementations``: which of a library's ran on either side, where that is known.
    ``doubts``: by how much its amount on a side may be off in all process pairs alike.
    ``called_for``: caller -> treatment less control of what it is called for by that one.
    """

    names: Mapping[Side, tuple[str, ...]]
    control: Amounts
    treatment: Amounts
    calls: Mapping[Side, float | None]
    where: str
    callers: Mapping[str, float] = field(default_factory=dict)  # of the side that it is on alone
    merged: tuple[str, ...] = ()
    implementations: Mapping[Side, str] = field(default_factory=dict)
    doubts: Mapping[Side, float] = field(default_factory=lambda: {"control": 0.0, "treatment": 0.0})
    called_for: Mapping[str, float] = field(default_factory=dict)

    @property
    def doubt(self) -> float:
        """By how much ``difference`` may be off: what is wrong is wrong alike on both sides."""
        return abs(self.doubts["treatment"] - self.doubts["control"])

    @property
    def difference(self) -> float:
        """Treatment less control per call, the mean over process pairs."""
        return float(np.mean(self.treatment - self.control))

    @property
    def caller(self) -> str:
        """Of a part that is called more or less often, the caller that makes most of the calls that came or went; empty
        if none has ``DOMINANT`` of the difference."""
        before, after = (self.calls[side] or 0.0 for side in ("control", "treatment"))
        if math.isclose(before, after, rel_tol=SAME_CALLS):
            return ""
        most = max(self.called_for, key=lambda one: (abs(self.called_for[one]), one), default="")
        whole = self.difference
        return most if most and self.called_for[most] * math.copysign(1, whole) >= DOMINANT * abs(whole) > 0 else ""

    @property
    def amount(self) -> float:
        """The larger side's mean."""
        return float(max(np.mean(self.control), np.mean(self.treatment)))

    @property
    def only_on(self) -> Side | None:
        """The side that it is on alone; None: on both."""
        if self.names["control"] and self.names["treatment"]:
            return None
        return "control" if self.names["control"] else "treatment"

    @property
    def name(self) -> str:
        """The treatment's name; the control's for what the treatment lacks."""
        return (self.names["treatment"] or self.names["control"])[0]


def matched_parts(observations: Sequence[Observation]) -> list[Matched]:
    """The parts of all process pairs, matched across the sides; the sum of their amounts is that of all parts.

    Raises:
        ValueError: an amount is not finite.
    """
    parts = [_one_part(name, observations) for name in sorted(_names(observations))]
    return _with_inlined(_with_renamed(_with_clones(parts)))


def with_moved(observations: Sequence[Observation]) -> list[Observation]:
    """The same observations, in which a Python function that is in another module on either side has the treatment's
    name on both; ``Part.was`` is then the control's.

    Such are the functions of one name whose modules differ in underscores and endings alone (``numpy.core`` became
    ``numpy._core``), and those of one class and name in one package that some function calls on both sides; each only
    if either side has no other that it could be.
    """
    moved = _renamed_modules(observations)
    while more := _other_modules(observations, moved):
        moved |= more
    return (
        [{**one, "control": _under(one.get("control", {}), moved)} for one in observations]
        if moved
        else [*observations]
    )


def _under(parts: Mapping[str, Part], names: Mapping[str, str]) -> dict[str, Part]:
    """The parts, and those that call them, by their new ``names``."""
    found = {}
    for name, part in parts.items():
        callers = {names.get(caller, caller): share for caller, share in part.callers.items()}
        found[names.get(name, name)] = replace(part, callers=callers, was=name if name in names else part.was)
    return found


def _renamed_modules(observations: Sequence[Observation]) -> dict[str, str]:
    """The control's name -> the treatment's, of functions whose modules differ in underscores and endings alone."""

    def key(name: str, _: Part) -> tuple[str, ...] | None:
        *modules, function = name.split(".")
        if not modules or not re.fullmatch(r"[\w.<>]+", name) or function.isdigit():  # no function of Python
            return None
        return modules[0], *(re.sub(r"_(?:impl|core)$", "", one.strip("_")) or one for one in modules[1:]), function

    return dict(_only_pairs(observations, key))


def _other_modules(observations: Sequence[Observation], moved: Mapping[str, str]) -> dict[str, str]:
    """Further ones, of one class and name in one package, which have a caller in common."""

    def key(name: str, part: Part) -> tuple[str, ...] | None:
        file, is_python, _ = part.where.partition(".py")
        module = file.removesuffix("/__init__").replace("/", ".")
        if not is_python or not name.startswith(f"{module}.") or name.rpartition(".")[2].startswith("<"):
            return None
        return module.partition(".")[0], name.removeprefix(f"{module}.")

    def callers(side: Side, name: str) -> set[str]:
        found = {caller for one in observations for caller in one.get(side, {}).get(name, Part(0.0)).callers}
        return {moved.get(caller, caller) for caller in found} if side == "control" else found

    return {
        old: new
        for old, new in _only_pairs(observations, key)
        if old not in moved and new not in moved.values() and callers("control", old) & callers("treatment", new)
    }


def _only_pairs(
    observations: Sequence[Observation], key: Callable[[str, Part], tuple[str, ...] | None]
) -> Iterator[tuple[str, str]]:
    """The names of either side that have a key which no other name of that side has, where they differ."""
    named: dict[tuple[str, ...], dict[Side, set[str]]] = {}
    for one in observations:
        for side in OTHER:
            for name, part in one.get(side, {}).items():
                if (found := key(name, part)) is not None:
                    named.setdefault(found, {"control": set(), "treatment": set()})[side].add(name)
    for sides in named.values():
        if len(sides["control"]) == len(sides["treatment"]) == 1 and sides["control"] != sides["treatment"]:
            yield min(sides["control"]), min(sides["treatment"])


def _names(observations: Sequence[Observation]) -> set[str]:
    return {name for seen in observations for parts in seen.values() for name in parts}


def _one_part(name: str, observations: Sequence[Observation]) -> Matched:
    found: dict[Side, list[Part]] = {}
    amounts: dict[Side, Amounts] = {}
    for side in OTHER:
        seen = [one.get(side, {}).get(name) for one in observations]
        found[side] = [part for part in seen if part is not None]
        amounts[side] = np.array([part.amount if part is not None else 0.0 for part in seen], dtype=np.float64)
        if not np.all(np.isfinite(amounts[side])):
            raise ValueError(f"{name}: an amount that is not finite")
    either = [*found["treatment"], *found["control"]]
    alone = found["treatment"] or found["control"]
    return Matched(
        names={side: (found[side][0].was or name,) if found[side] else () for side in OTHER},
        control=amounts["control"],
        treatment=amounts["treatment"],
        calls={side: _mean([part.calls for part in found[side]]) for side in OTHER},
        where=next((part.where for part in either if part.where), ""),
        callers={caller: sum(part.callers.get(caller, 0.0) for part in alone) / len(alone) for caller in _of(alone)},
        implementations={side: _implementation(found[side]) for side in OTHER},
        doubts={side: sum(part.doubt for part in found[side]) / len(observations) for side in OTHER},
        called_for=_by_caller(found, len(observations)),
    )


def _summed(parts: Sequence[Matched]) -> dict[str, float]:
    callers = sorted({caller for part in parts for caller in part.called_for})
    return {caller: sum(part.called_for.get(caller, 0.0) for part in parts) for caller in callers}


def _by_caller(found: Mapping[Side, Sequence[Part]], n: int) -> dict[str, float]:
    """Caller -> treatment less control of the amounts, the mean of ``n`` process pairs."""
    by: dict[str, float] = {}
    signs: Mapping[Side, int] = {"control": -1, "treatment": 1}
    for side, sign in signs.items():
        for part in found[side]:
            for caller, share in part.callers.items():
                by[caller] = by.get(caller, 0.0) + sign * share * part.amount / n
    return by


def _of(parts: Iterable[Part]) -> list[str]:
    return sorted({caller for part in parts for caller in part.callers})


def _implementation(parts: Sequence[Part]) -> str:
    """Those of all process pairs, each once."""
    return " or ".join(sorted({part.implementation for part in parts if part.implementation}))


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _join(main: Matched, others: Sequence[Matched], as_merged: bool) -> Matched:
    """One part with the amounts of all; ``as_merged``: the others are named as functions that are counted in it."""
    names: dict[Side, tuple[str, ...]] = {}
    calls, implementations = dict(main.calls), dict(main.implementations)
    for side in OTHER:
        own = main.names[side]
        for other in others:
            if not as_merged and not own:
                calls[side] = other.calls[side]
                implementations[side] = other.implementations.get(side, "")
            own += () if as_merged else other.names[side]
        names[side] = own
    return replace(
        main,
        names=names,
        control=np.sum([main.control, *(other.control for other in others)], axis=0),
        treatment=np.sum([main.treatment, *(other.treatment for other in others)], axis=0),
        calls=calls,
        implementations=implementations,
        doubts={side: sum(one.doubts[side] for one in (main, *others)) for side in OTHER},
        where=next((one.where for one in (main, *others) if one.where), ""),
        called_for=_summed([main, *([] if as_merged else others)]),
        merged=main.merged + (tuple(name for one in others for name in (one.name, *one.merged)) if as_merged else ()),
    )


def _with_clones(parts: Sequence[Matched]) -> list[Matched]:
    """Clones are one with their function, where one of them is on one side alone."""
    groups: dict[str, list[Matched]] = {}
    for part in parts:
        groups.setdefault(without_clone(part.name), []).append(part)
    found = []
    for group in groups.values():
        if len(group) > 1 and any(part.only_on for part in group):
            group.sort(key=lambda part: (part.only_on is not None, -part.amount, part.name))
            found.append(_join(group[0], group[1:], as_merged=False))
        else:
            found += group
    return found


def normalised(name: str) -> str:
    """A function's name without template arguments, parameters, clones and instruction sets, in lower case."""
    bare = without_clone(name)
    kept: list[str] = []
    depth = 0
    for at, char in enumerate(bare):
        opens = char in "<(" and at > 0 and (bare[at - 1].isalnum() or bare[at - 1] in "_>")
        if depth or (opens and not "".join(kept[-8:]).endswith("operator")):
            depth += (char in "<(") - (char in ">)")
        else:
            kept.append(char)
    return INSTRUCTION_SET.sub("", "".join(kept).lower()).strip(" _") or name.lower()


def _last(name: str) -> str:
    """Of a function's name, or of the path of the file that it is in."""
    file = re.search(r"/([\w+-]+\.[\w.]+)$", name)
    return file[1] if file else re.split(r"::|\.", name)[-1]


def _likeness(gone: Matched, new: Matched) -> float:
    """How surely both are the same function, 0 for not at all; names that are alike first, then callers. Of a name its
    last part must be alike, too: all functions of a module share the rest."""
    before, after = (normalised(one.name)[:MOST_LETTERS] for one in (gone, new))
    if before == after:
        return 3.0
    last = _last(before), _last(after)
    if last[0] != last[1] and "<" in (last[0][:1], last[1][:1]):  # <genexpr>: no name to be like
        return 0.0
    here = _dominant(gone) is not None and _same(_dominant(gone), _dominant(new))
    least = SIMILAR_IN_PLACE if here else SIMILAR
    amount = abs(gone.amount - new.amount) <= SAME_AMOUNT * max(gone.amount, new.amount)
    ratio = _alike(before, after)
    if ratio >= SIMILAR_IN_PLACE and last[0] == last[1]:
        return 2.0 + ratio
    if min(ratio, _alike(*last)) >= least:
        return 1.0 + ratio
    return 0.5 if here and amount else 0.0


def _alike(a: str, b: str) -> float:
    """The share of letters that two names have in common, 0 to 1; 0 for less than ``SIMILAR_IN_PLACE``."""
    matcher = difflib.SequenceMatcher(None, a, b, autojunk=False)
    return matcher.ratio() if matcher.quick_ratio() >= SIMILAR_IN_PLACE else 0.0


def _same(a: str | None, b: str | None) -> bool:
    return a is not None and b is not None and normalised(a) == normalised(b)


def _dominant(part: Matched) -> str | None:
    caller = max(part.callers, key=lambda name: (part.callers[name], name), default=None)
    return caller if caller is not None and part.callers[caller] >= DOMINANT else None


def _with_renamed(parts: Sequence[Matched]) -> list[Matched]:
    """What is gone on the control and new on the treatment is one part, where names or callers say so."""
    ordered = sorted(parts, key=lambda part: (-part.amount, part.name))
    gone = [part for part in ordered if part.only_on == "control"][:MOST_COMPARED]
    new = [part for part in ordered if part.only_on == "treatment"][:MOST_COMPARED]
    likely = ((_likeness(old, other), g, n) for g, old in enumerate(gone) for n, other in enumerate(new))
    pairs = [pair for pair in likely if pair[0]]
    pairs.sort(key=lambda pair: (-pair[0], pair[1], pair[2]))
    found: list[Matched] = []
    used: set[int] = set()
    for _, g, n in pairs:
        if used.isdisjoint((id(gone[g]), id(new[n]))):
            used |= {id(gone[g]), id(new[n])}
            found.append(_join(new[n], [gone[g]], as_merged=False))
    return found + [part for part in parts if id(part) not in used]


def _with_inlined(parts: Sequence[Matched]) -> list[Matched]:
    """Functions of one side alone are merged into the caller whose opposite change they make up for.

    All of a caller's are taken together, as several may have been inlined at once.  What remains of the caller's change
    must be less than half of it: a function that is new, whose caller does no less than before, keeps its own name.
    """
    by_name = {name: at for at, part in enumerate(parts) for names in part.names.values() for name in names}
    groups: dict[tuple[int, Side], list[int]] = {}
    for at, part in enumerate(parts):
        caller = _caller_on_both_sides(part, parts, by_name)
        if caller is not None and part.only_on:
            groups.setdefault((caller, part.only_on), []).append(at)
    taken: dict[int, list[int]] = {}
    for (caller, _), members in sorted(groups.items()):
        change, moved = parts[caller].difference, sum(parts[at].difference for at in members)
        if change * moved < 0 and abs(change + moved) <= (1 - CANCELLED) * abs(change):
            taken.setdefault(caller, []).extend(members)
    merged = {at for members in taken.values() for at in members}
    return [
        _join(part, [parts[member] for member in taken[at]], as_merged=True) if at in taken else part
        for at, part in enumerate(parts)
        if at not in merged
    ]


def _caller_on_both_sides(part: Matched, parts: Sequence[Matched], by_name: Mapping[str, int]) -> int | None:
    """The nearest of its dominant callers that is on both sides; None: there is none."""
    side = part.only_on
    for _ in range(DEEPEST):
        at = by_name.get(_dominant(part) or "")
        if side is None or at is None:
            return None
        part = parts[at]
        if part.only_on is None:
            return at
        if part.only_on != side:
            return None
    return None
