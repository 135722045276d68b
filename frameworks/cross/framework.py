"""The framework of runs that compare two frameworks, one on each side."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from opduel.frameworks.base import Framework
from opduel.frameworks.registry import get_framework
from opduel.frameworks.roles import PairedCases
from opduel.records import Build, Case, UsageError
from opduel.records.measurement import SIDES, Side

SIDE, ADAPTOR = "OPDUEL_SIDE", "OPDUEL_ADAPTOR"  # variables that tell a worker its side and its framework's adaptor


class Cross(Framework):
    """Cases whose ``inputs`` name a framework and an operator for each side (``operators_of``).

    A build carries variables that name its side, so that every process started on it, also for an A/A check, runs that
    side's framework.
    """

    name = "cross"
    cases = PairedCases()
    has_own_sides = True
    adaptor = Path(__file__).resolve().parent / "adaptor"
    _sides: Mapping[Side, Framework] = MappingProxyType({})

    def for_cases(self, cases: Sequence[Case]) -> "Cross":
        """Return the framework with the two frameworks of these cases. Raise UsageError if cases differ in these."""
        pairs = {tuple(operators_of(case)[side]["framework"] for side in SIDES): case.id for case in cases}
        if len(pairs) > 1:
            (first, first_case), (second, second_case), *_ = pairs.items()
            raise UsageError(
                f"{first_case} compares {' with '.join(first)}, and {second_case} {' with '.join(second)}: "
                "a run has two builds, so measure them in two runs (--operators chooses)"
            )
        framework = copy.copy(self)
        names = next(iter(pairs), ())
        frameworks = [get_framework(name, self.frameworks_dir) for name in names]
        framework._sides = dict(zip(SIDES, frameworks, strict=bool(names)))
        return framework

    def of_side(self, side: Side) -> Framework:
        return self._sides[side]

    def equipped(self, side: Side, build: Build, threads: int) -> Build:
        """Return the build with variables for its side, and with its framework's where the other side's differ."""
        own, common = self.of_side(side).environment(threads), self.environment(threads)
        differing = {name: value for name, value in own.items() if common[name] != value}
        side_variables = {SIDE: side, ADAPTOR: str(self.of_side(side).adaptor)}
        return replace(build, environment={**build.environment, **differing, **side_variables})

    def environment(self, threads: int) -> Mapping[str, str]:
        """Return the variables of both frameworks, for both sides."""
        variables: dict[str, str] = {}
        for framework in self._sides.values():
            variables |= framework.environment(threads)
        return variables

    def preparation(self, cases: Sequence[Case]) -> Mapping[str, str]:
        """Return what both frameworks prepare for their operators of the cases.

        Lists of names are joined, so that the processes of both sides import the same.
        """
        variables: dict[str, str] = {}
        for side, framework in self._sides.items():
            own = [replace(case, operator=operators_of(case)[side]["operator"]) for case in cases]
            for name, value in framework.preparation(own).items():
                both = [text for text in (variables.get(name, ""), value) if text]
                same = len(set(both)) < 2
                variables[name] = "".join(both[:1]) if same else ",".join(dict.fromkeys(",".join(both).split(",")))
        return variables

    def can_fork(self, threads: int, context: str) -> bool:
        return all(framework.can_fork(threads, context) for framework in self._sides.values())


def operators_of(case: Case) -> Mapping[str, Mapping[str, Any]]:
    """Return by side the case's ``framework``, ``operator``, and that side's own ``inputs`` if it has any."""
    return {side: case.inputs[side] for side in SIDES}
