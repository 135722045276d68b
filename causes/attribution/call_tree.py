"""Which parts of a call call which, on both sides, over all process pairs."""

from collections.abc import Mapping, Sequence
from math import isclose
from statistics import fmean

from opduel.causes.attribution.matching import SAME_CALLS
from opduel.records.cause import Observation, Part
from opduel.records.measurement import SIDES, Side


class CallTree:
    """The parts of a call, each below the part that mainly calls it.

    ``callees``: a part -> the parts below it; None -> the parts that no other is known to call.  ``has_inclusive``:
    whether inclusive amounts are known.
    """

    def __init__(self, observations: Sequence[Observation]) -> None:
        self._observations = observations
        self.has_inclusive = any(
            part.inclusive is not None
            for observation in observations
            for parts in observation.values()
            for part in parts.values()
        )
        self._amounts_by_caller = _amounts_by_caller(observations)
        self._callers: dict[tuple[Side, str], set[str]] = {}
        self._dominated: dict[tuple[Side, str], set[str]] = {}
        self._called_by: dict[Side, dict[str, set[str]]] = {side: {} for side in SIDES}
        for side, called_by in self._called_by.items():
            for name in self._amounts_by_caller:
                for caller in self.callers(side, name):
                    called_by.setdefault(caller, set()).add(name)
        self.names = set(self._amounts_by_caller)
        self.callees: dict[str | None, list[str]] = {}
        for name, main_caller in self._main_callers().items():
            self.callees.setdefault(main_caller, []).append(name)

    def _main_callers(self) -> dict[str, str | None]:
        """Return the caller below which each part is. Of parts that call each other in a circle, the one that callers
        outside call for the largest amount is below such a caller."""
        by_caller = {
            name: {caller: sides for caller, sides in by.items() if caller != name and caller in self.names}
            for name, by in sorted(self._amounts_by_caller.items())
        }
        main_callers = {name: self._main_caller(name, amounts) for name, amounts in by_caller.items()}
        while circling := main_callers.keys() - _reachable(main_callers):
            entries: list[tuple[float, str, str | None]] = [
                (sum(by_caller[name][caller].values()), name, caller)
                for name in circling
                for caller in by_caller[name].keys() - circling
            ]
            _, entry, outside = max(entries, default=(0.0, min(circling), None))
            main_callers[entry] = outside
        return main_callers

    def _main_caller(self, name: str, amounts: Mapping[str, Mapping[Side, float]]) -> str | None:
        """Return the caller with the largest amount. For a part that the sides call unequally often, return the caller
        whose amount differs most: it makes the calls that came or went."""
        is_equal = self.is_called_equally_often(name)

        def rank(caller: str) -> tuple[float, str]:
            sides = amounts[caller]
            return (sum(sides.values()) if is_equal else abs(sides["treatment"] - sides["control"])), caller

        return max(amounts, key=rank, default=None)

    def callers(self, side: Side, name: str) -> set[str]:
        """Return the parts that call ``name`` on a side, other than itself."""
        if (side, name) not in self._callers:
            amounts = self._amounts_by_caller.get(name, {})
            self._callers[side, name] = {
                caller for caller, sides in amounts.items() if sides[side] > 0 and caller != name
            }
        return self._callers[side, name]

    def callers_on_either(self, name: str) -> set[str]:
        """Return the parts that call ``name`` on at least one side, other than itself."""
        return set[str]().union(*(self.callers(side, name) for side in SIDES))

    def dominated(self, side: Side, top: str) -> set[str]:
        """Return ``top`` and the parts that a side calls from nowhere else: only from ``top`` and each other."""
        if (side, top) not in self._dominated:
            parts, new = {top}, {top}
            while new:
                called = {name for caller in new for name in self._called_by[side].get(caller, ())} - parts
                new = {name for name in called if self.callers(side, name) <= parts}
                parts |= new
            self._dominated[side, top] = parts
        return self._dominated[side, top]

    def dominated_on_either(self, top: str) -> set[str]:
        """Return the union of what ``top`` dominates on either side."""
        return set[str]().union(*(self.dominated(side, top) for side in SIDES))

    def only_side(self, name: str) -> Side | None:
        """Return the side that alone has the part; None if both have it."""
        sides = [side for side in SIDES if any(name in observation.get(side, {}) for observation in self._observations)]
        return sides[0] if len(sides) == 1 else None

    def has_same_code(self, name: str) -> bool:
        """Return whether a part is a Python function whose code is the same on both sides."""
        codes = {
            observation.get(side, {}).get(name, Part(0.0)).code for observation in self._observations for side in SIDES
        }
        return len(codes) == 1 and "" not in codes

    def has_other_code(self, name: str) -> bool:
        """Return whether a part is a Python function that both sides have, with code that differs."""
        control, treatment = (
            {observation[side][name].code for observation in self._observations if name in observation.get(side, {})}
            for side in SIDES
        )
        return bool(control and treatment) and "" not in control | treatment and control.isdisjoint(treatment)

    def difference(self, name: str) -> float:
        """Return the mean difference (treatment less control) of a part with all that it calls."""
        return self._mean("treatment", name) - self._mean("control", name)

    def _mean(self, side: Side, name: str) -> float:
        return fmean(inclusive_amount(observation.get(side, {}).get(name)) for observation in self._observations)

    def is_called_equally_often(self, name: str) -> bool:
        """Return whether both sides call a part equally often; True also if that is not known."""
        means = []
        for side in SIDES:
            parts = [observation.get(side, {}).get(name, Part(0.0, 0.0)) for observation in self._observations]
            counts = [part.calls for part in parts if part.calls is not None]
            if len(counts) < len(parts):
                return True
            means.append(fmean(counts))
        return isclose(*means, rel_tol=SAME_CALLS, abs_tol=SAME_CALLS)


def inclusive_amount(part: Part | None) -> float:
    """Return the amount of a part with all that it calls, as far as that is known; 0 for no part."""
    if part is None:
        return 0.0
    return part.amount if part.inclusive is None else part.inclusive


def _amounts_by_caller(observations: Sequence[Observation]) -> dict[str, dict[str, dict[Side, float]]]:
    """Return part -> caller -> side -> mean inclusive amount of the part for this caller."""
    amounts: dict[str, dict[str, dict[Side, float]]] = {}
    for observation in observations:
        for side in SIDES:
            for name, part in observation.get(side, {}).items():
                by_caller = amounts.setdefault(name, {})
                for caller, share in part.callers.items():
                    sides = by_caller.setdefault(caller, dict.fromkeys(SIDES, 0.0))
                    sides[side] += share * inclusive_amount(part) / len(observations)
    return amounts


def _reachable(callers: Mapping[str, str | None]) -> set[str]:
    """Return the parts that lead, caller by caller, to a part without a caller, and not round a circle."""
    reachable: set[str] = set()
    while more := {name for name, caller in callers.items() if caller is None or caller in reachable} - reachable:
        reachable |= more
    return reachable
