"""The options of a run as one typed object, made once: by the parser of a command line, or by ``opduel.compare``."""

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, Self

from opduel.records import UsageError
from opduel.records.measurement import Profiler

DEFAULT_ALPHA = 0.05


@dataclass(frozen=True, kw_only=True)
class HarnessOptions:
    """The options of harness.py. A field has the name of its option; None, False and empty values were not given."""

    # what is measured
    benchmark_file: str | None = None
    control: str | None = None
    treatment: str | None = None
    info: str | None = None  # JSON, or the path of a file
    operators: tuple[str, ...] = ()
    category: tuple[str, ...] = ()
    sample: str | None = None  # a number of cases, or a share such as 5%
    inputs: tuple[str, ...] = ()  # JSON, or @ and the path of a file
    network: str | None = None
    with_operators: bool = False
    fuzz: int | None = None
    fuzz_spec: Path | None = None
    dtype: str | None = None
    ctx: str | None = None
    directions: tuple[str, ...] = ()
    input_sets: int | None = None
    int64_tensor: Literal["on", "off"] | None = None
    suite: str | None = None
    bench: tuple[str, ...] = ()
    higher_is_better: tuple[str, ...] = ()
    metric: tuple[str, ...] = ()
    roofline: bool = False
    framework: str | None = None
    platform: str = "host"  # several names are separated by commas
    exec_dir: Path | None = None
    allow_sdist: bool = False
    model_cache: Path | None = None
    breakdown: bool = False
    explain: Literal["confirmed", "all", "none"] = "confirmed"
    profile_output: Path | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    # one build alone
    single: bool = False
    rounds: int | None = None
    warmup: int | None = None  # calls
    runs: int | None = None  # calls
    profiler: Profiler | None = None
    output_format: Literal["json", "csv", "md"] | None = None
    output_file: Path | None = None
    baseline: Path | None = None
    golden: Path | None = None
    # how it is decided
    threshold: Mapping[str, float] = field(default_factory=dict)  # metric -> share
    alpha: float = DEFAULT_ALPHA
    time_budget: float | None = None  # seconds
    round_log: Path | None = None
    prior_runs: str | None = None  # a folder, or the address of a server
    max_rounds: int | None = None
    seed: int | None = None
    threads: int = 1
    timeout: float | None = None  # seconds
    inject: float = 0.0  # a share
    # how far it is trusted
    sentinels: int | None = None
    busy_host: Literal["hold", "report"] = "hold"
    verify: bool = False
    verify_after: float | None = None  # seconds
    # on many hosts
    fleet: str | None = None
    fleet_tag: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    excluded_devices: tuple[str, ...] = ()
    across: Literal["hosts"] | None = None
    fleet_timeout: float = 60  # seconds
    fleet_silence: float = 900  # seconds
    fleet_certificates: Path | None = None
    # as in AI-PEP
    wipe_cache: bool = False
    root_model_dir: Path | None = None
    shared_libs: tuple[Path, ...] = ()
    regressed_types: tuple[str, ...] = ()
    program: str | None = None
    command_args: str | None = None  # words, quoted as for a shell
    string_map: str | None = None  # a JSON object
    # kept with the report
    user_identifier: str | None = None
    run_type: Literal["benchmark", "verify", "regress"] | None = None
    # The reporters' options by name, which each reporter declares and reads itself.
    reporting: argparse.Namespace = field(default_factory=argparse.Namespace)
    # Option -> the argument of a Python function that gave it; None where all come from a command line.
    arguments: Mapping[str, str] | None = None

    @classmethod
    def of(cls, parsed: argparse.Namespace, arguments: Mapping[str, str] | None = None) -> Self:
        """Return the options that harness.py's parser has read; ``arguments`` as the field."""
        values = {name: _frozen(value) for name, value in vars(parsed).items()}
        values["metric"] = tuple(dict.fromkeys(metric for metrics in parsed.metric or () for metric in metrics))
        values["threshold"] = {metric: share for shares in parsed.threshold or () for metric, share in shares.items()}
        values["env"] = dict(parsed.env or ())
        own = {name: values[name] for name in OPTION_NAMES if values[name] is not None}
        reporting = {name: value for name, value in vars(parsed).items() if name not in OPTION_NAMES}
        reporting["prior_runs"] = parsed.prior_runs  # its server may be asked with the reporters' token
        return cls(**own, reporting=argparse.Namespace(**reporting), arguments=arguments)

    def is_given(self, name: str) -> bool:
        """Tell whether an option, or one of a reporter, has another value than its default."""
        if name in OPTION_NAMES:
            return bool(getattr(self, name) != _DEFAULTS[name])
        return getattr(self.reporting, name, None) not in (None, False, [])

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


@dataclass(frozen=True, kw_only=True)
class CommitOptions:
    """repo_driver.py's own options: which commits are measured, how they are built, and how the driver runs."""

    ab_testing: bool = False
    local: Path | None = None
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

    @classmethod
    def of(cls, parsed: argparse.Namespace) -> Self:
        """Return the options that repo_driver.py's parser has read."""
        return cls(**vars(parsed))

    def values(self) -> dict[str, Any]:
        """Return the options' values by name."""
        return {option.name: getattr(self, option.name) for option in fields(self)}


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else value


OPTION_NAMES = tuple(option.name for option in fields(HarnessOptions) if option.name not in ("reporting", "arguments"))
_DEFAULTS: dict[str, Any] = HarnessOptions().values()
