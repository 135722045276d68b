"""Guess from names alone which cases run changed functions: to look at them first. Nothing is decided by it.

A function that mentions a changed one is a step from it, one that mentions that function two steps, and so on. Names
are all that is compared, so that most guesses are wrong where names are usual ones, such as ``sum``.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from opduel.records import Case

STEPS = 4
UNRELATED = STEPS + 1
_TESTS = re.compile(r"tests?|testing|_?vendor(ed)?")
_DOCUMENTATION = re.compile(r"\"\"\".*?\"\"\"|'''.*?'''|#[^\n]*", re.DOTALL)
_DEFINITION = re.compile(r"^([ \t]*)(?:async[ \t]+)?(def|class)[ \t]+(\w+)", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z_]\w{2,}")


@dataclass(frozen=True)
class Definition:
    """A function, or what a class has beside its methods: its own ``name``, that of a method like ``__init__`` being
    its class', and the ``names`` that it mentions."""

    name: str
    names: frozenset[str]


class LikelyReach:
    """Ranks cases by how closely they are related to changed functions."""

    def __init__(self, root: Path, parts: Sequence[str], suite: Path | None = None) -> None:
        """Take the ``parts`` that changed (``path:Class.function``, or ``path``) below the folder ``root``, and the
        ``suite`` whose functions cases are."""
        changed = {_changed_name(part) for part in parts if ":" in part}
        files = {root / part for part in parts if ":" not in part}
        packages = {root / part.partition(":")[0].partition("/")[0] for part in parts}
        package = {path: [*definitions(path)] for path in _sources(packages)}
        changed |= {definition.name for path in files & package.keys() for definition in package[path]}
        own = {path: [*definitions(path)] for path in _sources({suite})} if suite is not None else {}
        self._own = {
            (path.stem, definition.name): definition.names for path, items in own.items() for definition in items
        }
        everything = [definition for items in (*package.values(), *own.values()) for definition in items]
        self._steps = steps_from(changed, everything)

    def rank(self, case: Case) -> int:
        """Return the fewest steps from what the case mentions to what changed, or ``UNRELATED``."""
        words = re.findall(r"\w+", case.operator)
        modules = {name: names for (stem, name), names in self._own.items() if stem in words and name in words[-1:]}
        mentioned = {*_NAME.findall(str(dict(case.inputs))), *modules.get(words[-1] if words else "", ())}
        return min((self._steps[name] for name in mentioned if name in self._steps), default=UNRELATED)


def steps_from(changed: Iterable[str], definitions: Iterable[Definition]) -> dict[str, int]:
    """Return how many steps each name is away from the nearest changed one, if they are no more than ``STEPS``."""
    mentioned_by: Mapping[str, set[str]] = defaultdict(set)
    for definition in definitions:
        for name in definition.names:
            mentioned_by[name].add(definition.name)
    steps = dict.fromkeys(changed, 0)
    latest = set(steps)
    for step in range(1, STEPS + 1):
        latest = {user for name in latest for user in mentioned_by.get(name, ())} - steps.keys()
        steps |= dict.fromkeys(latest, step)
    return steps


def definitions(path: Path) -> Iterator[Definition]:
    """Yield the functions and classes of a Python file, also of one that can't be parsed; none of one that can't be
    read."""
    text = ""
    with suppress(OSError):
        text = _DOCUMENTATION.sub("", path.read_text(encoding="utf-8", errors="replace"))
    matches = [*_DEFINITION.finditer(text)]
    end_places = [*(match.start() for match in matches[1:]), len(text)]
    classes: list[tuple[int, str]] = []  # indentation and name of those that the definition is in
    for match, end in zip(matches, end_places[: len(matches)], strict=True):
        indentation, name = len(match[1].expandtabs()), match[3]
        classes = [(outer, class_name) for outer, class_name in classes if outer < indentation]
        owner = classes[-1][1] if classes and name.startswith("__") else name
        yield Definition(owner, frozenset(_NAME.findall(text, match.end(), end)) - {owner})
        classes += [(indentation, name)] if match[2] == "class" else []


def _changed_name(part: str) -> str:
    """Return the function's name; of a method like ``__init__`` that of its class."""
    *classes, name = part.rpartition(":")[2].split(".")
    return classes[-1] if classes and name.startswith("__") else name


def _sources(places: Iterable[Path]) -> Iterator[Path]:
    """Yield Python files below these places, without a package's own tests."""
    for place in places:
        if place.suffix == ".py":
            yield place
        for path in place.rglob("*.py"):
            if not any(_TESTS.fullmatch(folder) for folder in path.relative_to(place).parts[:-1]):
                yield path
