"""opduel init: the settings and the workflow by which a package is measured, written after looking at what is there."""

import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from opduel.commands.checkout import OwnSuite, Package, find_suite, package_of
from opduel.commands.entry import DONE
from opduel.commands.project import OWN_FILE, SHARED_FILE, parse_toml
from opduel.commands.statements import parse_code
from opduel.commands.suite_size import SuiteSize, size_of
from opduel.driver.git.gitpython import git
from opduel.driver.git.local import top_of
from opduel.records import UsageError
from opduel.reporters.stream import print_result
from opduel.support.atomic import write_atomically
from opduel.support.files import MissingError, UnreadableError, read_text
from opduel.support.project_file import table_in
from opduel.support.text import counted, duration

TEMPLATES = Path(__file__).resolve().parent / "workflows"
GITLAB_FILE, GITLAB_OTHER_FILE = ".gitlab-ci.yml", ".gitlab/opduel.yml"
GITHUB_FILE = ".github/workflows/opduel.yml"
SHOWN = 3  # names of files in a line
_TO_FILL_IN = re.compile(r'(?<=uv tool install )".*')  # in a template: where opduel is installed from
_OF_THIS_MACHINE = re.compile(r"""["']((?:/|~/)[^"']+/[^"']*)["']""")  # in Python: a path from a root on
_REACHABLE = re.compile(r"(git\+)?https?://[\w.:/~%+-]+(@[0-9a-f]{40,64})?")  # from elsewhere, without a password


@dataclass(frozen=True)
class InitOptions:
    """What ``opduel init`` is asked for; ``ci`` is None for what the checkout shows. ``statement``: lines of Python to
    measure, after ``setup``."""

    folder: Path
    statement: Sequence[str] = ()
    setup: str | None = None
    ci: str | None = None
    dry_run: bool = False


@dataclass(frozen=True)
class Step:
    """A file to be written, in ``words`` behind "wrote"; without a path they say what is there already. ``measures``:
    these settings say what is measured."""

    words: str
    path: Path | None = None
    content: str = ""
    added: str = ""  # the part of it that is new
    measures: bool = False


def init(options: InitOptions) -> int:
    """Write what is missing, and say what was written and what to try next. Return the exit code.

    Raises:
        UsageError: there is no checkout, or no package in it; its project file is not TOML, or a line no Python.
    """
    _check_python(options)
    folder = Path(os.path.abspath(options.folder))
    top = top_of(folder)
    package = package_of(folder, top)
    suite = find_suite(package.folder) or find_suite(top)
    size = size_of(suite) if suite else SuiteSize(0)
    settings = _settings(
        package, suite, SuiteSize(len(options.statement)) if options.statement else size, _lines_to_measure(options)
    )
    host = options.ci or _code_host(top)
    measured = suite is not None or settings.measures
    source = _source()
    steps = [settings, *([_workflow(top, package, host, source)] if measured and host != "none" else [])]
    subject = f"{_described(package, suite)}{f', {size.words}' if size.cases else ''}"
    if options.statement:
        subject = f"{counted(len(options.statement), 'line')} of Python" + (f", in place of {subject}" if suite else "")
    lines = [f"{package.name}: {subject}"]
    for step in steps:
        verb = "would write " if options.dry_run else "wrote "
        lines.append(f"{verb if step.path else ''}{step.words}")
        lines += [f"    {line}".rstrip() for line in step.added.splitlines()]
        if step.path is not None and not options.dry_run:
            _write(step.path, step.content)
    if not size.fits and not options.statement:
        lines.append(
            f"note: {size.words} take about {duration(size.needed_s)} on a shared runner where a change reaches all: "
            "with a smaller time_budget some stay undecided; bench in the settings, or --bench, chooses benchmarks"
        )
    if settings.added and (path := _OF_THIS_MACHINE.search(options.setup or "")):
        lines.append(
            f"note: the setup names {path[1]}, which other machines may not have: a path from {top} on works there, too"
        )
    if source is None and steps[1:] and steps[1].path is not None:
        lines.append(f"fill in where opduel is installed from, in {steps[1].path}: this one is from a folder")
    lines += _next_lines(package, measured)
    print_result("".join(f"{line}\n" for line in lines))
    return DONE


def _described(package: Package, suite: OwnSuite | None) -> str:
    """Say what of the package can be measured."""
    if suite is None:
        return "no asv suite, and no tests that use the fixture benchmark"
    if not suite.files:
        place = os.path.relpath(suite.folder, package.folder)
        return f"an asv suite in {'this folder' if place == '.' else place}"
    names = [os.path.relpath(path, package.folder) for path in suite.files]
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"tests that use the fixture benchmark in {', '.join(names[:SHOWN])}{more}"


def _check_python(options: InitOptions) -> None:
    """Raise UsageError for a line or a setup that is no Python, and for a setup alone."""
    for line in options.statement:
        parse_code("STATEMENT", line, is_line=True)
    parse_code("--setup", options.setup or "")
    if options.setup is not None and not options.statement:
        raise UsageError(f"--setup {options.setup}: has no line of Python to measure after it: give one")


def _lines_to_measure(options: InitOptions) -> list[str]:
    """Return the settings for the lines of Python, in TOML; none without lines."""
    setup = [] if options.setup is None else [f"setup = {_toml(options.setup)}"]
    return [*setup, f"statement = [{', '.join(map(_toml, options.statement))}]"] if options.statement else []


def _toml(text: str) -> str:
    """Return a text as a basic string, whose escapes are JSON's (toml.io/en/v1.0.0#string)."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _settings(package: Package, suite: OwnSuite | None, size: SuiteSize, lines_to_measure: Sequence[str]) -> Step:
    """Return the settings that are added to the package's project file, or to a file of opduel's own without one."""
    place = package.folder / SHARED_FILE
    text = _text_of(place)
    own = package.folder / OWN_FILE
    if own.exists() or "opduel" in table_in(parse_toml(place, text or ""), "tool"):
        return _more_settings(own if own.exists() else place, lines_to_measure)
    place, prefix = (own, "") if text is None else (place, "tool.opduel.")
    module = package.module or "mypackage"
    measured = [f'suite = "{os.path.relpath(suite.folder, package.folder)}"'] if suite else []
    too_few = "" if size.fits else f"; too few where a change reaches all {size.words}: give more, or choose by bench"
    measured += [] if size.fits else ['# bench = ["time_sort"]  # regular expressions: which benchmarks are measured']
    placeholders = [f'# setup = "import {module}; x = 1"', f'# statement = ["{module}.f(x)"]']
    measured = list(lines_to_measure) or measured or placeholders
    lines = [
        *(["[tool.opduel]"] if prefix else []),
        'threshold = "5%"  # the smallest change that matters; shared runners are too noisy for a smaller one',
        f"time_budget = {size.budget_s}  # seconds of measuring{too_few}",
        f"[{prefix}local]",
        *measured,
    ]
    added = "".join(f"{line}\n" for line in lines)
    before = f"{text.rstrip()}\n\n" if text and text.strip() else ""
    content = _ends_as(before, before + added)
    return Step(f"{len(lines)} lines to {place}:", place, content, added, bool(suite or lines_to_measure))


def _more_settings(place: Path, lines_to_measure: Sequence[str]) -> Step:
    """Return the lines to measure as an addition to a file that has settings already, but doesn't say what is measured;
    the placeholders that `_settings` wrote go. UsageError: the file is not TOML, or a program can't add them."""
    text, prefix = str(_text_of(place)), "" if place.name == OWN_FILE else "tool.opduel."
    measures = any(name in _local_table(place, text) for name in ("statement", "suite"))
    if measures or not lines_to_measure:
        aside = f": to measure these lines, write there {'; '.join(lines_to_measure)}" if lines_to_measure else ""
        return Step(f"{place}: has settings of opduel already, which stay as they are{aside}", measures=measures)
    added = "".join(f"{line}\n" for line in lines_to_measure)
    head = rf"(?m)^(\[{re.escape(prefix)}local\][^\n]*\n)(?:# setup = .*\n# statement = .*\n?)?"
    content, count = re.subn(head, lambda match: match[1] + added, text if text.endswith("\n") else f"{text}\n")
    if not count:
        content = f"{text.rstrip()}\n\n[{prefix}local]\n{added}"
    content = _ends_as(text, content)
    with suppress(UsageError):
        if "statement" in _local_table(place, content):
            return Step(f"{counted(len(lines_to_measure), 'line')} to {place}:", place, content, added, True)
    raise UsageError(f"{place}: has settings of opduel already: add {'; '.join(lines_to_measure)} to {prefix}local")


def _ends_as(before: str, content: str) -> str:
    """Return the content of a file with lines that end as those it had before."""
    return content.replace("\r\n", "\n").replace("\n", "\r\n") if "\r\n" in before else content


def _local_table(place: Path, text: str) -> Mapping[str, Any]:
    """Return what the text of a file sets for opduel local. UsageError: it is not TOML."""
    names = ("local",) if place.name == OWN_FILE else ("tool", "opduel", "local")
    return reduce(table_in, names, parse_toml(place, text))


def _source() -> str | None:
    """Return what installs this opduel elsewhere: its name if it came from an index, or its address, of a repository
    with the commit (packaging.python.org/specifications/direct-url); None of one that another machine doesn't have."""
    try:
        text = distribution("opduel").read_text("direct_url.json")
    except PackageNotFoundError:  # it runs in its own checkout
        return None
    if text is None:
        return "opduel"
    with suppress(ValueError, KeyError, TypeError):
        origin = json.loads(text)
        vcs = origin.get("vcs_info")
        address = f"{vcs['vcs']}+{origin['url']}@{vcs['commit_id']}" if vcs else origin["url"]
        return f"opduel @ {address}" if _REACHABLE.fullmatch(address) else None
    return None


def _workflow(top: Path, package: Package, host: str, source: str | None) -> Step:
    """Return the workflow of a code host; ``source``: what installs opduel there, if that is known."""
    text = (TEMPLATES / f"opduel.{host}.yml").read_text(encoding="utf-8")
    text = _TO_FILL_IN.sub(f'"{source}"', text) if source else text
    if package.folder != top:
        text = text.replace("opduel local", f"opduel local {shlex.quote(str(package.folder.relative_to(top)))}")
    place, effect = top / (GITLAB_FILE if host == "gitlab" else GITHUB_FILE), "which measures each pull request"
    if host == "gitlab":
        effect = "which measures each merge request"
        existing = _text_of(place)
        if existing is not None and "opduel" in existing:
            return Step(f"{place}: has opduel already, and stays as it is")
        if existing is not None:
            place = top / GITLAB_OTHER_FILE
            effect = f"which measures each merge request when {GITLAB_FILE} has\n    include: {GITLAB_OTHER_FILE}"
    if place.exists():
        return Step(f"{place}: is there already, and stays as it is")
    return Step(f"{place}, {effect}", place, text)


def _code_host(top: Path) -> str:
    """Return where the code is: what the checkout has a file for, or else what its remotes' addresses name."""
    if (top / GITLAB_FILE).exists() or (top / ".github").is_dir():
        return "gitlab" if (top / GITLAB_FILE).exists() else "github"
    try:
        addresses = " ".join(address for remote in git.Repo(top).remotes for address in remote.urls)
    except (git.GitError, OSError, ValueError):
        addresses = ""
    return "gitlab" if re.search("gitlab", addresses, re.IGNORECASE) else "github"


def _next_lines(package: Package, measured: bool) -> list[str]:
    """Return what the user can do now."""
    if measured:
        return ["try next: opduel local"]
    module = package.module or "mypackage"
    return [
        "nothing to measure yet, and so no workflow",
        f'give a line: opduel init "{module}.f(x)" --setup "import {module}; x = 1", with a call of your own',
    ]


def _text_of(path: Path) -> str | None:
    """Return a file's text, None if there is none. UsageError: it can't be read."""
    try:
        return read_text(path, pipes=False)
    except MissingError:
        return None
    except UnreadableError as error:
        raise UsageError(f"{path}: {error}: correct it") from None


def _write(path: Path, content: str) -> None:
    """Write a file in a folder that may be new."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path.resolve(), content.encode())
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from None
