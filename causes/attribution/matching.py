"""Parts of a call matched across the sides: clones, renamed functions, and functions that were inlined.

Parts are only ever joined, so that the total difference of every process pair stays what it is.
"""

import difflib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from opduel.records.cause import Observation, Part, without_clone
from opduel.records.measurement import Side

Amounts = npt.NDArray[np.float64]
OTHER_SIDE: Mapping[Side, Side] = {"control": "treatment", "treatment": "control"}
DOMINANT = 0.5  # share of a part's amount from which on a caller is the dominant one
LEAST_CANCELLED = 0.5  # share of a caller's change that functions of one side alone make up for, to be merged into it
SIMILAR, SIMILAR_IN_PLACE = 0.8, 0.5  # likeness of names: anywhere, and below the same caller
SAME_CALLS = 0.01  # calls per call of the case that differ by less, absolutely or relatively, are equally many
SAME_AMOUNT = 0.1  # amounts closer than this share are nearly the same
MOST_COMPARED = 50  # the largest parts of each side whose names are compared letter by letter
MOST_LETTERS = 200  # of a name that are compared
MOST_INLINED_CALLS = 20  # calls between a part and the function that it was inlined into

INSTRUCTION_SET = re.compile(
    r"_?(?:avx512_core_\w*?|avx512_?(?:skx|spr|icl|core|cd|knl|f)?|avx2|avx|fma3|sse4_?[12]|ssse3|sse[23]|x86_v[234]"
    r"|neon|asimd|asimdhp|sve\d*|vsx\d?)(?![a-z0-9])"
)


@dataclass(frozen=True)
class MatchedPart:
    """One part on both sides; ``control`` and ``treatment`` are its amounts per call, by process pair (shape (n,)).

    ``names`` are all names that it has on a side, the main one first. ``callers``: caller -> share of its amount, on
    the treatment, or on the control if the treatment lacks it. ``merged``: the names of functions that are counted in
    it. ``implementations``: which of a library's ran on either side. ``doubts``: by how much its amount on a side may
    be off in all process pairs alike. ``called_for``: caller -> difference (treatment less control) of its amount for
    that caller.
    """

    names: Mapping[Side, tuple[str, ...]]
    control: Amounts
    treatment: Amounts
    calls: Mapping[Side, float | None]
    where: str
    callers: Mapping[str, float] = field(default_factory=dict)
    merged: tuple[str, ...] = ()
    implementations: Mapping[Side, str] = field(default_factory=dict)
    doubts: Mapping[Side, float] = field(default_factory=lambda: {"control": 0.0, "treatment": 0.0})
    called_for: Mapping[str, float] = field(default_factory=dict)

    @property
    def doubt(self) -> float:
        """By how much ``difference`` may be off; an error that both sides have alike cancels."""
        return abs(self.doubts["treatment"] - self.doubts["control"])

    @property
    def difference(self) -> float:
        """Treatment less control per call, the mean over process pairs."""
        return float(np.mean(self.treatment - self.control))

    @property
    def caller(self) -> str:
        """The caller that makes most of the calls that came or went; empty if the part is called equally often, or no
        caller has ``DOMINANT`` of the difference."""
        before, after = (self.calls[side] or 0.0 for side in ("control", "treatment"))
        if math.isclose(before, after, rel_tol=SAME_CALLS):
            return ""
        caller = max(self.called_for, key=lambda name: (abs(self.called_for[name]), name), default="")
        sign, size = math.copysign(1, self.difference), abs(self.difference)
        return caller if caller and sign * self.called_for[caller] >= DOMINANT * size > 0 else ""

    @property
    def amount(self) -> float:
        """The larger side's mean."""
        return float(max(np.mean(self.control), np.mean(self.treatment)))

    @property
    def only_on(self) -> Side | None:
        """The side that alone has the part; None if both have it."""
        if self.names["control"] and self.names["treatment"]:
            return None
        return "control" if self.names["control"] else "treatment"

    @property
    def name(self) -> str:
        """The main name on the treatment, or on the control if the treatment lacks the part."""
        return (self.names["treatment"] or self.names["control"])[0]


def match_parts(observations: Sequence[Observation]) -> list[MatchedPart]:
    """Return the parts of all process pairs, matched across the sides; their amounts add up to those of all parts.
    Raises ValueError: an amount is not finite."""
    names = {name for observation in observations for parts in observation.values() for name in parts}
    parts = [_match_by_name(name, observations) for name in sorted(names)]
    return _merge_inlined(_join_renamed(_join_clones(parts)))


def _match_by_name(name: str, observations: Sequence[Observation]) -> MatchedPart:
    parts: dict[Side, list[Part]] = {}
    amounts: dict[Side, Amounts] = {}
    for side in OTHER_SIDE:
        part_by_pair = [observation.get(side, {}).get(name) for observation in observations]
        parts[side] = [part for part in part_by_pair if part is not None]
        amounts[side] = np.array([part.amount if part is not None else 0.0 for part in part_by_pair], dtype=np.float64)
        if not np.all(np.isfinite(amounts[side])):
            raise ValueError(f"{name}: an amount that is not finite")
    parts_of_both = [*parts["treatment"], *parts["control"]]
    main_side = parts["treatment"] or parts["control"]
    counts = {side: [part.calls for part in parts[side] if part.calls is not None] for side in OTHER_SIDE}
    return MatchedPart(
        names={side: (parts[side][0].was or name,) if parts[side] else () for side in OTHER_SIDE},
        control=amounts["control"],
        treatment=amounts["treatment"],
        calls={side: sum(of_side) / len(of_side) if of_side else None for side, of_side in counts.items()},
        where=next((part.where for part in parts_of_both if part.where), ""),
        callers={
            caller: sum(part.callers.get(caller, 0.0) for part in main_side) / len(main_side)
            for caller in sorted({caller for part in main_side for caller in part.callers})
        },
        implementations={
            side: " or ".join(sorted({part.implementation for part in parts[side] if part.implementation}))
            for side in OTHER_SIDE
        },
        doubts={side: sum(part.doubt for part in parts[side]) / len(observations) for side in OTHER_SIDE},
        called_for=_differences_by_caller(parts, len(observations)),
    )


def _differences_by_caller(parts: Mapping[Side, Sequence[Part]], n: int) -> dict[str, float]:
    """Return caller -> difference (treatment less control) of the amounts, the mean of ``n`` process pairs."""
    differences: dict[str, float] = {}
    signs: Mapping[Side, int] = {"control": -1, "treatment": 1}
    for side, sign in signs.items():
        for part in parts[side]:
            for caller, share in part.callers.items():
                differences[caller] = differences.get(caller, 0.0) + sign * share * part.amount / n
    return differences


def _join(main: MatchedPart, joined_parts: Sequence[MatchedPart], as_merged: bool) -> MatchedPart:
    """Return ``main`` with the amounts of all; ``as_merged``: the other names go into ``merged``, not ``names``."""
    names: dict[Side, tuple[str, ...]] = {}
    calls, implementations = dict(main.calls), dict(main.implementations)
    for side in OTHER_SIDE:
        own = main.names[side]
        for other in joined_parts:
            if not as_merged and not own:
                calls[side] = other.calls[side]
                implementations[side] = other.implementations.get(side, "")
            own += () if as_merged else other.names[side]
        names[side] = own
    parts, called_for = (main, *joined_parts), dict(main.called_for)
    for other in () if as_merged else joined_parts:
        for caller, difference in other.called_for.items():
            called_for[caller] = called_for.get(caller, 0.0) + difference
    return replace(
        main,
        names=names,
        control=np.sum([part.control for part in parts], axis=0),
        treatment=np.sum([part.treatment for part in parts], axis=0),
        calls=calls,
        implementations=implementations,
        doubts={side: sum(part.doubts[side] for part in parts) for side in OTHER_SIDE},
        where=next((part.where for part in parts if part.where), ""),
        called_for=called_for,
        merged=main.merged
        + (tuple(name for part in joined_parts for name in (part.name, *part.merged)) if as_merged else ()),
    )


def _join_clones(parts: Sequence[MatchedPart]) -> list[MatchedPart]:
    groups: dict[str, list[MatchedPart]] = {}
    for part in parts:
        groups.setdefault(without_clone(part.name), []).append(part)
    joined = []
    for group in groups.values():
        if len(group) > 1 and any(part.only_on for part in group):
            group.sort(key=lambda part: (part.only_on is not None, -part.amount, part.name))
            joined.append(_join(group[0], group[1:], as_merged=False))
        else:
            joined += group
    return joined


def normalised(name: str) -> str:
    """Return a function's name without template arguments, parameters, clones and instruction sets, in lower case."""
    bare = without_clone(name)
    letters: list[str] = []
    depth = 0
    for at, char in enumerate(bare):
        opens = char in "<(" and at > 0 and (bare[at - 1].isalnum() or bare[at - 1] in "_>")
        if depth or (opens and not "".join(letters[-8:]).endswith("operator")):
            depth += (char in "<(") - (char in ">)")
        else:
            letters.append(char)
    return INSTRUCTION_SET.sub("", "".join(letters).lower()).strip(" _") or name.lower()


def _last_name(name: str) -> str:
    """Return the last part of a function's name, or of a file's path."""
    file = re.search(r"/([\w+-]+\.[\w.]+)$", name)
    return file[1] if file else re.split(r"::|\.", name)[-1]


def _likeness(old: MatchedPart, new: MatchedPart) -> float:
    """Return how likely both are the same function: 0 for not at all, 0.5 by caller and amount alone, more by names.

    The last parts of the names must be alike, too: all functions of a module share the rest.
    """
    before, after = (normalised(part.name)[:MOST_LETTERS] for part in (old, new))
    if before == after:
        return 3.0
    last = _last_name(before), _last_name(after)
    if last[0] != last[1] and "<" in (last[0][:1], last[1][:1]):  # such as <genexpr>, which all are called
        return 0.0
    callers = [normalised(caller) for part in (old, new) if (caller := _dominant_caller(part)) is not None]
    is_same_caller = len(callers) == 2 and callers[0] == callers[1]
    is_same_amount = abs(old.amount - new.amount) <= SAME_AMOUNT * max(old.amount, new.amount)
    least = SIMILAR_IN_PLACE if is_same_caller else SIMILAR
    ratio = _similarity(before, after)
    if ratio >= SIMILAR_IN_PLACE and last[0] == last[1]:
        return 2.0 + ratio
    if min(ratio, _similarity(*last)) >= least:
        return 1.0 + ratio
    return 0.5 if is_same_caller and is_same_amount else 0.0


def _similarity(a: str, b: str) -> float:
    """Return the share of letters that two names have in common, 0 to 1; 0 for less than ``SIMILAR_IN_PLACE``."""
    matcher = difflib.SequenceMatcher(None, a, b, autojunk=False)
    return matcher.ratio() if matcher.quick_ratio() >= SIMILAR_IN_PLACE else 0.0


def _dominant_caller(part: MatchedPart) -> str | None:
    caller = max(part.callers, key=lambda name: (part.callers[name], name), default=None)
    return caller if caller is not None and part.callers[caller] >= DOMINANT else None


def _join_renamed(parts: Sequence[MatchedPart]) -> list[MatchedPart]:
    """Return the parts with those that only the control has joined to those that only the treatment has, the most
    likely pairs first."""
    ordered = sorted(parts, key=lambda part: (-part.amount, part.name))
    only_control = [part for part in ordered if part.only_on == "control"][:MOST_COMPARED]
    only_treatment = [part for part in ordered if part.only_on == "treatment"][:MOST_COMPARED]
    likely = [
        (-likeness, old_place, new_place)
        for old_place, old in enumerate(only_control)
        for new_place, new in enumerate(only_treatment)
        if (likeness := _likeness(old, new))
    ]
    joined: list[MatchedPart] = []
    used: set[int] = set()
    for _, old_place, new_place in sorted(likely):
        old, new = only_control[old_place], only_treatment[new_place]
        if used.isdisjoint((id(old), id(new))):
            used |= {id(old), id(new)}
            joined.append(_join(new, [old], as_merged=False))
    return joined + [part for part in parts if id(part) not in used]


def _merge_inlined(parts: Sequence[MatchedPart]) -> list[MatchedPart]:
    """Return the parts with functions of one side alone merged into the caller whose opposite change they make up for.

    All such functions of a caller are taken together, as several may have been inlined at once.  They must cancel at
    least half of the caller's change: a new function whose caller does no less than before stays by itself.
    """
    place_by_name = {name: place for place, part in enumerate(parts) for names in part.names.values() for name in names}
    groups: dict[tuple[int, Side], list[int]] = {}
    for place, part in enumerate(parts):
        caller = _caller_on_both_sides(part, parts, place_by_name)
        if caller is not None and part.only_on:
            groups.setdefault((caller, part.only_on), []).append(place)
    members_by_caller: dict[int, list[int]] = {}
    for (caller, _), members in sorted(groups.items()):
        change, inlined = parts[caller].difference, sum(parts[member].difference for member in members)
        if change * inlined < 0 and abs(change + inlined) <= (1 - LEAST_CANCELLED) * abs(change):
            members_by_caller.setdefault(caller, []).extend(members)
    merged = {member for members in members_by_caller.values() for member in members}
    return [
        _join(part, [parts[member] for member in members_by_caller[place]], as_merged=True)
        if place in members_by_caller
        else part
        for place, part in enumerate(parts)
        if place not in merged
    ]


def _caller_on_both_sides(
    part: MatchedPart, parts: Sequence[MatchedPart], place_by_name: Mapping[str, int]
) -> int | None:
    """Return the place in ``parts`` of the nearest dominant caller that is on both sides; None if there is none."""
    side = part.only_on
    for _ in range(MOST_INLINED_CALLS):
        place = place_by_name.get(_dominant_caller(part) or "")
        if side is None or place is None:
            return None
        part = parts[place]
        if part.only_on is None:
            return place
        if part.only_on != side:
            return None
    return None
