"""Hypothesis strategies for the inputs of operators, learnt from the catalogue's cases."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable

from opduel.harness.specs.template import MOST_ELEMENTS, Template, largest_tensor
from opduel.records import Case

_EDGES = sorted({1, 2, 3, 7, *(2**power + step for power in range(2, 15) for step in (-1, 0, 1))})


@dataclasses.dataclass(frozen=True)
class Drawn:
    """Sizes drawn for a template."""

    template: Template
    sizes: tuple[int, ...]
    are_one: tuple[bool, ...]

    @property
    def inputs(self) -> dict[str, Any]:
        """The inputs with these sizes."""
        return self.template.inputs(self.sizes, self.are_one)


def sizes_up_to(limit: int) -> st.SearchStrategy[int]:
    """Return a size from 1 to ``limit``: small ones, those around powers of two, and any; shrinks towards 1."""
    edges = [edge for edge in _EDGES if edge <= limit]
    return st.one_of(st.integers(1, min(16, limit)), st.sampled_from(edges), st.integers(1, limit))


def drawn(template: Template, most_elements: int = MOST_ELEMENTS) -> st.SearchStrategy[Drawn]:
    """Return sizes for one template, with at most so many elements in a tensor."""
    sizes = st.tuples(*map(sizes_up_to, template.limits))
    are_one = st.tuples(*(st.booleans() for _ in template.stretched))
    draws = st.builds(Drawn, st.just(template), sizes, are_one)
    return draws.filter(lambda draw: largest_tensor(draw.inputs) <= most_elements)


def examples(strategy: st.SearchStrategy[Drawn], count: int, number: int) -> Sequence[Drawn]:
    """Return up to ``count`` different draws, or as many as there are; the same for the same ``number``."""
    draw_by_sizes: dict[tuple[object, ...], Drawn] = {}

    @seed(number)
    @settings(
        max_examples=count + 1,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        verbosity=Verbosity.quiet,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(draw: Drawn) -> None:
        draw_by_sizes.setdefault((draw.template.like.id, draw.sizes, draw.are_one), draw)

    try:
        collect()
    except Unsatisfiable:  # fixed sizes alone are more than are drawn
        return []
    smallest, *later = draw_by_sizes.values()  # Hypothesis always begins with the simplest
    return [*later, smallest][:count]


def case_of(draw: Drawn, number: int) -> Case:
    """Return the draw as a case, whose id has the operator and ``number``."""
    like = draw.template.like
    head, slash, tail = like.id.partition("/")
    head = head.partition("(")[0]  # the inputs that a name may list are others
    return dataclasses.replace(like, id=f"{head}_fuzz{number}{slash}{tail}", inputs=draw.inputs)
