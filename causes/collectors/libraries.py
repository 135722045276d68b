"""What differs around the cases: the packages and shared libraries that either side has loaded for them, how those were
built, and what compiled them."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from opduel.causes.collectors.process_pairs import Answers, Question
from opduel.records.build import COMPILER_OF, Build, differing_packages
from opduel.records.measurement import Side

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


def library_differences(answers: Iterable[Answers], builds: Mapping[Side, Build]) -> str:
    """In one line, over all cases; empty where nothing differs, or nothing was answered."""
    loaded = _loaded(answers)
    parts = [f"{name} {before} -> {after}" for name, (before, after) in _compilers(builds).items()]
    if around := differences(loaded["control"], loaded["treatment"]):
        parts.insert(0, around)
    return "; ".join(parts)


def rebuilt(answers: Iterable[Answers], builds: Mapping[Side, Build]) -> dict[str, str]:
    """A library's file name -> ``GCC 14.2.1, before GCC 12.2.1``, of those whose package another compiler compiled.
    That of the framework itself is under "", too."""
    words = {name: f"{after}, before {before}" for name, (before, after) in _compilers(builds).items()}
    found: dict[str, str] = {}
    packages: dict[str, set[str]] = {}  # of each library's name
    for one in (one for entries in _loaded(answers).values() for one in entries if "package" in one):
        packages.setdefault(one["name"], set()).add(one["package"])
    for library, several in packages.items():
        if len(several) == 1 and (label := COMPILER_OF + next(iter(several))) in words:
            found[library] = words[label]
    own = COMPILER_OF + builds["treatment"].framework
    return {**found, "": words[own]} if own in words else found


def _compilers(builds: Mapping[Side, Build]) -> dict[str, tuple[str, str]]:
    differ = differing_packages(builds["control"], builds["treatment"])
    return {name: both for name, both in differ.items() if name.startswith(COMPILER_OF)}


def _loaded(answers: Iterable[Answers]) -> dict[Side, list[Loaded]]:
    loaded: dict[Side, list[Loaded]] = {"control": [], "treatment": []}
    for one in answers:
        for pair in one.of.get(QUESTION.op, []):
            for side, entries in loaded.items():
                entries += pair[side]["libraries"]
    return loaded


def differences(control: Sequence[Loaded], treatment: Sequence[Loaded]) -> str:
    """What either side has loaded that the other hasn't, or in another version, or built otherwise, in one line."""
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
    return "; ".join([*parts, *_built_otherwise(control, treatment)])


def _built_otherwise(control: Sequence[Loaded], treatment: Sequence[Loaded]) -> list[str]:
    """``numpy built: SIMD Extensions found + AVX512_SPR``: of each package that says how it was built on both sides."""
    before, after = ({one["name"]: one["built"] for one in side if one.get("built")} for side in (control, treatment))
    found = []
    for name in sorted(before.keys() & after.keys()):
        topics = [one for one in sorted(before[name].keys() & after[name].keys()) if not _PLACES.search(one)]
        said = {one: _exchanged(before[name][one], after[name][one]) for one in topics}
        if words := [f"{one} {how}".strip() for one, how in said.items() if how]:
            found.append(f"{name} built: {', '.join(words)}")
    return found


def _exchanged(before: str, after: str) -> str:
    """``3.0.8 -> 3.1.0``; of more words ``+ AVX512_SPR``, ``- -Wno-restrict``; empty where they are the same."""
    old, new = ([word for word in text.split() if not _OF_A_PLACE.search(word)] for text in (before, after))
    if max(len(old), len(new)) <= FEW_WORDS:
        return f"{' '.join(old) or 'nothing'} -> {' '.join(new) or 'nothing'}" if old != new else ""
    came, went = [word for word in new if word not in old], [word for word in old if word not in new]
    return " ".join(f"{sign} {_first(words)}" for sign, words in (("+", came), ("-", went)) if words)


def _first(words: Sequence[str]) -> str:
    more = len(words) - MOST_WORDS
    return " ".join(words[:MOST_WORDS]) + (f" and {more} more" if more > 0 else "")


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
