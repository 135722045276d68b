"""Read asv's configuration of a suite (asv.conf.json): the environment that it is measured in, and what isn't followed.

asv measures every environment of its matrix; here the first one that it lists for this Python is measured.
"""

import itertools
import json
import math
import re
import sys
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from packaging.utils import canonicalize_name

from opduel.driver.suites.commands import BUILD_COMMANDS, WHEEL_EXTRAS, NotFollowedError, build_script, installed_by
from opduel.records import UsageError
from opduel.support.files import UnreadableError, read_text
from opduel.support.project_file import project_file_above, table_in
from opduel.support.redaction import redact
from opduel.support.text import counted

CONFIGURATION = "asv.conf.json"
DEFAULT_TIMEOUT_S = 60.0  # of a benchmark that states none, as asv has it
_OF_PIP = ("virtualenv", "uv")  # environments whose packages have PyPI's names; others have some by "pip+" alone
_KINDS = ("req", "env", "env_nobuild")
_BARE = ("python", "environment_type", "sys_platform")  # of an entry of include or exclude
_MOST_ENVIRONMENTS = 10_000  # that are looked at
_REQUIREMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9,._-]+\])?([<>=!~]{1,2}[0-9][A-Za-z0-9.*+!,<>=~]*)?")
_VERSIONS = re.compile(r"[<>=!~]")
# What a package's build backend does, too.
_USUAL_COMMAND = re.compile(
    r"(PIP_NO_BUILD_ISOLATION=\w+ )?python (setup\.py build|-m (build|pip (wheel|install)))"
    r"( (build|\.|\{\w+\}|-j\d+"
    r"|--?(wheel|sdist|outdir|o|w|v|no-deps|no-index|no(-build)?-isolation|force-reinstall)))*"
)
_THIS_PYTHON = "{}.{}".format(*sys.version_info)
_NOT_FOLLOWED = {
    "pythons": f"builds have Python {_THIS_PYTHON}; for another, add it to their requirements or to --with_packages",
    "uninstall_command": "every build has an environment of its own",
    "conda_channels": "packages come from the package index",
    "conda_environment_file": "packages come from the package index",
    "environment_type": "every build has a virtual environment of its own",
    "dvcs": "only git repositories can be measured",
    "regressions_first_commits": "commits are compared with their control; choose it with --base_commit",
    "regressions_thresholds": "use --threshold",
}
_FOLLOWED = {"environment_type": _OF_PIP, "dvcs": ("git",)}  # values that ask for nothing else

Key = tuple[str, str]  # the kind of an entry, and its name: ("req", "numpy"), ("python", "")


@dataclass(frozen=True)
class SuiteConfiguration:
    """What a suite's configuration says of its environment and its limits.

    ``requirements`` are installed beside the project; ``conda_packages``, by the names that conda or another installer
    gives them, are not. ``variables`` are set when benchmarks run, and some of them, with what asv's commands ask for,
    are ``build_variables``, for building the project. ``notes`` has a line for each kind of thing that is not followed.
    """

    requirements: tuple[str, ...] = ()
    conda_packages: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    build_variables: Mapping[str, str] = field(default_factory=dict)
    subfolder: str = ""  # of the repository: that of the package
    timeout_s: float = DEFAULT_TIMEOUT_S  # of a benchmark that states none
    notes: tuple[str, ...] = ()


def read_configuration(path: Path) -> Mapping[str, Any]:
    """Read asv's configuration: JSON, with comments and with commas before closing brackets. UsageError: it is none."""
    try:
        text = read_text(path)
    except UnreadableError as error:
        raise UsageError(f"{path}: {error}: correct it") from None
    string = r'("(?:\\.|[^"\\])*")'
    text = re.sub(rf"{string}|//[^\n]*|/\*.*?\*/", lambda match: match[1] or " ", text, flags=re.DOTALL)
    text = re.sub(rf"{string}|,(\s*[}}\]])", lambda match: match[1] or match[2], text)
    try:
        configuration = json.loads(text)
    except RecursionError:
        raise UsageError(f"{path}: is nested too deeply: make it flatter") from None
    except ValueError as error:
        raise UsageError(f"{path}: is not JSON with comments ({error}): correct it") from None
    if not isinstance(configuration, dict):
        raise UsageError(f"{path}: is not a JSON object: correct it")
    return configuration


def interpret(
    configuration: Mapping[str, Any], label: str = CONFIGURATION, on_pypi: Collection[str] = ()
) -> SuiteConfiguration:
    """Return what a configuration says; ``on_pypi``: the names by which the project itself asks PyPI for packages.
    UsageError, which names the file by ``label``: it is written wrongly."""
    try:
        environments = list(itertools.islice(_environments(configuration), _MOST_ENVIRONMENTS))
        environment: Mapping[Key, str] = environments[0] if environments else {}
        naming = _Naming(_tool(configuration), on_pypi)
        requirements, conda_packages, refused = _requirements(environment, naming)
        variables = {name: value for (kind, name), value in environment.items() if kind.startswith("env")}
        of_commands, further, command_notes = _commands(configuration)
        return SuiteConfiguration(
            (*requirements, *(line for line in further if line not in requirements)),
            conda_packages,
            variables,
            {name: value for (kind, name), value in environment.items() if kind == "env"} | of_commands,
            _subfolder(configuration),
            _timeout_s(configuration),
            (*command_notes, *_ignored(configuration), *_notes_on(environments, refused, naming)),
        )
    except UsageError as error:
        raise UsageError(f"{label}: {error}") from None


def names_on_pypi(folder: Path, subfolder: str = "") -> frozenset[str]:
    """Return the names by which a project asks PyPI for packages, in the nearest pyproject.toml above a suite's
    folder, up to its repository's top; none if it can't be read. ``subfolder`` of the repository may have it."""
    path = project_file_above(folder, subfolder)
    with suppress(UnreadableError, tomllib.TOMLDecodeError):
        return frozenset(_names_asked_for(tomllib.loads(read_text(path, pipes=False))) if path else ())
    return frozenset()


def _names_asked_for(project_file: Mapping[str, Any]) -> Iterator[str]:
    """Yield the packages' names in all lists of requirements of a pyproject.toml."""
    project, build, groups = (table_in(project_file, name) for name in ("project", "build-system", "dependency-groups"))
    extras = table_in(project, "optional-dependencies")
    lists = [project.get("dependencies"), build.get("requires"), *extras.values(), *groups.values()]
    for line in (line for lines in lists if isinstance(lines, list) for line in lines if isinstance(line, str)):
        yield canonicalize_name(re.split(r"[^\w.-]", line.strip(), maxsplit=1)[0])


def first_branch(configuration: Mapping[str, Any]) -> str | None:
    """Return the first branch that is named; None for the default one, which asv calls ``HEAD``, too."""
    branches = configuration.get("branches")
    first = branches[0] if isinstance(branches, list) and branches else None
    return first if isinstance(first, str) and first != "HEAD" else None


def _environments(configuration: Mapping[str, Any]) -> Iterator[Mapping[Key, str]]:
    """Yield the environments that asv makes (asv/environment.py, ``iter_matrix``), those for this Python first."""
    matrix = _entries(_of_type(configuration, "matrix", dict), "matrix")
    axes = [[(key, text) for text in _texts(value, key[1])] for key, value in matrix.items()]
    excluded = [_entries(rule, "exclude") for rule in _rules(configuration, "exclude")]
    included = [_entries(entry, "include") for entry in _rules(configuration, "include")]
    here = {("environment_type", ""): _tool(configuration), ("sys_platform", ""): sys.platform}
    pythons = [str(python) for python in _of_type(configuration, "pythons", list) or [_THIS_PYTHON]]
    for is_this in (True, False):
        for python in pythons:
            if (python == _THIS_PYTHON) == is_this:
                every = itertools.product([(("python", ""), python)], *axes)
                for pairs in itertools.islice(every, _MOST_ENVIRONMENTS):
                    environment = {key: text for key, text in pairs if text is not None}
                    if not any(_matches({**here, **environment}, rule) for rule in excluded):
                        yield environment
        for entry in included:
            is_for_here = _matches(here, {key: value for key, value in entry.items() if key in here})
            if is_for_here and (entry.get(("python", "")) == _THIS_PYTHON) == is_this:
                yield {key: str(value) for key, value in entry.items() if key not in here and value is not None}


def _tool(configuration: Mapping[str, Any]) -> str:
    return str(configuration.get("environment_type") or _OF_PIP[0])


def _matches(environment: Mapping[Key, str], rule: Mapping[Key, Any]) -> bool:
    """Tell whether an environment has all that a rule says: a value is a regular expression, null is a missing one."""
    try:
        return all(
            key not in environment
            if pattern is None
            else key in environment and re.fullmatch(str(pattern), environment[key]) is not None
            for key, pattern in rule.items()
        )
    except re.error as error:
        raise UsageError(f"exclude: {error} in a regular expression: correct it") from None


def _entries(mapping: Mapping[str, Any] | None, where: str) -> dict[Key, Any]:
    """Return the entries of the matrix, or of a rule: without kinds they are packages."""
    mapping = dict(mapping or {})
    entries: dict[Key, Any] = {(name, ""): mapping.pop(name) for name in _BARE if name in mapping and where != "matrix"}
    if not mapping.keys() & set(_KINDS):
        return entries | {("req", name): value for name, value in mapping.items()}
    if beside := next((name for name in mapping if name not in _KINDS), None):
        raise UsageError(f"{where}: {beside} stands beside {', '.join(_KINDS)}: put it into one of them")
    for kind in _KINDS:
        entries |= {(kind, name): value for name, value in (_of_type(mapping, kind, dict, f"{where}.") or {}).items()}
    return entries


def _rules(configuration: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    rules = _of_type(configuration, name, list) or []
    if not all(isinstance(rule, dict) for rule in rules):
        raise UsageError(f"{name}: is not a list of JSON objects: correct it")
    return rules


def _texts(value: Any, name: str) -> Sequence[str | None]:
    """Return an entry's values, of which null leaves it out: any version where there is none."""
    values = value if isinstance(value, list) else [value]
    if not all(item is None or isinstance(item, str | int | float) for item in values):
        raise UsageError(f"matrix: {name}: is not a list of texts: correct it")
    return [None if item is None else str(item) for item in values] or [""]


def _of_type(configuration: Mapping[str, Any], name: str, kind: type, where: str = "") -> Any:
    value = configuration.get(name)
    if value is not None and not isinstance(value, kind):
        expected = "a JSON list" if kind is list else 'a JSON object, such as {"numpy": ["2.2"]}'
        raise UsageError(f"{where}{name}: is not {expected}: correct it")
    return value


@dataclass(frozen=True)
class _Naming:
    """Whose names the packages of a matrix have: those of its ``tool``, of which some are known to be ``on_pypi``."""

    tool: str
    on_pypi: Collection[str]

    def is_conda_name(self, name: str) -> bool:
        """Tell whether a package has the name that another installer than pip gives it, and may be another on PyPI."""
        return self.is_for_conda(name) and canonicalize_name(name) not in self.on_pypi

    def is_for_conda(self, name: str) -> bool:
        """Tell whether another installer than pip is meant to install a package."""
        return self.tool not in _OF_PIP and not name.startswith("pip+")

    def keeps_version(self, name: str, environment: Mapping[Key, str]) -> bool:
        """Tell whether a package's version is followed: not one that conda has for another Python."""
        return not self.is_for_conda(name) or environment.get(("python", ""), _THIS_PYTHON) == _THIS_PYTHON


def _requirements(
    environment: Mapping[Key, str], naming: _Naming
) -> tuple[tuple[str, ...], tuple[str, ...], list[str]]:
    """Return the environment's requirements, the names that are another installer's, and what is no requirement."""
    requirements, conda_packages, refused = [], [], []
    for (kind, name), version in environment.items():
        if kind != "req":
            continue
        specifier = version if not version or _VERSIONS.match(version) else f"=={version}"
        if naming.is_for_conda(name):
            is_prefix = specifier.startswith("==") and not specifier.endswith("*")  # as conda means it
            specifier = f"{specifier}{'.*' if is_prefix else ''}" if naming.keeps_version(name, environment) else ""
        line = f"{name.removeprefix('pip+')}{specifier}".replace(" ", "")
        if naming.is_conda_name(name):
            conda_packages.append(name)
        elif _REQUIREMENT.fullmatch(line):
            requirements.append(line)
        else:
            refused.append(line)
    return tuple(requirements), tuple(conda_packages), refused


def _subfolder(configuration: Mapping[str, Any]) -> str:
    text = str(configuration.get("repo_subdir") or "").strip("/")
    path = PurePosixPath(text)
    if ".." in path.parts:
        raise UsageError(f"repo_subdir: {text} is outside the repository: correct it")
    return "" if path == PurePosixPath() else str(path)


def _timeout_s(configuration: Mapping[str, Any]) -> float:
    value = configuration.get("default_benchmark_timeout")
    if value is None:
        return DEFAULT_TIMEOUT_S
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise UsageError(f"default_benchmark_timeout: {value} is not a number of seconds: correct it")
    return float(value)


def _commands(configuration: Mapping[str, Any]) -> tuple[dict[str, str], list[str], list[str]]:
    """Return the variables of a build that follow asv's commands, what these install besides the project, and a line
    on each kind of them."""
    variables: dict[str, str] = {}
    further: list[str] = []
    build, install = (_unusual_commands(configuration, name) for name in ("build_command", "install_command"))
    notes = []
    try:
        if build:
            variables[BUILD_COMMANDS] = build_script(build, str(configuration.get("project") or ""))
    except NotFollowedError as error:
        notes.append(f"build_command: not followed: {error}; the package's own build backend builds commits")
    try:
        further, extras = installed_by(install)
        if unclear := next((line for line in further if not _REQUIREMENT.fullmatch(line)), None):
            raise NotFollowedError(f"{unclear}: is neither a name and version nor the project")
        variables |= {WHEEL_EXTRAS: ",".join(extras)} if extras else {}
    except NotFollowedError as error:
        further = []
        notes.append(f"install_command: not followed: {error}; what was built is installed as it is")
    commands = {"build_command": BUILD_COMMANDS, "install_command": WHEEL_EXTRAS}
    if names := [name for name, variable in commands.items() if variable in variables]:
        notes.append(f"{' and '.join(names)}: followed where commits are built; releases are installed as they are")
    return variables, further, [redact(f"{CONFIGURATION}: {note}") for note in notes]


def _unusual_commands(configuration: Mapping[str, Any], name: str) -> list[str]:
    """Return all of asv's commands of a kind if one does something else than a build backend does."""
    value = configuration.get(name) or []
    commands = value if isinstance(value, list) else [value]
    if not all(isinstance(command, str) for command in commands):
        raise UsageError(f"{name}: is not a list of texts: correct it")
    return [] if all(map(_USUAL_COMMAND.fullmatch, commands)) else commands


def _ignored(configuration: Mapping[str, Any]) -> list[str]:
    """Return a line with all settings that have no effect here."""
    ignored = [f"{name} ({why})" for name, why in _NOT_FOLLOWED.items() if _asks(configuration, name)]
    return [f"{CONFIGURATION}: not followed: {', '.join(ignored)}"] if ignored else []


def _asks(configuration: Mapping[str, Any], name: str) -> bool:
    """Tell whether a setting asks for something that isn't done anyway."""
    value = configuration.get(name)
    if name == "pythons":
        return bool(value) and _THIS_PYTHON not in map(str, value or ())
    return bool(value) and value not in _FOLLOWED.get(name, ())


def _notes_on(environments: Sequence[Mapping[Key, str]], refused: Sequence[str], naming: _Naming) -> Iterator[str]:
    """Yield lines on the environment that is measured: what it is, if there are several, and what it lacks."""
    descriptions = dict.fromkeys(_described(environment, naming) for environment in environments)
    if not environments:
        yield f"{CONFIGURATION}: exclude leaves no environment: nothing is installed for the suite"
    if len(descriptions) > 1:
        number, first = counted(len(descriptions), "environment"), redact(next(iter(descriptions)))
        yield f"{CONFIGURATION}: one of {number} is measured: {first} (another: --suite_packages, --env)"
    if refused:
        yield f"{CONFIGURATION}: not installed, as only names and versions are: {redact(', '.join(refused))}"


def _described(environment: Mapping[Key, str], naming: _Naming) -> str:
    """Return what is installed and set of an environment."""
    words = []
    for (kind, name), value in environment.items():
        if kind == "req" and not naming.is_conda_name(name):
            version = value if naming.keeps_version(name, environment) else ""
            words.append(f"{name.removeprefix('pip+')} {version}".strip())
        elif kind.startswith("env"):
            words.append(f"{name}={value}")
    return ", ".join(words) or "without packages"
