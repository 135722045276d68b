"""What differs around the cases: the packages and shared libraries that either side has loaded for them."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from opduel.harness.explain.process_pairs import Answers, Question
from opduel.records.measurement import Side

QUESTION = Question("libraries")
MOST_NAMED = 4  # of each kind
_HASH = re.compile(r"(-[0-9a-f]{8})+(?=\.|$)")  # put there by auditwheel
_SAYS = re.compile(r"([A-Za-z]+) v?(\d+(?:\.\d+)+)")  # as OpenBLAS does
_VERSION = re.compile(r"\d+(?:\.\d+)+")

Loaded = Mapping[str, Any]  # an entry of the worker's "libraries"


def library_differences(answers: Iterable[Answers]) -> str:
    """In one line, over all cases; empty where nothing differs, or nothing was answered."""
    loaded: dict[Side, list[Loaded]] = {"control": [], "treatment": []}
    for one in answers:
        for pair in one.of.get(QUESTION.op, []):
            for side, entries in loaded.items():
                entries += pair[side]["libraries"]
    return differences(loaded["control"], loaded["treatment"])


def differences(control: Sequence[Loaded], treatment: Sequence[Loaded]) -> str:
    """What either side has loaded that the other hasn't, or in another version, in one line."""
    before, after = _by_name(control), _by_name(treatment)
    both = sorted(before.keys() & after.keys())
    versions = [f"{name} {_told(before[name], after[name])}" for name in both if _version(before[name], after[name])]
    others = [name for name in both if before[name] != after[name] and not _version(before[name], after[name])]
    parts = ["; ".join(versions)] if versions else []
    for side, here, there in (("control", before, after), ("treatment", after, before)):
        if lone := sorted(here.keys() - there.keys()):
            parts.append(f"only {side}: {_some(lone, here)}")
    if others:
        parts.append(f"same name, other contents: {_some(others, after)}")
    return "; ".join(parts)


def _by_name(entries: Sequence[Loaded]) -> dict[str, tuple[str, str]]:
    """Name -> version, and contents; of several of one name, all. A library's name is the one that it says, or its
    file's without version and hash."""
    found: dict[str, set[tuple[str, str]]] = {}
    for one in entries:
        name, version, contents = one["name"], one.get("version"), ""
        if version is None:
            contents = f"{one['says']} {one['build_id'] or one['size']}"
            file = _HASH.sub("", name)
            stem, _, rest = file.partition(".so")
            if said := _SAYS.match(one["says"]):
                name, version = said[1], said[2]
            else:
                name = re.sub(r"\.(cpython|abi3|pypy).*|[-.]\d+(\.\d+)*(\.dev)?$", "", stem)
                version = ".".join(_VERSION.findall(file)[:1]) or rest.strip(".")
        found.setdefault(name, set()).add((version, contents))
    return {
        name: (
            " and ".join(sorted({version for version, _ in several})),
            ", ".join(sorted({text for _, text in several})),
        )
        for name, several in found.items()
    }


def _version(control: tuple[str, str], treatment: tuple[str, str]) -> bool:
    return control[0] != treatment[0]


def _told(control: tuple[str, str], treatment: tuple[str, str]) -> str:
    return f"{control[0] or 'unversioned'} -> {treatment[0] or 'unversioned'}"


def _some(names: Sequence[str], entries: Mapping[str, tuple[str, str]]) -> str:
    """The first few packages and shared libraries, and how many extension modules."""
    extensions = [name for name in names if entries[name][1] and not re.match(r"lib|[A-Z]", name)]
    others = [name for name in names if name not in extensions]
    parts = others[:MOST_NAMED]
    if more := len(others) - len(parts):
        parts.append(f"{more} more")
    if extensions:
        parts.append(f"{len(extensions)} extension module{'s' if len(extensions) > 1 else ''}")
    return ", ".join(parts)
