"""Hypothesis strategies for operators: ``inputs("nd.dot")`` draws arguments that it takes, for property-based tests.

They are learnt from the catalogue: which sizes are free, and which follow from them (harness/specs/template.py). Needs
the checkout's environment, and hypothesis.
"""

from functools import cache
from typing import Any

from hypothesis import strategies as st

from opduel.harness.specs import expand_cases, find_spec, load_spec
from opduel.harness.specs.strategies import drawn
from opduel.harness.specs.template import MOST_ELEMENTS, Template, templates
from opduel.records import Direction, UsageError

CATALOGUE = "all"


def operators(spec: str = CATALOGUE) -> list[str]:
    """The operators of a spec, by name or path, that there are strategies for, sorted.

    Raises:
        UsageError: no such spec, or one that isn't valid.
    """
    return sorted({template.like.operator for template in _templates(spec)})


def inputs(
    operator: str, direction: Direction = "forward", spec: str = CATALOGUE, most_elements: int = MOST_ELEMENTS
) -> st.SearchStrategy[dict[str, Any]]:
    """Inputs for an operator as a spec has them, such as ``{"lhs": [3, 8], "rhs": [8, 5]}``.

    Nearly all of them are valid; a relation between sizes that the catalogue's cases don't show is not known, and the
    framework then refuses the inputs. Tensors have at most ``most_elements``; sizes shrink towards 1.

    Raises:
        UsageError: the spec has no case of this operator and direction.
    """
    candidates = [
        template
        for template in _templates(spec)
        if (template.like.operator, template.like.direction) == (operator, direction)
    ]
    if not candidates:
        raise UsageError(
            f"{operator}: {spec} has no case of it for {direction}: use one of opduel.strategies.operators()"
        )
    return (
        st.sampled_from(candidates)
        .flatmap(lambda template: drawn(template, most_elements))
        .map(lambda template: template.inputs)
    )


@cache
def _templates(spec: str) -> list[Template]:
    return templates(expand_cases(load_spec(find_spec(spec))))
