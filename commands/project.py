"""Settings that a team shares: ``[tool.opduel]`` in pyproject.toml, or opduel.toml, in this folder or one above it.

Options of the subcommands by name, for all that have them, and in tables for one subcommand:

    [tool.opduel]                            # in opduel.toml, the same without "tool.opduel"
    time_budget = 600
    threshold = ["2%", "instructions=0.5%"]

    [tool.opduel.drive]
    regression = true

The file comes with a checkout, of which the user may know nothing: it can set only what neither executes anything, nor
names a file or an address, nor takes anything away. `opduel local` builds and executes the checkout anyway: for it the
file may also name the suite or the statements that are measured, and packages to install beside it, as its own build
requirements do.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from opduel.records import UsageError
from opduel.support.files import MissingError, UnreadableError, read_text
from opduel.support.project_file import table_in, top_of_checkout

OWN_FILE, SHARED_FILE = "opduel.toml", "pyproject.toml"
_OF_CASES = (
    *("operators", "category", "sample", "dtype", "ctx", "directions", "input_sets", "int64_tensor", "with_operators"),
    *("bench", "higher_is_better", "metric", "framework", "platform", "platforms", "branch", "step", "exact_base"),
)
_OF_DECISIONS = (
    *("threshold", "alpha", "time_budget", "max_rounds", "seed", "threads", "timeout", "sentinels", "busy_host"),
    *("verify", "verify_after", "regression", "improved", "rounds", "warmup", "runs", "profiler", "retry_after"),
    *("build", "build_timeout", "same_host"),
)
_OF_REPORTS = (
    *("roofline", "breakdown", "explain", "output_format", "screen_reporter", "simple_screen_reporter"),
    *("user_identifier", "run_type"),
)
HARMLESS = frozenset((*_OF_CASES, *_OF_DECISIONS, *_OF_REPORTS))
CLOSE = 0.75  # how like another name a misspelt one is
# What `opduel local` executes or installs of a checkout, as it builds and executes the checkout itself: its own file
# alone names it.
_PACKAGES = ("suite_packages", "with_packages")
_ENDS_OF_FILES = (".txt", ".toml", ".whl", ".zip", ".tar.gz")  # which no package's name has
OF_CHECKOUT = frozenset(("statement", "setup", "suite", *_PACKAGES))
OF_SUITE = ("bench", "higher_is_better", "suite_packages")  # of no use for statements
SAYS_WHAT = ("statement", "suite", "benchmark_file", "operators", "category", "inputs", "network", "int64_tensor")


@dataclass(frozen=True)
class Setting:
    """A default of one option. ``where`` names file and field in messages."""

    file: Path
    where: str
    name: str  # as options are called once they are read: time_budget
    value: Any


def project_settings(subcommand: str, subcommands: Sequence[str], folder: Path | None = None) -> list[Setting]:
    """The settings that hold for a subcommand, its own table's before those for all; empty without a file. UsageError:
    the file is no TOML, or has a table of no subcommand, or a setting that isn't harmless."""
    start = (folder or Path.cwd()).absolute()
    place = _find(start)
    if place is None:
        return []
    path, table = place
    prefix = f"{path}: " + ("tool.opduel." if path.name == SHARED_FILE else "")
    tables = {name: value for name, value in table.items() if isinstance(value, dict)}
    if unknown := sorted(set(tables) - set(subcommands)):
        raise UsageError(f"{prefix}{unknown[0]}: is not a subcommand: use {', '.join(subcommands)}, or take it out")
    own = {f"{subcommand}.{name}": value for name, value in tables.get(subcommand, {}).items()}
    shared = {name: value for name, value in table.items() if name not in tables}
    settings = [
        Setting(path, prefix + where, where.rpartition(".")[2].replace("-", "_"), value)
        for where, value in {**own, **shared}.items()
    ]
    top = top_of_checkout(start)
    top = top if top is not None and path.is_relative_to(top) else None  # a file above the checkout is another's
    for number, setting in enumerate(settings):
        if top is not None and setting.name in OF_CHECKOUT and setting.where == f"{prefix}local.{setting.name}":
            settings[number] = replace(setting, value=_in_checkout(setting, top))
        elif setting.name not in HARMLESS:
            fix = "take it out, and use the command line or your own config"
            if top is not None and setting.name in OF_CHECKOUT:
                fix = f"move it to the table {prefix.rpartition(' ')[2]}local, for opduel local alone"
            allowed = HARMLESS | OF_CHECKOUT if setting.where.startswith(f"{prefix}local.") else HARMLESS
            if close := get_close_matches(setting.name, sorted(allowed), 1, CLOSE):
                fix = f"did you mean {close[0]}? If not, {fix}"
            raise UsageError(f"{setting.where}: is not one of the settings that a project can make for you: {fix}")
    return settings


def _in_checkout(setting: Setting, top: Path) -> Any:
    """Return the value, with a suite's path from the file's folder on, and packages as one text. UsageError: a suite is
    outside the checkout, or a package has an address or a file in place of a name."""
    if setting.name in _PACKAGES:
        return _packages(setting)
    if setting.name != "suite" or not isinstance(setting.value, str):
        return setting.value
    path = setting.file.parent / setting.value
    if ":" in setting.value or "@" in setting.value or not path.resolve().is_relative_to(top.resolve()):
        raise UsageError(f"{setting.where}: {setting.value} is not in this checkout: name a folder or file in it")
    return str(path)


def _packages(setting: Setting) -> Any:
    """Return the packages with spaces between. UsageError: one is not a package's name, with or without versions."""
    from packaging.requirements import InvalidRequirement, Requirement  # here, for it takes a tenth of the start

    if not isinstance(setting.value, str | list):
        return setting.value
    text = setting.value if isinstance(setting.value, str) else " ".join(map(str, setting.value))
    for word in text.split():
        try:
            is_named = Requirement(word).url is None and not word.lower().endswith(_ENDS_OF_FILES)
        except InvalidRequirement:
            is_named = False
        if not is_named:
            raise UsageError(f"{setting.where}: {word} is not the name of a package: write one such as numpy==2.2.6")
    return text


def _find(folder: Path) -> tuple[Path, Mapping[str, Any]] | None:
    """The nearest file that has settings, and its table."""
    for place in (folder, *folder.parents):
        for name in (OWN_FILE, SHARED_FILE):
            table = _table(place / name)
            if table is not None:
                return place / name, table
    return None


def parse_toml(path: Path, text: str) -> Mapping[str, Any]:
    """Return what the text of a file says. UsageError: it is not TOML."""
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"{path}: is not TOML ({error}): correct it") from None


def _table(path: Path) -> Mapping[str, Any] | None:
    """The settings of one file; None if it has none."""
    own = path.name == OWN_FILE
    try:
        text = read_text(path, pipes=False)
        if not own and "opduel" not in text:
            return None  # whether it is valid is another tool's concern
        document = parse_toml(path, text)
    except MissingError:
        return None
    except UnreadableError as error:
        if not own:
            return None
        raise UsageError(f"{path}: cannot be read: {error}: correct it") from None
    table = document if own else table_in(document, "tool").get("opduel")
    if table is not None and not isinstance(table, dict):
        raise UsageError(f"{path}: tool.opduel: must be a table of settings: write [tool.opduel]")
    return table
