"""Where in a tree of calls a difference arises: the calls among which it divides, each with all that it calls."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from opduel.causes.attribution.call_tree import CallTree, inclusive_amount
from opduel.causes.attribution.matching import OTHER_SIDE
from opduel.records.cause import Observation, Part
from opduel.records.measurement import SIDES, Side

PASSED_ON = 0.8  # share of a part's difference from which on a part that it calls is looked into
COMMON = 0.5  # share of a difference from which on a part that several parts call is looked into
REST = "(all else)"


def divide_by_call(observations: Sequence[Observation]) -> list[Observation]:
    """Return the observations by the calls among which the difference divides; unchanged without inclusive amounts.

    The search begins with the parts that no other is known to call.  It takes the part with the largest difference
    apart, into its own amount and the parts that it calls, as long as both sides call it equally often and one of those
    has ``PASSED_ON`` of its difference; and once more, to show where the difference spreads to.  If several of these
    parts call one that has ``COMMON`` of the difference, and more than any of them, the search goes on with that one.
    Each remaining part is then followed in the same way to a call that came or went, if there is one.

    The ``amount`` of a part in the result includes all that it calls, except for other parts of the result and calls
    that merely moved to another caller, and its ``where`` is the place that calls it.  The amounts of each side add up
    to what they did before: ``REST`` has what these parts don't account for.
    """
    tree = CallTree(observations)
    if not tree.has_inclusive:
        return list(observations)
    division = _Division(tree, observations)
    division.divide()
    return division.apply()


def changed_functions(observations: Sequence[Observation]) -> dict[str, str]:
    """Return the Python functions that both sides run with code that differs, name -> file and line; without those
    that are defined within another of them."""
    tree = CallTree(observations)
    names = sorted(filter(tree.has_other_code, tree.names))
    parts = {name: part for observation in observations for name, part in observation.get("treatment", {}).items()}
    return {
        name: parts[name].where
        for name in names
        if not any(name.startswith(f"{other}.<locals>.") for other in names if other != name)
    }


class _Division:
    """The parts among which a difference divides: ``inclusive`` parts count with all that they call, ``exclusive``
    parts by their own amount."""

    def __init__(self, tree: CallTree, observations: Sequence[Observation]) -> None:
        self._tree = tree
        self._observations = observations
        self.inclusive = set(tree.callees.get(None, []))
        self.exclusive = set[str]()

    def divide(self) -> None:
        """Take parts apart as long as a part that they call has most of their difference."""
        tree, final_parts = self._tree, set[str]()
        while open_parts := self.inclusive - final_parts:
            differences = self._differences()
            name = max(open_parts, key=lambda part: (abs(differences[part]), part))
            callees = self._unused(tree.callees.get(name, []))
            if not callees or not tree.is_called_equally_often(name):
                break
            self.inclusive = self.inclusive - {name} | callees
            self.exclusive.add(name)
            if not self._is_passed_on(name, callees):
                shared = self._largest_shared_part(abs(tree.difference(name)))
                if shared is None:
                    break
                final_parts |= self.inclusive
                self.inclusive.add(shared)
                if not self._is_passed_on(shared, tree.callees.get(shared, [])):
                    break
        for name in sorted(self.inclusive - final_parts):
            self._follow(name)

    def apply(self) -> list[Observation]:
        """Return the observations by the parts of this division."""
        moved, nested = self._moved_parts(), self._nested_parts()
        return [
            {side: self._divide_side(observation.get(side, {}), moved, nested) for side in SIDES}
            for observation in self._observations
        ]

    def _unused(self, names: Iterable[str]) -> set[str]:
        return {name for name in names if name not in self.inclusive and name not in self.exclusive}

    def _is_passed_on(self, name: str, callees: Iterable[str]) -> bool:
        largest = max((abs(self._tree.difference(callee)) for callee in callees), default=0.0)
        return largest >= PASSED_ON * abs(self._tree.difference(name))

    def _differences(self) -> dict[str, float]:
        """Return the difference of each inclusive part. For a part that exists on one side only, leave out calls that
        merely moved to another caller."""
        differences = {name: self._tree.difference(name) for name in self.inclusive}
        one_sided = {name for name in self.inclusive if self._tree.only_side(name) is not None}
        if one_sided:
            divided = self.apply()
            for name in one_sided:
                control, treatment = (
                    fmean(observation[side].get(name, Part(0.0)).amount for observation in divided) for side in SIDES
                )
                differences[name] = treatment - control
        return differences

    def _follow(self, name: str) -> None:
        """Take an inclusive part apart, and what it calls in turn, if that leads to a call that came or went: always
        the callee that has ``PASSED_ON`` of the difference. Change nothing if there is none."""
        chain, beside = list[str](), set[str]()
        part = name
        while self._tree.is_called_equally_often(part):
            callees = self._unused(self._tree.callees.get(part, [])) - beside
            largest = max(callees, key=self._rank, default=None)
            if largest is None or not self._is_passed_on(part, [largest]):
                return
            chain.append(part)
            beside = (beside | callees) - {part}
            part = largest
        if chain:
            self.inclusive = self.inclusive - {name} | beside
            self.exclusive |= set(chain)

    def _rank(self, name: str) -> tuple[float, str]:
        return abs(self._tree.difference(name)), name

    def _largest_shared_part(self, difference: float) -> str | None:
        """Return the part with the largest difference among those that several parts of the division call, or parts
        within them, if it has ``COMMON`` of ``difference`` and more than any of them; None if there is none.

        A part whose code is the same on both sides, with that of all that it calls, does what its callers ask for, so
        that its callers differ: it is not returned.
        """
        tree = self._tree
        least = max([COMMON * difference, *(abs(tree.difference(name)) for name in self.inclusive)])
        large = [name for name in self._unused(tree.names) if abs(tree.difference(name)) > least]
        regions = [tree.dominated_on_either(name) for name in sorted(self.inclusive)]
        regions += [{name} for name in sorted(self.exclusive)]
        covered = set[str]().union(*regions)

        shared = [
            name
            for name in large
            if (callers := tree.callers_on_either(name)) <= covered
            and sum(not callers.isdisjoint(region) for region in regions) >= 2
            and not all(map(tree.has_same_code, tree.dominated_on_either(name)))
        ]
        return max(shared, key=self._rank, default=None)

    def _nested_parts(self) -> dict[str, dict[str, set[str]]]:
        """Return for each inclusive part the other parts of the division that are called within it, each with its
        callers there. What these callers spend in it is counted once, with the part that is called."""
        tree, names = self._tree, self.inclusive | self.exclusive
        regions = {name: tree.dominated_on_either(name) for name in names}
        callers = {name: tree.callers_on_either(name) for name in names}
        nested: dict[str, dict[str, set[str]]] = {}
        for name in self.inclusive:
            candidates = (part for part in names - {name} if callers[name].isdisjoint(regions[part] - {name}))
            callers_inside = {part: inside for part in candidates if (inside := callers[part] & regions[name])}
            # what is called within another nested part is in that part's amount already
            deeper = {
                part: set[str]().union(*(regions[other] for other in callers_inside if other != part))
                for part in callers_inside
            }
            nested[name] = {
                part: direct for part, inside in callers_inside.items() if (direct := inside - deeper[part])
            }
        return nested

    def _moved_parts(self) -> dict[str, set[str]]:
        """Return for each inclusive part that only one side has the parts within it that merely moved to it.

        Both sides call those equally often, and the other side calls them from exclusive parts, or from within an
        inclusive part that only it has.
        """
        tree = self._tree
        sides = {name: side for name in self.inclusive if (side := tree.only_side(name)) is not None}
        candidates: dict[str, set[str]] = {}
        candidates_of_side: dict[Side, set[str]] = {side: set() for side in SIDES}
        for name, side in sides.items():
            both_sided = {
                part
                for part in self._unused(tree.dominated(side, name) - {name})
                if tree.only_side(part) is None and tree.is_called_equally_often(part)
            }
            candidates[name] = {part for part in both_sided if both_sided.isdisjoint(tree.callers(side, part))}
            candidates_of_side[side] |= candidates[name]
        # on the other side no inclusive part includes them
        return {
            name: {
                part
                for part in parts
                if tree.callers(OTHER_SIDE[sides[name]], part) <= self.exclusive
                or part in candidates_of_side[OTHER_SIDE[sides[name]]]
            }
            for name, parts in candidates.items()
        }

    def _divide_side(
        self,
        parts: Mapping[str, Part],
        moved: Mapping[str, set[str]],
        nested: Mapping[str, Mapping[str, set[str]]],
    ) -> dict[str, Part]:
        """Return one side of an observation by the parts of the division, ``moved`` parts, and ``REST``."""
        inclusive, divided = self.inclusive.union(*moved.values()), {}
        for name, part in parts.items():
            if name not in inclusive:
                continue
            inner_parts = [(parts[inner], 1.0) for inner in sorted(moved.get(name, ())) if inner in parts]
            for inner, callers in sorted(nested.get(name, {}).items()):
                if inner in parts:
                    share = sum(parts[inner].callers.get(caller, 0.0) for caller in sorted(callers))
                    inner_parts.append((parts[inner], share))
            amount = inclusive_amount(part) - sum(share * inclusive_amount(inner) for inner, share in inner_parts)
            doubt = max(_inclusive_doubt(part), sum(share * _inclusive_doubt(inner) for inner, share in inner_parts))
            where = part.where if self._tree.has_other_code(name) else part.called_at or part.where
            divided[name] = replace(part, amount=amount, doubt=doubt, where=where)
        divided |= {name: part for name, part in parts.items() if name in self.exclusive}
        unaccounted = sum(part.amount for part in parts.values()) - sum(part.amount for part in divided.values())
        return {**divided, REST: Part(unaccounted)}


def _inclusive_doubt(part: Part) -> float:
    return part.doubt if part.inclusive is None else part.inclusive_doubt
