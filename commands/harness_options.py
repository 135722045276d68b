"""The options of a run as one typed object, made once: by the parser of a command line, or by ``opduel.compare``."""

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, Self

from opduel.records import UsageError
from opduel.records.configuration import OPTIONS, RunConfiguration
from opduel.reporters.options import ReporterOptions

CONFIGURATION = tuple(option.name for option in fields(RunConfiguration))


@dataclass(frozen=True, kw_only=True)
class HarnessOptions(RunConfiguration):
    """The options of harness.py: those that a report keeps, and the ones below. A field has the name of its option;
    None, False and empty values were not given."""

    info: str | None = None  # JSON, or the path of a file
    variables: Mapping[str, str] = field(default_factory=dict)  # of --env, with their values
    fuzz_spec: Path | None = None
    exec_dir: Path | None = None
    round_log: Path | None = None
    prior_runs: str | None = None  # a folder, or the address of a server
    # one build alone
    single: bool = False
    output_format: Literal["json", "csv", "md"] | None = None
    output_file: Path | None = None
    baseline: Path | None = None
    # on many hosts
    fleet: str | None = None
    fleet_tag: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    excluded_devices: tuple[str, ...] = ()
    fleet_timeout: float = 60  # seconds
    fleet_silence: float = 900  # seconds
    fleet_certificates: Path | None = None
    reporting: ReporterOptions = field(default_factory=ReporterOptions)
    explicit: frozenset[str] = frozenset()  # the options that have another value than the parser's default
    # Option -> the argument of a Python function that gave it; None where all come from a command line.
    arguments: Mapping[str, str] | None = None

    @classmethod
    def of(
        cls, parsed: argparse.Namespace, parser: argparse.ArgumentParser, arguments: Mapping[str, str] | None = None
    ) -> Self:
        """Return the options that harness.py's ``parser`` has read; ``arguments`` as the field."""
        values = {name: plain(value) if name in CONFIGURATION else value for name, value in vars(parsed).items()}
        values = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
        values["metric"] = tuple(dict.fromkeys(metric for metrics in parsed.metric or () for metric in metrics))
        values["threshold"] = {metric: share for shares in parsed.threshold or () for metric, share in shares.items()}
        values["variables"] = dict(parsed.env or ())
        values["env"] = tuple(sorted(values["variables"]))
        values["profile_output"] = parsed.profile_output and str(parsed.profile_output.absolute())
        own = {name: values[name] for name in OPTION_NAMES if values.get(name) is not None}
        explicit = frozenset(
            OPTIONS.get(action.dest, action.dest)
            for action in parser._actions
            if _is_given(getattr(parsed, action.dest, None), action.default)
        )
        return cls(**own, reporting=ReporterOptions.of(parsed), explicit=explicit, arguments=arguments)

    def is_given(self, name: str) -> bool:
        """Tell whether an option, or one of a reporter, has another value than its default."""
        return name in self.explicit

    def label(self, name: str) -> str:
        """Return what the user calls an option: ``--seed`` on a command line, ``seed`` in Python."""
        return f"--{name}" if self.arguments is None else self.arguments.get(name, name)

    def refuse(self, names: Iterable[str], reason: str) -> None:
        """Raise UsageError, which names the option and ``reason``, if one of these options is given."""
        for name in names:
            if self.is_given(name):
                raise UsageError(f"{self.label(name)}: {reason}")

    def values(self) -> dict[str, Any]:
        """Return the options' values by name, without those of reporters."""
        return {name: getattr(self, name) for name in OPTION_NAMES}

    def configuration(self, driver: "CommitOptions | None" = None) -> RunConfiguration:
        """Return what a report keeps, of repo_driver.py's own options, too, if it is that which measures."""
        value_by_name = {name: getattr(self, name) for name in CONFIGURATION}
        if driver is not None:
            value_by_name |= {name: plain(value) for name, value in vars(driver).items() if name in CONFIGURATION}
            value_by_name["program"] = "repo_driver.py"
        return RunConfiguration(**value_by_name)


@dataclass(frozen=True, kw_only=True)
class CommitOptions:
    """repo_driver.py's own options: which commits are measured, how they are built, and how the driver runs."""

    ab_testing: bool = False
    local: Path | None = None
    all_cases: bool = False
    repo_dir: Path | None = None
    remote_repository: str | None = None
    repo: Literal["git", "hg"] = "git"
    branch: str | None = None  # several names are separated by commas
    commit: str | None = None
    base_commit: str | None = None
    exact_base: bool = False
    step: int = 1
    commit_file: Path | None = None
    bisect_releases: str | None = None  # two or more, separated by commas
    packages: Sequence[str] | None = None  # two builds
    build: Literal["auto", "release", "overlay", "source"] = "auto"
    platforms: str = "host"  # several names are separated by commas
    frameworks_dir: Path | None = None
    cmake_args: str = ""
    with_packages: str = ""
    exec_dir: Path | None = None
    build_timeout: float = 4 * 3600.0  # seconds
    min_free: float = 5.0  # GiB
    cache_size: float = 50.0  # GiB
    same_host: bool = False
    regression: bool = False
    improved: bool = False
    interval: float | None = None  # seconds
    status_file: Path | None = None
    work_dir: Path | None = None
    again: bool = False
    retry_after: float = 120.0  # seconds
    dry_run: bool = False

    @property
    def is_awaited(self) -> bool:
        """Whether somebody waits for what comes of it, who can repeat the command: a work tree, or one search."""
        one_search = self.interval is None and any((self.commit, self.packages, self.bisect_releases))
        return self.local is not None or one_search

    @property
    def is_search(self) -> bool:
        """Whether a checkout's commits, from one that is named to one that is named, are searched for a regression."""
        return self.repo_dir is not None and self.commit is not None and self.exact_base and self.regression

    @classmethod
    def of(cls, parsed: argparse.Namespace) -> Self:
        """Return the options that repo_driver.py's parser has read."""
        return cls(**vars(parsed))


def _is_given(value: Any, default: Any) -> bool:
    return value is not None and value is not False and value not in ([], default)


def plain(value: Any) -> Any:
    """Return an option's value in JSON's types, with tuples for lists."""
    if isinstance(value, list | tuple):
        return tuple(map(plain, value))
    return str(value) if isinstance(value, Path) else value


OPTION_NAMES = tuple(
    option.name
    for option in fields(HarnessOptions)
    if option.name not in ("program", "reporting", "explicit", "arguments")
)
