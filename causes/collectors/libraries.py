"""Asks what differs around a case: the packages and shared libraries that either side has loaded for it, how those were
built, and what compiled them."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from opduel.causes.collectors.process_pairs import Answers, Question
from opduel.records.build import COMPILER_OF, Build, differing_packages
from opduel.records.measurement import SIDES, Side

QUESTION = Question("libraries")
MOST_NAMED = 4  # of each kind
_HASH = re.compile(r"(-[0-9a-f]{8})+(?=\.|$)")  # put there by auditwheel
_SAYS = re.compile(r"([A-Za-z]+) v?(\d+(?:\.\d+)+)")  # as OpenBLAS does
_VERSION = re.compile(r"\d+(?:\.\d+)+")
# Topics of how a package was built that say where, not how; compilers and BLAS are known from the libraries themselves.
_PLACES = re.compile(
    r"director|path|Python|Machine|detection|^Compilers c\+*\b|commands|linker$|^Build Dependencies (?:blas|lapack)"
)
_OF_A_PLACE = re.compile(r"/|^git-|COMMIT|TORCH_VERSION")  # words that say where, or of which commit
MOST_WORDS = 6  # that came, or went, in one topic
FEW_WORDS = 3  # up to which a topic's words are compared as a whole

Loaded = Mapping[str, Any]  # an entry of the worker's "libraries"


def describe_differences(answers: Answers, builds: Mapping[Side, Build]) -> str:
    """Return what differs, in one line; empty where nothing does, or nothing was answered."""
    parts = [f"{name} {before} -> {after}" for name, (before, after) in _compilers(builds).items()]
    loaded = _loaded(answers)
    return "; ".join(filter(None, [describe_loaded(loaded["control"], loaded["treatment"]), *parts]))


def other_compilers(answers: Answers, builds: Mapping[Side, Build]) -> dict[str, str]:
    """Return a library's file name -> ``GCC 14.2.1, before GCC 12.2.1``, for those whose package another compiler
    compiled. That of the framework itself is under "", too."""
    changes = {name: f"{after}, before {before}" for name, (before, after) in _compilers(builds).items()}
    packages: dict[str, set[str]] = {}  # of each library's name
    for libraries in _loaded(answers).values():
        for library in libraries:
            if "package" in library:
                packages.setdefault(library["name"], set()).add(COMPILER_OF + library["package"])
    compilers = {
        name: changes[label]
        for name, labels in packages.items()
        if len(labels) == 1
        for label in labels & changes.keys()
    }
    framework = COMPILER_OF + builds["treatment"].framework
    return {**compilers, "": changes[framework]} if framework in changes else compilers


def _compilers(builds: Mapping[Side, Build]) -> dict[str, tuple[str, str]]:
    differences = differing_packages(builds["control"], builds["treatment"])
    return {name: versions for name, versions in differences.items() if name.startswith(COMPILER_OF)}


def _loaded(answers: Answers) -> dict[Side, list[Loaded]]:
    pairs = answers.of.get(QUESTION.op, [])
    return {side: [library for pair in pairs for library in pair[side]["libraries"]] for side in SIDES}


def describe_loaded(control: Sequence[Loaded], treatment: Sequence[Loaded]) -> str:
    """Return what either side has loaded that the other hasn't, or in another version, or built otherwise, in one
    line."""
    before, after = _by_name(control), _by_name(treatment)
    common_names = sorted(before.keys() & after.keys())
    updated = [name for name in common_names if before[name].version != after[name].version]
    rebuilt = [name for name in common_names if before[name] != after[name] and name not in updated]
    versions = (
        f"{name} {before[name].version or 'unversioned'} -> {after[name].version or 'unversioned'}" for name in updated
    )
    parts = ["; ".join(versions)] if updated else []
    for side, libraries, other_side in (("control", before, after), ("treatment", after, before)):
        if names := sorted(libraries.keys() - other_side.keys()):
            parts.append(f"only {side}: {_summarize(names, libraries)}")
    if rebuilt:
        parts.append(f"same name, other contents: {_summarize(rebuilt, after)}")
    return "; ".join([*parts, *_describe_builds(control, treatment)])


def _describe_builds(control: Sequence[Loaded], treatment: Sequence[Loaded]) -> list[str]:
    """Return ``numpy built: SIMD Extensions found + AVX512_SPR`` for each package that says how it was built on both
    sides."""
    before, after = (
        {library["name"]: library["built"] for library in libraries if library.get("built")}
        for libraries in (control, treatment)
    )
    descriptions = []
    for name in sorted(before.keys() & after.keys()):
        topics = sorted(before[name].keys() & after[name].keys())
        changes = {
            topic: _describe_change(before[name][topic], after[name][topic])
            for topic in topics
            if not _PLACES.search(topic)
        }
        if words := [f"{topic} {change}".strip() for topic, change in changes.items() if change]:
            descriptions.append(f"{name} built: {', '.join(words)}")
    return descriptions


def _describe_change(before: str, after: str) -> str:
    """Return ``3.0.8 -> 3.1.0``; of more words ``+ AVX512_SPR``, ``- -Wno-restrict``; empty where they are the same."""
    old, new = ([word for word in text.split() if not _OF_A_PLACE.search(word)] for text in (before, after))
    if max(len(old), len(new)) <= FEW_WORDS:
        return f"{' '.join(old) or 'nothing'} -> {' '.join(new) or 'nothing'}" if old != new else ""
    words = (("+", [word for word in new if word not in old]), ("-", [word for word in old if word not in new]))
    return " ".join(f"{sign} {_first_words(of_sign)}" for sign, of_sign in words if of_sign)


def _first_words(words: Sequence[str]) -> str:
    more = len(words) - MOST_WORDS
    return " ".join(words[:MOST_WORDS]) + (f" and {more} more" if more > 0 else "")


class _Library(NamedTuple):
    """The version of a package or library, and its contents as far as they are known; of a package alone empty."""

    version: str
    contents: str


def _by_name(entries: Sequence[Loaded]) -> dict[str, _Library]:
    """Return libraries and packages by name; several of one name are one. A library's name is the one that it says, or
    its file's without version and hash."""
    libraries: dict[str, set[_Library]] = {}
    for entry in entries:
        name, library = _identify(entry)
        libraries.setdefault(name, set()).add(library)
    return {
        name: _Library(
            " and ".join(sorted({library.version for library in of_name})),
            ", ".join(sorted({library.contents for library in of_name})),
        )
        for name, of_name in libraries.items()
    }


def _identify(entry: Loaded) -> tuple[str, _Library]:
    if entry.get("version") is not None:
        return entry["name"], _Library(entry["version"], "")
    contents = f"{entry['says']} {entry['build_id'] or entry['size']}"
    if match := _SAYS.match(entry["says"]):
        return match[1], _Library(match[2], contents)
    file = _HASH.sub("", entry["name"])
    stem, _, ending = file.partition(".so")
    name = re.sub(r"\.(cpython|abi3|pypy).*|[-.]\d+(\.\d+)*(\.dev)?$", "", stem)
    return name, _Library(".".join(_VERSION.findall(file)[:1]) or ending.strip("."), contents)


def _summarize(names: Sequence[str], libraries: Mapping[str, _Library]) -> str:
    extensions = [name for name in names if libraries[name].contents and not re.match(r"lib|[A-Z]", name)]
    named = [name for name in names if name not in extensions]
    parts = named[:MOST_NAMED]
    if more := len(named) - len(parts):
        parts.append(f"{more} more")
    if extensions:
        parts.append(f"{len(extensions)} extension module{'s' if len(extensions) > 1 else ''}")
    return ", ".join(parts)
