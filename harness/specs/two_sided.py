"""Tests of a spec for two frameworks: an operator of either, on the same inputs."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field, WithJsonSchema

from opduel.frameworks import framework_names, get_framework
from opduel.frameworks.roles import PairedCases
from opduel.harness.specs.fields import (
    DOTTED_PATTERN,
    FUNCTION_FRAMEWORKS,
    Argument,
    StrictModel,
    check_dotted,
    check_operator,
    field_error,
    optional,
    text,
)
from opduel.harness.specs.values import Attribute
from opduel.records.measurement import SIDES
from opduel.support.text import show

# Frameworks that are two, one on each side; all others can be on a side.
PAIRED_FRAMEWORKS = tuple(name for name in framework_names() if isinstance(get_framework(name).cases, PairedCases))
ONE_SIDED = tuple(name for name in framework_names() if name not in PAIRED_FRAMEWORKS)
BETWEEN = "_against_"


def _one_sided(name: str) -> str:
    if name not in ONE_SIDED:
        raise ValueError(f"is {show(name)}: use one of {', '.join(ONE_SIDED)}")
    return name


Plain = bool | int | float | str


class SideOperator(StrictModel):
    """What one side of a case calls: an operator of a framework."""

    framework: Annotated[
        str, AfterValidator(_one_sided), WithJsonSchema({"type": "string", "enum": list(ONE_SIDED)})
    ] = Field(description="Whose operator it is; the side's build is one of this framework.")
    operator: Annotated[str, *text(DOTTED_PATTERN, "use the name of an operator of that framework")] = Field(
        description="As in that framework."
    )
    inputs: dict[Argument, Attribute | Plain | list[int]] | None = optional(
        "Attributes that this side alone has. Tensors are the test's inputs, the same on both sides."
    )

    def plain(self) -> dict[str, Any]:
        """As it was written."""
        return self.model_dump(exclude_unset=True)


def joined(data: Any) -> Any:
    """A test's plain data; one of two operators with a name for both in ``operator``.

    Raises PydanticCustomError: it has neither one operator nor two.
    """
    if not isinstance(data, Mapping):
        return data
    sides = [side for side in SIDES if side in data]
    if not sides:
        if "operator" not in data:
            raise field_error("operator", "is missing: add it")
        return data
    names = [_operator_of(data.get(side)) for side in SIDES]
    if "operator" in data and data["operator"] != BETWEEN.join(names):
        raise field_error("operator", "is given beside control or treatment, which have operators: leave it out")
    if len(sides) < len(SIDES):
        missing = next(side for side in SIDES if side not in data)
        raise field_error(missing, f"is missing: {sides[0]} has an operator of its own, so add {missing}'s")
    # A wrong one is reported where it stands.
    return {**data, "operator": BETWEEN.join(names)} if all(names) else {**data, "operator": "two.operators"}


def check_sides(test: Any, number: int, framework: str) -> None:
    """Check that a test's plain data has the operators of a spec for ``framework``: one, or one for either side.

    Raises PydanticCustomError.
    """
    if not isinstance(test, Mapping):
        return
    where, two_sided = f"tests[{number}]", framework in PAIRED_FRAMEWORKS
    if two_sided and not all(side in test for side in SIDES):
        raise field_error(where, f"lacks control or treatment: {framework} compares an operator of either side")
    for side in SIDES:
        if side not in test:
            continue
        if not two_sided:
            raise field_error(f"{where}.{side}", f"is for the framework {' or '.join(PAIRED_FRAMEWORKS)}: use operator")
        operator_of_side = test[side]
        if (
            isinstance(operator_of_side, Mapping)
            and operator_of_side.get("framework") in ONE_SIDED
            and isinstance(operator_of_side.get("operator"), str)
        ):
            try:
                (check_dotted if operator_of_side["framework"] in FUNCTION_FRAMEWORKS else check_operator)(
                    operator_of_side["operator"]
                )
            except ValueError as error:
                raise field_error(f"{where}.{side}.operator", str(error)) from None


def with_sides(inputs: dict[str, Any], control: SideOperator | None, treatment: SideOperator | None) -> dict[str, Any]:
    """A case's inputs; of two operators those of both sides as ``inputs``, beside what either side calls."""
    if control is None or treatment is None:
        return inputs
    return {"control": control.plain(), "treatment": treatment.plain(), "inputs": inputs}


def _operator_of(side: Any) -> str:
    operator = side.get("operator") if isinstance(side, Mapping) else None
    return operator if isinstance(operator, str) else ""
