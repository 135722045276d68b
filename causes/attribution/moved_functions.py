"""Python functions that are in another module on one side: both sides' observations by one name."""

import re
from collections.abc import Sequence
from dataclasses import replace

from opduel.records.cause import Observation
from opduel.records.measurement import SIDES, Side


def rename_moved_functions(observations: Sequence[Observation]) -> list[Observation]:
    """Return the observations with the treatment's name on both sides for Python functions whose modules differ only in
    underscores and endings (``numpy.core`` became ``numpy._core``), if neither side has another function that it could
    be; ``Part.was`` is then the control's name."""
    treatment_names = _treatment_names(observations)
    renamed_observations: list[Observation] = []
    for observation in observations:
        control = {}
        for name, part in observation.get("control", {}).items():
            callers = {treatment_names.get(caller, caller): share for caller, share in part.callers.items()}
            was = name if name in treatment_names else part.was
            control[treatment_names.get(name, name)] = replace(part, callers=callers, was=was)
        renamed_observations.append({**observation, "control": control})
    return renamed_observations


def _treatment_names(observations: Sequence[Observation]) -> dict[str, str]:
    """Return control's name -> treatment's name where the names differ, and each is the only one of its side with their
    key."""
    names_by_key: dict[tuple[str, ...], dict[Side, set[str]]] = {}
    for observation in observations:
        for side in SIDES:
            for name in observation.get(side, {}):
                if key := _key(name):
                    names_by_key.setdefault(key, {"control": set(), "treatment": set()})[side].add(name)
    return {
        min(sides["control"]): min(sides["treatment"])
        for sides in names_by_key.values()
        if len(sides["control"]) == len(sides["treatment"]) == 1 and sides["control"] != sides["treatment"]
    }


def _key(name: str) -> tuple[str, ...]:
    """Return what names of one Python function have in common; empty for other parts."""
    if "." not in name or not re.fullmatch(r"[\w.<>]+", name) or name.rpartition(".")[2].isdigit():
        return ()
    package, *modules, function = name.split(".")
    return package, *(re.sub(r"_(?:impl|core)$", "", module.strip("_")) or module for module in modules), function
