"""What an operator's cases have in common: which of their sizes are free, and how the others follow from them.

Two sizes that agree in all cases of the catalogue are one size; one that is always another, or 1, is broadcast; one
that is always the product of others follows from them.  What never changes is part of the operator's attributes.
"""

import json
import math
from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations
from operator import getitem
from typing import Any

from opduel.records import Case

LARGEST = 1 << 14  # of a size
MOST_ELEMENTS = 1 << 20  # of a tensor
GROWTH = 4  # a size may be drawn so many times as large as the largest in the cases
FREE_ALONE = 8  # of a case without others to learn from, sizes of at least this are free
ENOUGH_FOR_A_FACTOR = 3  # cases: in fewer, one size is four times another by chance

Place = tuple[str | int, ...]  # the keys and indices that lead to an integer


@dataclass(frozen=True)
class Rule:
    """What one size is: ``factor`` times the product of the free sizes numbered ``of``; without these, ``factor``."""

    factor: int
    of: tuple[int, ...] = ()


@dataclass(frozen=True)
class Template:
    """An operator's inputs with sizes left open.

    ``limits`` are the largest values of the free sizes, ``rules`` has one rule for each place of ``places``, and
    ``stretched`` are the places that may be 1 instead, because the operator broadcasts them.  ``like`` is the case that
    gives everything else.
    """

    like: Case
    limits: tuple[int, ...]
    places: tuple[Place, ...]
    rules: tuple[Rule, ...]
    stretched: tuple[int, ...] = ()  # indices into ``places``

    def inputs(self, sizes: Sequence[int], are_one: Sequence[bool] = ()) -> dict[str, Any]:
        """Return the inputs with these free sizes; ``are_one`` says of each place in ``stretched`` whether it is 1."""
        filled: dict[str, Any] = json.loads(json.dumps(dict(self.like.inputs)))
        stretched = {place for place, is_one in zip(self.stretched, are_one, strict=False) if is_one}
        for number, (place, rule) in enumerate(zip(self.places, self.rules, strict=True)):
            value = rule.factor * math.prod(sizes[index] for index in rule.of)
            _at(filled, place[:-1])[place[-1]] = 1 if number in stretched else value
        return filled


def templates(cases: Sequence[Case]) -> list[Template]:
    """Return a template for each group of cases that differ in their sizes alone, in the order of the first of each."""
    groups: defaultdict[str, list[Case]] = defaultdict(list)
    for case in cases:
        kind = [case.operator, case.direction, case.dtype, case.context, case.mode, case.metric]
        groups[json.dumps([*kind, _skeleton(case.inputs)], sort_keys=True)].append(case)
    return [_template(group) for group in groups.values()]


def largest_tensor(inputs: Any) -> int:
    """Return the elements of the largest shape in plain inputs."""
    if isinstance(inputs, list) and inputs and all(_is_size(item) for item in inputs):
        return math.prod(inputs)
    inner = inputs.values() if isinstance(inputs, dict) else inputs if isinstance(inputs, list) else ()
    return max(map(largest_tensor, inner), default=0)


def _template(group: Sequence[Case]) -> Template:
    like = max(group, key=lambda case: largest_tensor(case.inputs))
    places = list(_places(like.inputs))
    columns = [tuple(_at(case.inputs, place) for case in group) for place in places]
    in_shapes = {column for place, column in zip(places, columns, strict=True) if isinstance(place[-1], int)}
    free: list[tuple[int, ...]] = []
    rules: list[Rule] = []
    stretched: list[int] = []
    for number, column in enumerate(columns):
        if not _varies(column, in_shapes):
            rules.append(Rule(column[group.index(like)]))
        elif (rule := _follows(column, free)) is not None:
            rules.append(rule)
        elif (other := _broadcast(column, free)) is not None:
            stretched.append(number)
            rules.append(Rule(1, (other,)))
        else:
            free.append(column)
            rules.append(Rule(1, (len(free) - 1,)))
    limits = tuple(min(LARGEST, GROWTH * max(column)) for column in free)
    return Template(like, limits, tuple(places), tuple(rules), tuple(stretched))


def _varies(column: tuple[int, ...], in_shapes: Container[tuple[int, ...]]) -> bool:
    """Return whether the sizes of one place are free, or follow from those that are.

    Of a single case those are that a shape has, too, if they are not as small as a kernel's.
    """
    if len(column) > 1:
        return len(set(column)) > 1 and min(column) >= 1
    return column in in_shapes and column[0] >= FREE_ALONE


def _follows(column: Sequence[int], free: Sequence[Sequence[int]]) -> Rule | None:
    """Return the rule by which a place follows from up to three free sizes, the simplest first."""
    most = 3 if len(column) > 1 else 1
    for count in range(1, most + 1):
        for chosen in combinations(range(len(free)), count):
            products = [math.prod(free[index][row] for index in chosen) for row in range(len(column))]
            factor = column[0] // products[0]
            is_plausible = factor == 1 or (factor > 1 and len(column) >= ENOUGH_FOR_A_FACTOR)
            if is_plausible and all(a == factor * b for a, b in zip(column, products, strict=True)):
                return Rule(factor, chosen)
    return None


def _broadcast(column: Sequence[int], free: Sequence[Sequence[int]]) -> int | None:
    """Return the free size that a place always is, where it isn't 1."""
    for index, other in enumerate(free if len(column) > 1 else ()):
        if all(value in (size, 1) for value, size in zip(column, other, strict=True)):
            return index
    return None


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _at(inputs: Any, place: Place) -> Any:
    return reduce(getitem, place, inputs)


def _places(value: Any, at: Place = ()) -> Iterator[Place]:
    """Yield where integers stand, in the order written; the bounds of values among them."""
    if _is_size(value):
        yield at
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from _places(item, (*at, name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _places(item, (*at, index))


def _skeleton(value: Any) -> Any:
    if _is_size(value):
        return 0
    if isinstance(value, Mapping):
        return {name: _skeleton(item) for name, item in value.items()}
    return [_skeleton(item) for item in value] if isinstance(value, list) else value
