"""Where in a tree of calls a difference arises: the calls among which it divides, each with all that it calls."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isclose
from statistics import fmean

from opduel.comparator.cause_matching import SAME_CALLS
from opduel.records.cause import Observation, Part
from opduel.records.measurement import SIDES, Side

PASSED_ON = 0.8  # of a part's difference: where one part that it calls has so much of it, that one is looked into
COMMON = 0.5  # the same of what several parts call
REST = "(all else)"


def by_call(observations: Sequence[Observation]) -> list[Observation]:
    """The same observations by the calls among which the difference divides; as they are where inclusive amounts aren't
    known.

    Beginning with the parts that no other is known to call, the one with the largest difference is taken apart into
    itself and the parts that it calls, as long as it is called equally often on both sides and one of those has
    ``PASSED_ON`` of its difference; and once more, so that it is seen what the difference spreads to.  A part's
    ``amount`` is then that of all that it calls, and ``where`` the place that calls it.  A part of one side alone has
    nothing of the parts that the other side calls as often without it: they only have another caller, and stand beside
    it.  Each of these parts is followed in the same way to a call that came or went,
    where there is one.  What several such parts call that has ``COMMON`` of the difference, and more than any of them,
    is looked into in their place, and a part that is called within others has what it takes there, which they then
    lack.  The amounts of a side add up to what they did: ``REST`` has what these parts don't account for.
    """
    tree = _Tree(observations)
    if not tree.inclusive:
        return list(observations)
    whole, itself = set(tree.callees.get(None, [])), set[str]()
    closed = set[str]()
    while whole - closed:
        own = _own_differences(tree, whole, itself, observations)
        name = max(whole - closed, key=lambda one: (abs(own[one]), one))
        below = [one for one in tree.callees.get(name, []) if one not in itself | whole]
        if not below or not tree.called_alike(name):
            break
        whole.remove(name)
        itself.add(name)
        whole |= set(below)
        if max(abs(tree.difference(one)) for one in below) < PASSED_ON * abs(tree.difference(name)):
            shared = _called_in_common(tree, whole, itself, abs(tree.difference(name)))
            if shared is None:
                break
            closed |= whole
            whole.add(shared)
            passed_on = (abs(tree.difference(one)) for one in tree.callees.get(shared, []))
            if max(passed_on, default=0.0) < PASSED_ON * abs(tree.difference(shared)):
                break
    for name in sorted(whole - closed):
        _follow(tree, name, whole, itself)
    moved, common = _with_another_caller(tree, whole, itself), _callers_within(tree, whole, itself)
    return [{side: _divided(one.get(side, {}), whole, itself, moved, common) for side in SIDES} for one in observations]


def _own_differences(
    tree: "_Tree", whole: set[str], itself: set[str], observations: Sequence[Observation]
) -> dict[str, float]:
    """Part of ``whole`` -> its difference; of one that is on one side alone without what only has another caller."""
    found = {name: tree.difference(name) for name in whole}
    alone = {name for name in whole if tree.only_on(name) is not None}
    if alone:
        moved, common = _with_another_caller(tree, whole, itself), _callers_within(tree, whole, itself)
        divided = [
            {side: _divided(one.get(side, {}), whole, itself, moved, common) for side in SIDES} for one in observations
        ]
        for name in alone:
            sides = ([one[side].get(name, Part(0.0)).amount for one in divided] for side in SIDES)
            control, treatment = map(fmean, sides)
            found[name] = treatment - control
    return found


def _follow(tree: "_Tree", name: str, whole: set[str], itself: set[str]) -> None:
    """Take a part of ``whole`` apart, and what it calls in turn, where that leads to a call that came or went: as long
    as one call has ``PASSED_ON`` of the difference, and no further."""
    chain, below = list[str](), set[str]()
    at = name
    while tree.called_alike(at):
        others = {one for one in tree.callees.get(at, []) if one not in itself | whole | below}
        largest = max(others, key=lambda one: (abs(tree.difference(one)), one), default=None)
        if largest is None or abs(tree.difference(largest)) < PASSED_ON * abs(tree.difference(at)):
            return
        chain.append(at)
        below = (below | others) - {at}
        at = largest
    if chain:
        whole -= {name}
        whole |= below
        itself |= set(chain)


def _called_in_common(tree: "_Tree", whole: set[str], itself: set[str], difference: float) -> str | None:
    """What several of these parts call, or parts within them, where it has ``COMMON`` of a difference that spreads to
    its callers, and more than any of them; the one with the largest difference, None if there is none. One whose code
    is the same, and that of all that it calls, does what its callers ask for: it is they that differ."""
    most = max(abs(tree.difference(one)) for one in whole)
    large = [one for one in tree.names - whole - itself if abs(tree.difference(one)) > max(most, COMMON * difference)]
    within = [tree.within_either(name) for name in sorted(whole)] + [{name} for name in sorted(itself)]

    inside = set[str]().union(*within)

    def is_common(name: str) -> bool:
        callers = tree.callers_on_either(name)
        if not callers <= inside or sum(not callers.isdisjoint(inner) for inner in within) < 2:
            return False
        return not all(tree.has_same_code(one) for one in tree.within_either(name))

    return max(filter(is_common, large), key=lambda one: (abs(tree.difference(one)), one), default=None)


def _callers_within(tree: "_Tree", whole: set[str], itself: set[str]) -> dict[str, dict[str, set[str]]]:
    """Each part of ``whole`` -> others, of ``itself``, too, that are called within it -> the callers there. What these
    callers spend in them is counted once, with the part that is called."""
    within = {name: tree.within_either(name) for name in whole | itself}
    callers = {name: tree.callers_on_either(name) for name in whole | itself}
    found: dict[str, dict[str, set[str]]] = {}
    for name in whole:
        able = (one for one in within.keys() - {name} if callers[name].isdisjoint(within[one] - {name}))
        by_callers = {one: by for one in able if (by := callers[one] & within[name])}
        # what is called within another of them is in that one's time already
        inner = {one: set[str]().union(*(within[other] for other in by_callers if other != one)) for one in by_callers}
        found[name] = {one: rest for one, by in by_callers.items() if (rest := by - inner[one])}
    return found


def _with_another_caller(tree: "_Tree", whole: set[str], itself: set[str]) -> dict[str, set[str]]:
    """Each part of ``whole`` that is on one side alone -> the parts within it that both sides call equally often, and
    that the other side calls from parts of ``itself``, or from within a part of ``whole`` that it has alone."""
    sides = {name: side for name in whole if (side := tree.only_on(name)) is not None}
    found: dict[str, set[str]] = {}
    for name, side in sides.items():
        within = tree.within(side, name) - {name}
        alike = {one for one in within - whole - itself if tree.only_on(one) is None and tree.called_alike(one)}
        found[name] = {one for one in alike if alike.isdisjoint(tree.callers(side, one))}

    def counted_once(one: str, side: Side) -> bool:
        """Whether no part of ``whole`` has it on this side, or one that it is taken out of, too."""
        others = (found[name] for name in found if sides[name] == side)
        return tree.callers(side, one) <= itself or any(one in other for other in others)

    other: dict[Side, Side] = {"control": "treatment", "treatment": "control"}
    return {name: {one for one in found[name] if counted_once(one, other[sides[name]])} for name in found}


class _Tree:
    """Each part below the one that calls it (``_main_caller``), over all observations."""

    def __init__(self, observations: Sequence[Observation]) -> None:
        self._observations = observations
        self.inclusive = any(
            part.inclusive is not None for one in observations for side in SIDES for part in one.get(side, {}).values()
        )
        calls_of: dict[str, dict[str, dict[Side, float]]] = {}
        for one in observations:
            for side in SIDES:
                for name, part in one.get(side, {}).items():
                    by = calls_of.setdefault(name, {})
                    for caller, share in part.callers.items():
                        sides = by.setdefault(caller, dict.fromkeys(SIDES, 0.0))
                        sides[side] += share * _with_calls(part) / len(observations)
        self._calls_of = calls_of
        self._callers_of: dict[tuple[Side, str], set[str]] = {}
        self._within_of: dict[tuple[Side, str], set[str]] = {}
        self._called_by: dict[Side, dict[str, set[str]]] = {side: {} for side in SIDES}
        for side, by_caller in self._called_by.items():
            for name in calls_of:
                for caller in self.callers(side, name):
                    by_caller.setdefault(caller, set()).add(name)
        self.names = set(calls_of)
        self.callees: dict[str | None, list[str]] = {}
        for name, above in self._callers(calls_of).items():
            self.callees.setdefault(above, []).append(name)

    def _callers(self, calls_of: Mapping[str, Mapping[str, Mapping[Side, float]]]) -> dict[str, str | None]:
        """The caller below which each part is; parts that call each other in a circle are below the one outside that
        calls into it for most."""
        others = {
            name: {caller: sides for caller, sides in by.items() if caller != name and caller in calls_of}
            for name, by in sorted(calls_of.items())
        }
        found = {name: self._main_caller(name, by) for name, by in others.items()}
        while circling := found.keys() - _reached(found):
            entries: list[tuple[float, str, str | None]] = [
                (sum(others[name][caller].values()), name, caller)
                for name in circling
                for caller in others[name].keys() - circling
            ]
            _, entered, outside = max(entries, default=(0.0, min(circling), None))
            found[entered] = outside
        return found

    def _main_caller(self, name: str, amounts: Mapping[str, Mapping[Side, float]]) -> str | None:
        """The caller with the largest amount, or, for a part that is called more or less often than it was, the one
        whose amount differs most: that one makes the calls that came or went."""
        alike = self.called_alike(name)

        def rank(caller: str) -> tuple[float, str]:
            of = amounts[caller]
            return (sum(of.values()) if alike else abs(of["treatment"] - of["control"])), caller

        return max(amounts, key=rank, default=None)

    def callers(self, side: Side, name: str) -> set[str]:
        """The parts that call it on a side, other than itself."""
        if (side, name) not in self._callers_of:
            by = self._calls_of.get(name, {})
            self._callers_of[side, name] = {one for one, sides in by.items() if sides[side] > 0 and one != name}
        return self._callers_of[side, name]

    def callers_on_either(self, name: str) -> set[str]:
        """The same of both sides together."""
        return set[str]().union(*(self.callers(side, name) for side in SIDES))

    def within(self, side: Side, top: str) -> set[str]:
        """A part and those that nothing on that side calls but these."""
        if (side, top) not in self._within_of:
            found, new = {top}, {top}
            while new:
                able = {one for name in new for one in self._called_by[side].get(name, ())} - found
                new = {one for one in able if self.callers(side, one) <= found}
                found |= new
            self._within_of[side, top] = found
        return self._within_of[side, top]

    def within_either(self, top: str) -> set[str]:
        """The same of both sides together."""
        return set[str]().union(*(self.within(side, top) for side in SIDES))

    def only_on(self, name: str) -> Side | None:
        """The side that it is on alone; None: on both."""
        sides = [side for side in SIDES if any(name in one.get(side, {}) for one in self._observations)]
        return sides[0] if len(sides) == 1 else None

    def has_same_code(self, name: str) -> bool:
        """Whether it is a function in Python that does the same on both sides."""
        codes = {one.get(side, {}).get(name, Part(0.0)).code for one in self._observations for side in SIDES}
        return len(codes) == 1 and "" not in codes

    def difference(self, name: str) -> float:
        """Of a part with all that it calls: treatment less control, the mean over observations."""
        return self._mean("treatment", name) - self._mean("control", name)

    def _mean(self, side: Side, name: str) -> float:
        return fmean(_with_calls(one.get(side, {}).get(name)) for one in self._observations)

    def called_alike(self, name: str) -> bool:
        """Whether it is called equally often on both sides, as far as that is known."""
        calls = [self._calls(side, name) for side in SIDES]
        return None in calls or isclose(*calls, rel_tol=SAME_CALLS, abs_tol=SAME_CALLS)  # type: ignore[arg-type]

    def _calls(self, side: Side, name: str) -> float | None:
        told = [one.get(side, {}).get(name, Part(0.0, 0.0)).calls for one in self._observations]
        known = [calls for calls in told if calls is not None]
        return fmean(known) if len(known) == len(told) else None


def _reached(callers: Mapping[str, str | None]) -> set[str]:
    """The parts that no circle of calls cuts off from a part that nobody calls."""
    reached: set[str] = set()
    while more := {name for name, caller in callers.items() if caller is None or caller in reached} - reached:
        reached |= more
    return reached


def _with_calls(part: Part | None) -> float:
    if part is None:
        return 0.0
    return part.amount if part.inclusive is None else part.inclusive


def _doubt(part: Part) -> float:
    return part.doubt if part.inclusive is None else part.inclusive_doubt


def _divided(
    parts: Mapping[str, Part],
    whole: set[str],
    itself: set[str],
    moved: Mapping[str, set[str]],
    common: Mapping[str, Mapping[str, set[str]]],
) -> dict[str, Part]:
    whole = whole.union(*moved.values())
    found = {}
    for name, part in parts.items():
        if name in whole:
            others = [(parts[one], 1.0) for one in sorted(moved.get(name, ())) if one in parts]
            for one, callers in sorted(common.get(name, {}).items()):
                if one in parts:
                    others.append((parts[one], sum(parts[one].callers.get(caller, 0.0) for caller in sorted(callers))))
            amount = _with_calls(part) - sum(share * _with_calls(one) for one, share in others)
            doubt = max(_doubt(part), sum(share * _doubt(one) for one, share in others))
            found[name] = replace(part, amount=amount, doubt=doubt, where=part.called_at or part.where)
    found |= {name: part for name, part in parts.items() if name in itself}
    rest = sum(part.amount for part in parts.values()) - sum(part.amount for part in found.values())
    return {**found, REST: Part(rest)}
