"""What the named builds are of, and the two command lines nearest to one that can't be understood."""

import os
import re
import shlex
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from opduel.commands.harness_options import HarnessOptions
from opduel.commands.project import SAYS_WHAT
from opduel.frameworks import framework_names, get_framework
from opduel.frameworks.base import SPECIFICATIONS
from opduel.records import UsageError
from opduel.support.command_names import command_name
from opduel.support.project_file import top_of_checkout

if TYPE_CHECKING:
    from opduel.commands.checkout import Package

ANY_PACKAGE = "python"  # the framework of packages that have none of their own
RELEASES = ("numpy==1.26.4", "numpy==2.2.6")  # examples
_PACKAGE = re.compile(r"\s*(?P<name>[A-Za-z0-9][\w.-]*)(?:\[[^]]*\])?\s*(?:@ *git\+|[=!~<>]=|[<>])")
_LINES = {"numpy": "np.sort(np.arange(1000.0))"}  # examples


def builds_of(options: HarnessOptions) -> list[str]:
    """Return the builds that the options name."""
    return [str(build) for build in (options.control, options.treatment) if build]


def framework_of_builds(builds: Sequence[str]) -> str | None:
    """Return the name of the framework that the builds are of, as far as their names and folders say; None if they
    don't."""
    package = _package_of(builds)
    if package is None:
        return None
    for name in framework_names():
        module = get_framework(name).builds.import_name
        if module and (package == module or package.startswith(f"{module}-")):
            return name
    return ANY_PACKAGE


def spec_of_builds(builds: Sequence[str], operators: Sequence[str] = ()) -> str | None:
    """Return the name of the spec with all operators of what the builds are of; None for the usual framework's, and
    where nobody can tell. UsageError: there is none, so that ``operators`` can't be chosen from it."""
    framework = framework_of_builds(builds)
    if framework in (None, framework_names()[0]):
        return None
    roots = [_root(operator) for operator in operators]
    if spec := _spec_of([*roots, str(_package_of(builds))], str(framework)):
        return spec
    package = _package_of(builds)
    first, *_ = (*operators, "FUNCTION")
    name = first if "." in first else f"{package}.{first}"
    inputs = ["--operators", name, "--inputs", '{"args": [[1000]]}']
    raise UsageError(
        f"--operators {first}: no spec lists the functions of {package}: {_example(builds, f'{name}()')}, or with an "
        f"array as argument {_command('compare', [*_two(builds), *inputs])}"
    )


def nothing_to_measure(options: HarnessOptions) -> str | None:
    """Say that options name builds and nothing to measure, and what would have worked; None where the builds don't say
    what could be."""
    builds = builds_of(options)
    if builds:
        from opduel.driver.builds.named_commit import named_commit

        for build in builds:  # what is wrong with a name comes first
            named_commit(build)
    framework = framework_of_builds(builds)
    if framework in (None, framework_names()[0]) or options.arguments is not None:
        return None
    package = str(_package_of(builds))
    spec = _spec_of([package], str(framework), of_all=False)
    words = ["-b", spec] if spec else ["--suite", _suite(package)]
    if options.single:
        return f"nothing to measure: give a line of Python, as in {_command('measure', [*builds[:1], _line(package)])}"
    second, kind = "a second build and " if len(builds) == 1 else "", "spec" if spec else "suite"
    return (
        f"nothing to measure: give {second}a line of Python, as in {_example(builds)}, or a {kind}, "
        f"as in {_command('compare', [*_two(builds), *words])}"
    )


def refuse_one_build(options: HarnessOptions) -> None:
    """Raise UsageError where a comparison has one build, and a framework that has no usual one; or neither builds nor
    anything to measure."""
    builds = builds_of(options)
    if not builds and not any(map(options.is_given, SAYS_WHAT)):
        checkout = _checkout()
        words = ["HEAD", ".", _line(str(canonicalize_name(checkout.name)))] if checkout else [*RELEASES, _line("numpy")]
        suite = ["HEAD", ".", "--suite", _suite(str(canonicalize_name(checkout.name)))] if checkout else []
        other = _command("compare", suite) if checkout else "`opduel run 'gzip -1c FILE' 'gzip -9c FILE'`"
        raise UsageError(
            f"nothing to measure: give two builds and lines of Python, a suite or a spec (-b), as in "
            f"{_command('compare', words)}, or {other}"
        )
    if len(builds) != 1 or framework_of_builds(builds) != ANY_PACKAGE:
        return
    words = [next(iter(options.statement), _line(_package_of(builds)))]
    words = ["--suite", options.suite] if options.suite else words
    words = ["-b", options.benchmark_file] if options.benchmark_file and not options.suite else words
    two = _command("compare", [*_two(builds), *words])
    alone = "" if options.suite else f", or measure it alone: {_command('measure', [*builds, *words])}"
    raise UsageError(f"{builds[0]}: is one build: give two, as in {two}{alone}")


def refuse_misplaced(words: Sequence[str], builds: int, alone: bool = False) -> None:
    """Raise UsageError for a line of Python among the first ``builds`` words, and for a file or folder among the
    others; it says what would have worked. ``alone``: where one build is measured."""
    for place, word in enumerate(words[:builds]):
        if "(" not in word or os.path.lexists(word):
            continue
        beginning, before = f"{word}: is in a build's place", words[:place]
        if alone:
            raise UsageError(f"{beginning}: give the build before it, as in {_command('measure', [RELEASES[1], word])}")
        other = f"or measure one: {_command('measure', [*before, word])}"
        if not before:
            other = f"or in a checkout {_command('compare', ['HEAD', '.', word])}"
        raise UsageError(f"{beginning}: give both builds before it, as in {_example(before, word)}, {other}")
    for word in words[builds:]:
        if os.path.isdir(word) or (word.endswith(".py") and os.path.isfile(word)):
            suite = _command("compare", [*(words[:builds] or RELEASES), "--suite", word])
            raise UsageError(f"{word}: is in the place of a line of Python: a suite is given as in {suite}")


def other_framework(framework: str, chosen_by: str, build: str) -> str | None:
    """Say that a build is none of the framework of the cases, which ``chosen_by`` chose, and what would have worked;
    None where it may be one."""
    if _PACKAGE.match(build) is None or framework_of_builds([build]) == framework:
        return None
    return (
        f"{build}: {chosen_by} is for {framework}: measure a line of Python, as in {_example([build])}, or name builds "
        f"of {framework}"
    )


def full_names(operators: Sequence[str]) -> tuple[str, ...]:
    """Return the names of functions with the names of modules in place of what people call these: numpy.sort."""
    return tuple(".".join([_root(operator), *operator.split(".")[1:]]) for operator in operators)


def _root(operator: str) -> str:
    from opduel.commands.statements import ALIASES

    first = operator.partition(".")[0]
    return ALIASES.get(first, first) if "." in operator else first


def _spec_of(names: Sequence[str], framework: str, of_all: bool = True) -> str | None:
    """Return the spec of the first of these packages that has one, or else of the framework."""
    usual, own = [f"{name}_all" for name in names], [] if framework == ANY_PACKAGE else [f"{framework}_all", framework]
    choices = [*usual, *own] if of_all else [*names, *usual, *own]
    return next((name for name in choices if (SPECIFICATIONS / f"{name}.json").is_file()), None)


def _package_of(builds: Sequence[str]) -> str | None:
    """Return the package that the builds are of: that of the first release or address; for commits the checkout's; for
    environments one that has a spec."""
    for build in builds:
        if match := _PACKAGE.match(build):
            return str(canonicalize_name(match["name"]))
    for build in builds:
        if package := _in_environment(build):
            return package
        if (checkout := _checkout()) and _is_commit(build):
            return str(canonicalize_name(checkout.name))
    return None


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


def _checkout(package: str | None = None) -> "Package | None":
    """Return the package of the checkout that the current folder is in, if it is this ``package``, None for any."""
    from opduel.commands.checkout import package_of  # which is imported when something is wrong

    top = top_of_checkout(Path.cwd())
    with suppress(UsageError):
        checkout = package_of(Path.cwd(), top) if top else None
        return checkout if checkout and package in (None, canonicalize_name(checkout.name)) else None
    return None


def _suite(package: str) -> str:
    """Return the suite of the package, as an option takes it, if it is in this checkout."""
    from opduel.commands.checkout import find_suite

    checkout = _checkout(package)
    with suppress(UsageError):
        if checkout and (suite := find_suite(checkout.folder)):
            return os.path.relpath(suite.folder)
    return "FOLDER_OF_BENCHMARKS"


def _two(builds: Sequence[str]) -> list[str]:
    """Return two builds: of these, or an example beside the one."""
    if len(builds) != 1:
        return [*builds[:2]] or [*RELEASES]
    (build,) = builds
    if match := re.fullmatch(r"([^./].*?)\.\.\.?(.*)", build):
        return [match[1], match[2] or "HEAD"]
    if build in RELEASES:
        return [build, *(release for release in RELEASES if release != build)]
    if match := _PACKAGE.match(build):
        return [build, f"{match['name']}==VERSION"]
    return ["HEAD", "."] if build == "." else [build, "."]


def _line(package: str | None) -> str:
    checkout = _checkout(package) if package else None
    module = checkout.module if checkout else str(package or "mypackage").replace("-", "_")
    return _LINES.get(str(package), f"{module}.FUNCTION()")


def _example(builds: Sequence[str], line: str | None = None) -> str:
    return _command("compare", [*_two(builds), line or _line(_package_of(builds))])


def _command(name: str, words: Sequence[str]) -> str:
    return f"`{command_name(name)} {shlex.join(words)}`"
