"""Two frameworks, one on each side, as the controller knows them: either has its own adaptor, builds and operators."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from opduel.frameworks.base import FRAMEWORKS_DIR, Framework
from opduel.records import Build, Case, UsageError
from opduel.records.measurement import SIDES, Side

SIDE, ADAPTOR = "OPDUEL_SIDE", "OPDUEL_ADAPTOR"  # which side a build is on, and the adaptor of its framework


class Cross(Framework):
    """Cases whose ``inputs`` say, for ``control`` and ``treatment``, framework and operator (``operators_of``).

    A build knows its side by variables of its own: so all that is started on it, A/A checks among them, is of that
    side's framework.
    """

    name = "cross"
    import_name = None
    two_sided = True
    adaptor = Path(__file__).resolve().parent / "adaptor"

    def __init__(self, frameworks_dir: Path = FRAMEWORKS_DIR) -> None:
        super().__init__(frameworks_dir)
        self._sides: Mapping[Side, Framework] = {}

    def for_cases(self, cases: Sequence[Case]) -> "Cross":
        """The two frameworks of these cases. Raises UsageError: they are not the same two in all of them."""
        from opduel.frameworks.registry import get_framework  # which imports this

        pairs = {tuple(operators_of(case)[side]["framework"] for side in SIDES): case.id for case in cases}
        if len(pairs) > 1:
            (first, one), (second, other), *_ = pairs.items()
            raise UsageError(
                f"{one} compares {' with '.join(first)}, and {other} {' with '.join(second)}: a run has two builds, so "
                "measure them in two runs (--operators chooses)"
            )
        found = copy.copy(self)
        names = next(iter(pairs), ())
        found._sides = {
            side: get_framework(name, self.frameworks_dir) for side, name in zip(SIDES, names, strict=bool(names))
        }
        return found

    def of_side(self, side: Side) -> Framework:
        return self._sides[side]

    def equipped(self, side: Side, build: Build, threads: int) -> Build:
        """The build with what says its side; and its framework's own variables where the other's differ."""
        own, common = self.of_side(side).environment(threads), self.environment(threads)
        differing = {name: value for name, value in own.items() if common[name] != value}
        told = {SIDE: side, ADAPTOR: str(self.of_side(side).adaptor)}
        return replace(build, environment={**build.environment, **differing, **told})

    def environment(self, threads: int) -> Mapping[str, str]:
        """The variables of both frameworks, on both sides."""
        found: dict[str, str] = {}
        for framework in self._sides.values():
            found |= framework.environment(threads)
        return found

    def preparation(self, cases: Sequence[Case]) -> Mapping[str, str]:
        """What both frameworks prepare, each for its own operators of the cases; of lists of names both sides get all,
        so that the processes of both import the same."""
        found: dict[str, str] = {}
        for side, framework in self._sides.items():
            own = [replace(case, operator=operators_of(case)[side]["operator"]) for case in cases]
            for name, value in framework.preparation(own).items():
                both = [one for one in (found.get(name, ""), value) if one]
                same = len(set(both)) < 2
                found[name] = "".join(both[:1]) if same else ",".join(dict.fromkeys(",".join(both).split(",")))
        return found

    def can_fork(self, threads: int, context: str) -> bool:
        return all(one.can_fork(threads, context) for one in self._sides.values())


def operators_of(case: Case) -> Mapping[str, Mapping[str, Any]]:
    """By side, what a case says of it: ``framework``, ``operator``, and ``inputs`` of its own, if any."""
    return {side: case.inputs[side] for side in SIDES}
