"""Load a spec: read it, validate it, and turn whatever is wrong into one line that names the field and the fix."""

import fnmatch
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import ValidationError

from opduel.harness.specs.ai_pep import from_ai_pep
from opduel.harness.specs.expand import expand_cases
from opduel.harness.specs.model import AnyTest, Settings, Spec
from opduel.harness.specs.read import read_plain
from opduel.records import Case, UsageError
from opduel.support.text import one_line, show
from opduel.support.validation import explain

SAVED_NETWORK = frozenset({"nodes", "arg_nodes", "heads"})  # what driver/catalogue/graph.py checks


def load_spec(path: Path, categories: Sequence[str] = ()) -> Spec:
    """Return the spec in a JSON or YAML file, valid through and through: ``expand_cases`` of it can't fail.

    That of a bundle has the tests of all its specs, or, where ``categories`` are given, of those whose names (without
    folder and suffix) match one of these globs. Raises UsageError: one line that names the file, the field
    (``tests[2].inputs[0].data``) and the fix.
    """
    return _load(path, categories)[0]


def load_cases(path: Path) -> list[Case]:
    """Return the cases of the spec in a file: ``expand_cases`` of what ``load_spec`` returns, in half the time."""
    return _load(path)[1]


def _load(path: Path, categories: Sequence[str] = ()) -> tuple[Spec, list[Case]]:
    try:
        spec = _read(path)
        if categories:
            spec = _narrowed(spec, categories)
        if spec.specs:
            return _load_bundle(spec, path)
        return spec, expand_cases(spec)
    except UsageError as error:
        raise UsageError(f"{path}: {one_line(str(error))}") from None


def _read(path: Path) -> Spec:
    """Return the spec in one file, its own files' locations absolute; a UsageError doesn't name the file."""
    data = read_plain(path)
    if isinstance(data, dict) and not SAVED_NETWORK - data.keys():
        raise UsageError(
            f"is a saved network, not a spec: measure it with --network {path} --inputs and its inputs' shapes, "
            "such as '{\"data\": [1, 3, 224, 224]}'"
        )
    spec = validate(from_ai_pep(data))
    tests = [test.of_file(path.absolute()) for test in spec.tests]
    return spec.model_copy(update={"tests": tests})


def _narrowed(bundle: Spec, categories: Sequence[str]) -> Spec:
    """Return the bundle with its specs of the categories alone; UsageError if there are none of a category."""
    if not bundle.specs:
        raise UsageError("is not a bundle, so it has no categories: leave --category out, or use -b all")
    names = {name: PurePosixPath(name).stem for name in bundle.specs}
    for glob in categories:
        if not fnmatch.filter(names.values(), glob):
            raise UsageError(f"has no category {glob!r}: use {', '.join(names.values())}, or a glob over these")
    selected = [name for name, stem in names.items() if any(fnmatch.fnmatchcase(stem, glob) for glob in categories)]
    return bundle.model_copy(update={"specs": selected})


def members_of(path: Path) -> list[Path]:
    """Return the files of the specs that a bundle lists; none of another spec. UsageError: it can't be read."""
    return [path.parent / str(name) for name in _members(path) or ()]


def is_bundle(path: Path) -> bool:
    """Return whether the spec in a file only lists others. UsageError: it can't be read."""
    return _members(path) is not None


def _members(path: Path) -> Any:
    try:
        data = read_plain(path)
    except UsageError as error:
        raise UsageError(f"{path}: {one_line(str(error))}") from None
    fields = data if isinstance(data, dict) else {}
    return fields.get("specs", fields.get("benchmarks"))


def _load_bundle(bundle: Spec, path: Path) -> tuple[Spec, list[Case]]:
    """Return the bundle with the tests of its specs, in its order, and their cases; UsageError if a spec can't be in
    it, or if two have a case of one id.

    The bundle's own ``defaults`` hold where neither a test nor its own file says otherwise.
    """
    tests: list[AnyTest] = []
    cases: list[Case] = []
    origins: dict[str, str] = {}
    for index, name in enumerate(bundle.specs or ()):
        member = _member(bundle, path, index, name)
        own_tests = [_settled(test, member.defaults) for test in member.tests]
        try:
            own_cases = expand_cases(bundle.model_copy(update={"tests": own_tests, "specs": None}))
        except UsageError as error:
            raise UsageError(f"specs[{index}]: {name}: {error}") from None
        for case in own_cases:
            if (other := origins.setdefault(case.id, name)) is not name:
                raise UsageError(f"specs: {other} and {name} both have a case {case.id}: rename one of them")
        tests += own_tests
        cases += own_cases
    return bundle.model_copy(update={"tests": tests, "specs": None}), cases


def _settled(test: AnyTest, defaults: Settings) -> AnyTest:
    names = [name for name in Settings.model_fields if name in type(test).model_fields]
    own_settings = {name for name in names if getattr(test, name) is not None}
    if own_settings & {"run_backward", "directions"}:  # two ways to say one thing
        own_settings |= {"run_backward", "directions"}
    return test.model_copy(update={name: getattr(defaults, name) for name in names if name not in own_settings})


def _member(bundle: Spec, path: Path, index: int, name: str) -> Spec:
    """Return one of a bundle's specs; UsageError if it can't be in this bundle."""
    field = f"specs[{index}]"
    if name in (bundle.specs or ())[:index]:
        raise UsageError(f"{field} {show(name)} is listed twice: keep one")
    if not name or Path(name).is_absolute():
        raise UsageError(f"{field} is {show(name)}: use a path relative to this file's folder")
    try:
        member = _read(path.parent / name)
        if member.specs:
            raise UsageError("is a bundle itself: list its specs instead")
        if member.framework != bundle.framework:
            raise UsageError(f"is for {member.framework}, the bundle for {bundle.framework}: remove it")
        return member
    except UsageError as error:
        raise UsageError(f"{field}: {name}: {error}") from None


def validate(data: Any) -> Spec:
    """Return a spec of plain data. UsageError: what is wrong, without a file's name."""
    try:
        return Spec.model_validate(data)
    except ValidationError as error:
        raise UsageError(explain(error, "the spec")) from None
