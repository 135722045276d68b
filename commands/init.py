"""opduel init: the settings and the workflow by which a package is measured, written after looking at what is there."""

import json
import os
import re
import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from opduel.commands.checkout import OwnSuite, Package, find_suite, package_of
from opduel.commands.entry import DONE
from opduel.commands.project import OWN_FILE, SHARED_FILE, parse_toml
from opduel.commands.statements import parse_code
from opduel.driver.documents import write_text
from opduel.driver.git.gitpython import git
from opduel.driver.git.local import top_of
from opduel.records import UsageError
from opduel.reporters.stream import print_result
from opduel.support.files import MissingError, UnreadableError, read_text
from opduel.support.project_file import table_in
from opduel.support.text import counted

TEMPLATES = Path(__file__).resolve().parent / "workflows"
GITLAB_FILE, GITLAB_OTHER_FILE = ".gitlab-ci.yml", ".gitlab/opduel.yml"
GITHUB_FILE = ".github/workflows/opduel.yml"
SUITE_S, LINES_S = 600, 180  # usual time budgets
_TO_FILL_IN = re.compile(r'(?<=uv tool install )".*')  # in a template: where opduel is installed from
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
    """A file to be written, in ``words`` behind "wrote"; without a path they say what is there already."""

    words: str
    path: Path | None = None
    content: str = ""
    added: str = ""  # the part of it that is new


def init(options: InitOptions) -> int:
    """Write what is missing, and say what was written and what to try next. Return the exit code.

    Raises:
        UsageError: there is no checkout, no package in it, or nothing to measure; its project file is not TOML, or a
            line no Python.
        RunError: a file can't be written.
    """
    _check_python(options)
    folder = Path(os.path.abspath(options.folder))
    top = top_of(folder)
    package = package_of(folder, top)
    suite = find_suite(package.folder) or find_suite(top)
    settings = _settings(package, suite, options)
    host, source = options.ci or _code_host(top), _source()
    steps = [settings, *([] if host == "none" else [_workflow(top, package, host, source)])]
    lines = [f"{package.name}: {_described(package, suite, options)}"]
    for step in steps:
        verb = "would write " if options.dry_run else "wrote "
        lines.append(f"{verb if step.path else ''}{step.words}")
        lines += [f"    {line}".rstrip() for line in step.added.splitlines()]
        if step.path is not None and not options.dry_run:
            write_text(step.path.resolve(), step.content)
    if source is None and steps[1:] and steps[1].path is not None:
        lines.append(f"fill in where opduel is installed from, in {steps[1].path}: this one is from a folder")
    print_result("".join(f"{line}\n" for line in [*lines, "try next: opduel local"]))
    return DONE


def _described(package: Package, suite: OwnSuite | None, options: InitOptions) -> str:
    """Say what of the package is measured."""
    if options.statement or suite is None:
        return f"{counted(len(options.statement), 'line')} of Python"
    kind = "tests that use the fixture benchmark" if suite.files else "an asv suite"
    place = os.path.relpath(suite.folder, package.folder)
    return f"{kind} in {'this folder' if place == '.' else place}"


def _check_python(options: InitOptions) -> None:
    """Raise UsageError for a line or a setup that is no Python, and for a setup alone."""
    for line in options.statement:
        parse_code("STATEMENT", line, is_line=True)
    parse_code("--setup", options.setup or "")
    if options.setup is not None and not options.statement:
        raise UsageError(f"--setup {options.setup}: has no line of Python to measure after it: give one")


def _settings(package: Package, suite: OwnSuite | None, options: InitOptions) -> Step:
    """Return the settings that are added to the package's project file, or to a file of opduel's own without one.
    UsageError: there is nothing to measure."""
    shared, own = package.folder / SHARED_FILE, package.folder / OWN_FILE
    text = _text_of(shared)
    measured = _measured_lines(package, suite, options)
    if own.exists() or "opduel" in table_in(parse_toml(shared, text or ""), "tool"):
        words = f"{own if own.exists() else shared}: has settings of opduel already, which stay as they are"
        return Step(f"{words}: to measure these lines, add {'; '.join(measured)}" if options.statement else words)
    if not measured:
        raise UsageError(
            f"{package.name}: has no asv suite, and no tests that use the fixture benchmark: give a line to measure, "
            'as in opduel init "mypackage.f(x)" --setup "import mypackage; x = 1"'
        )
    place, prefix = (own, "") if text is None else (shared, "tool.opduel.")
    lines = [
        *(["[tool.opduel]"] if prefix else []),
        'threshold = "5%"  # the smallest change that matters; shared runners are too noisy for a smaller one',
        f"time_budget = {LINES_S if options.statement else SUITE_S}  # seconds of measuring, at most",
        f"[{prefix}local]",
        *measured,
    ]
    added = "".join(f"{line}\n" for line in lines)
    before = f"{text.rstrip()}\n\n" if text and text.strip() else ""
    return Step(f"{len(lines)} lines to {place}:", place, before + added, added)


def _measured_lines(package: Package, suite: OwnSuite | None, options: InitOptions) -> list[str]:
    """Return the settings that say what is measured, in TOML: the lines of Python, or else the suite."""
    if options.statement:
        setup = [] if options.setup is None else [f"setup = {_toml(options.setup)}"]
        return [*setup, f"statement = [{', '.join(map(_toml, options.statement))}]"]
    return [f'suite = "{os.path.relpath(suite.folder, package.folder)}"'] if suite else []


def _toml(text: str) -> str:
    """Return a text as a basic string, whose escapes are JSON's (toml.io/en/v1.0.0#string)."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


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


def _text_of(path: Path) -> str | None:
    """Return a file's text, None if there is none. UsageError: it can't be read."""
    try:
        return read_text(path, pipes=False)
    except MissingError:
        return None
    except UnreadableError as error:
        raise UsageError(f"{path}: {error}: correct it") from None
