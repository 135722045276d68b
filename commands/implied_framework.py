"""The framework, and the spec, that the named builds and operators imply where no option says which."""

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from packaging.utils import canonicalize_name

from opduel.commands.harness_options import HarnessOptions
from opduel.frameworks import framework_names, get_framework
from opduel.frameworks.base import SPECIFICATIONS
from opduel.records import UsageError

ANY_PACKAGE = "python"  # the framework of packages that have none of their own
_PACKAGE = re.compile(r"\s*(?P<name>[A-Za-z0-9][\w.-]*)(?:\[[^]]*\])?\s*(?:@ *git\+|[=!~<>]=|[<>])")


def builds_of(options: HarnessOptions) -> list[str]:
    """Return the builds that the options name."""
    return [str(build) for build in (options.control, options.treatment) if build]


def framework_of_builds(builds: Sequence[str]) -> str | None:
    """Return the name of the framework that the builds are of, as far as their names and folders say; None if they
    don't."""
    package = _package_of(builds)
    if package is None:
        return ANY_PACKAGE if any(map(_is_commit, builds)) else None
    for name in framework_names():
        module = get_framework(name).builds.import_name
        if module and (package == module or package.startswith(f"{module}-")):
            return name
    return ANY_PACKAGE


def spec_of_builds(builds: Sequence[str], operators: Sequence[str] = ()) -> str | None:
    """Return the name of the spec with all operators of what the builds are of; None for the usual framework's, and
    where nobody can tell. UsageError: there is none, so that ``operators`` can't be chosen from it."""
    framework, package = framework_of_builds(builds), _package_of(builds)
    if framework in (None, framework_names()[0]):
        return None
    names = [*(f"{name}_all" for name in (*map(_root, operators), package)), f"{framework}_all", str(framework)]
    for name in names:
        if (SPECIFICATIONS / f"{name}.json").is_file():
            return name
    chosen = f"--operators {operators[0]}: " if operators else ""
    raise UsageError(
        f"{chosen}no spec lists the functions of {package or 'this package'}: measure a line of Python, or give "
        "--inputs for the operators"
    )


def full_names(operators: Sequence[str]) -> tuple[str, ...]:
    """Return the names of functions with the names of modules in place of what people call these: numpy.sort."""
    return tuple(".".join([_root(operator), *operator.split(".")[1:]]) for operator in operators)


def _root(operator: str) -> str:
    from opduel.commands.statements import ALIASES

    first = operator.partition(".")[0]
    return ALIASES.get(first, first) if "." in operator else first


def _package_of(builds: Sequence[str]) -> str | None:
    """Return the package that the builds are of: that of the first release or address; for environments one that has a
    spec."""
    for build in builds:
        if match := _PACKAGE.match(build):
            return str(canonicalize_name(match["name"]))
    return next(filter(None, map(_in_environment, builds)), None)


def _is_commit(build: str) -> bool:
    from opduel.driver.builds.named_commit import named_commit

    with suppress(UsageError):
        return named_commit(build) is not None
    return False


def _in_environment(build: str) -> str | None:
    """Return the package in an environment, or in an interpreter's, of which there is a spec."""
    path = Path(os.path.expanduser(build))
    root = path.parent.parent if os.path.isfile(path) else path
    packages = [*filter(None, (get_framework(name).builds.import_name for name in framework_names())), "numpy"]
    if not (root / "bin").is_dir():
        return None
    return next((name for name in packages if any(root.glob(f"lib/python*/site-packages/*{name}*"))), None)
