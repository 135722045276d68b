"""Python functions that are in another module on one side: both sides' observations by one name."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from opduel.records.cause import Observation, Part
from opduel.records.measurement import SIDES, Side


def rename_moved_functions(observations: Sequence[Observation]) -> list[Observation]:
    """Return the observations with the treatment's name on both sides for Python functions that moved to another
    module; ``Part.was`` is then the control's name. That is so if the modules differ only in underscores and endings
    (``numpy.core`` became ``numpy._core``), or if class, name, package and a caller are the same; and if neither side
    has another function that it could be."""
    treatment_names = _renamed_modules(observations)
    while more := _moved_within_package(observations, treatment_names):
        treatment_names |= more
    renamed_observations: list[Observation] = []
    for observation in observations:
        control = {}
        for name, part in observation.get("control", {}).items():
            callers = {treatment_names.get(caller, caller): share for caller, share in part.callers.items()}
            was = name if name in treatment_names else part.was
            control[treatment_names.get(name, name)] = replace(part, callers=callers, was=was)
        renamed_observations.append({**observation, "control": control})
    return renamed_observations


def _renamed_modules(observations: Sequence[Observation]) -> dict[str, str]:
    """Return control's name -> treatment's name of functions whose modules differ only in underscores and endings."""

    def key(name: str, _: Part) -> tuple[str, ...] | None:
        *modules, function = name.split(".")
        if not modules or not re.fullmatch(r"[\w.<>]+", name) or function.isdigit():  # not a Python function
            return None
        return (
            modules[0],
            *(re.sub(r"_(?:impl|core)$", "", module.strip("_")) or module for module in modules[1:]),
            function,
        )

    return dict(_unique_pairs(observations, key))


def _moved_within_package(observations: Sequence[Observation], treatment_names: Mapping[str, str]) -> dict[str, str]:
    """Return control's name -> treatment's name of further functions that moved within their package, with the same
    class and name and a caller in common. ``treatment_names`` are those that are known so far."""

    def key(name: str, part: Part) -> tuple[str, ...] | None:
        file, is_python, _ = part.where.partition(".py")
        module = file.removesuffix("/__init__").replace("/", ".")
        if not is_python or not name.startswith(f"{module}.") or name.rpartition(".")[2].startswith("<"):
            return None
        return module.partition(".")[0], name.removeprefix(f"{module}.")

    def callers(side: Side, name: str) -> set[str]:
        names = {
            caller for observation in observations for caller in observation.get(side, {}).get(name, Part(0.0)).callers
        }
        return {treatment_names.get(caller, caller) for caller in names} if side == "control" else names

    return {
        old: new
        for old, new in _unique_pairs(observations, key)
        if old not in treatment_names
        and new not in treatment_names.values()
        and callers("control", old) & callers("treatment", new)
    }


def _unique_pairs(
    observations: Sequence[Observation], key: Callable[[str, Part], tuple[str, ...] | None]
) -> Iterator[tuple[str, str]]:
    """Yield (control's name, treatment's name) where the names differ, and each is the only one of its side with their
    key."""
    names_by_key: dict[tuple[str, ...], dict[Side, set[str]]] = {}
    for observation in observations:
        for side in SIDES:
            for name, part in observation.get(side, {}).items():
                if (part_key := key(name, part)) is not None:
                    names_by_key.setdefault(part_key, {"control": set(), "treatment": set()})[side].add(name)
    for sides in names_by_key.values():
        if len(sides["control"]) == len(sides["treatment"]) == 1 and sides["control"] != sides["treatment"]:
            yield min(sides["control"]), min(sides["treatment"])
