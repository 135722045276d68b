"""The options of one run, in one typed record: made once from the parsed options, and stored in the report."""

import functools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, get_type_hints

from opduel.records.case import NOISY, SAMPLED, Case
from opduel.records.measurement import Profiler

USUAL_ROUNDS, MOST_USUAL_ROUNDS = 50, 160
SMALL_THRESHOLD = 0.005
_JOINED = {"separator": ","}  # an option that takes several values at once


@dataclass(frozen=True)
class RunConfiguration:
    """The options that decide what a run measures and how, wherever they were given. A field has the name of its
    option, but ``build_program`` is ``--program``: ``program`` is the command that was called. Null, false and empty
    lists were not given.

    No field is a secret as a whole (``commands/recorded_options.py``); ``env`` has names only. A report masks secrets
    within ``command_args`` and ``string_map``.
    """

    program: str = "harness.py"
    # what is measured
    benchmark_file: str | None = None
    suite: str | None = None
    suite_packages: str | None = None  # requirements, in place of the suite's own, or "none"
    bench: tuple[str, ...] = ()
    higher_is_better: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    category: tuple[str, ...] = ()
    sample: str | None = None  # a number of cases, or a share such as 5%
    inputs: tuple[str, ...] = ()
    statement: tuple[str, ...] = ()  # Python code
    setup: str | None = None  # of all statements
    network: str | None = None
    with_operators: bool = False
    fuzz: int | None = None
    dtype: str | None = None
    ctx: str | None = None
    directions: tuple[str, ...] = field(default=(), metadata=_JOINED)
    input_sets: int | None = None
    int64_tensor: str | None = None
    metric: tuple[str, ...] = field(default=(), metadata=_JOINED)
    regressed_types: tuple[str, ...] = ()
    framework: str | None = None
    timeout: float | None = None  # seconds
    control: str | None = None
    treatment: str | None = None
    golden: str | None = None
    allow_sdist: bool = False
    model_cache: str | None = None
    root_model_dir: str | None = None
    shared_libs: tuple[str, ...] = field(default=(), metadata=_JOINED)
    env: tuple[str, ...] = ()
    # --program: where the program is in a build
    build_program: str | None = field(default=None, metadata={"option": "program"})
    command_args: str | None = None  # words, quoted as for a shell
    string_map: str | None = None  # a JSON object
    # how it is measured and decided
    threshold: Mapping[str, float] = field(default_factory=dict)  # metric -> share
    alpha: float = 0.05  # the false discovery rate of the run
    max_rounds: int | None = None  # None: ``usual_rounds`` of the cases
    time_budget: float | None = None  # seconds
    threads: int = 1
    seed: int | None = None
    inject: float = 0.0  # a share
    sentinels: int | None = None  # None: the usual number of A/A checks
    busy_host: str = "hold"  # or "report"
    verify: bool = False
    verify_after: float | None = None  # seconds
    wipe_cache: bool = False
    roofline: bool = False
    breakdown: bool = False
    explain: str = "confirmed"  # or "all", "none": of which changed cases the cause is looked for
    profile_output: str | None = None  # an absolute path
    # of one build alone
    rounds: int | None = None  # fresh processes for each case; None: 5
    warmup: int | None = None  # calls; None: 2
    runs: int | None = None  # timed calls in each process
    profiler: Profiler = "python"
    # which commits, and how they are built: of repo_driver.py
    repo_dir: str | None = None
    remote_repository: str | None = None
    frameworks_dir: str | None = None
    cmake_args: str = ""
    with_packages: str = ""
    build: str = "auto"
    # on which hosts of a fleet
    across: str | None = None  # "hosts": on each kind of them; several names in ``platform``: on each of these
    # labels
    platform: str = "host"
    user_identifier: str | None = None
    run_type: str = "benchmark"

    @property
    def verifies_after(self) -> float | None:
        """Seconds between measuring and verifying; None for a run that doesn't verify."""
        return (self.verify_after or 0.0) if self.verify else None

    @property
    def holds(self) -> bool:
        """Whether a run that can't be trusted holds its verdicts back."""
        return self.busy_host == "hold"

    @property
    def platforms(self) -> tuple[str, ...]:
        """The names of platforms."""
        return tuple(name.strip() for name in self.platform.split(","))

    def words(self, names: Iterable[str]) -> list[str]:
        """Return the options ``names``, in their order, as words of a command line, without those not given."""
        return [word for name in names for word in self._words(name)]

    def _words(self, name: str) -> list[str]:
        value = getattr(self, name)
        if value == _DEFAULTS[name]:
            return []
        name = OPTIONS.get(name, name)
        if value is True:
            return [f"--{name}"]
        if name == "threshold":
            return [word for text in _thresholds(value) for word in _option(name, text)]
        if isinstance(value, tuple) and name in SEPARATORS:
            value = (SEPARATORS[name].join(value),)
        texts = map(str, value if isinstance(value, tuple) else (value,))
        return [word for text in texts for word in _option(name, text)]


def rounds_at(threshold: float) -> int:
    """Return the default of ``--max_rounds`` at a threshold (a share): 50, or up to 160 below 0.5 %.

    It grows as (0.5 % / threshold) to the power of 3/4. An equally powerful test would take the square, which takes
    too long.
    """
    if threshold >= SMALL_THRESHOLD:
        return USUAL_ROUNDS
    if threshold <= 0:
        return MOST_USUAL_ROUNDS
    return min(MOST_USUAL_ROUNDS, round(USUAL_ROUNDS * math.pow(SMALL_THRESHOLD / threshold, 0.75)))


def usual_rounds(cases: Iterable[Case]) -> int:
    """Return the default of ``--max_rounds`` for these cases: that of the smallest threshold of a noisy metric."""
    noisy = (case.threshold for case in cases if case.metric in NOISY)
    return rounds_at(min(noisy, default=SMALL_THRESHOLD))


_DEFAULTS: dict[str, Any] = {name: getattr(RunConfiguration(), name) for name in RunConfiguration.__dataclass_fields__}
OPTIONS = {option.name: option.metadata["option"] for option in fields(RunConfiguration) if "option" in option.metadata}
SEPARATORS = {
    option.name: option.metadata["separator"] for option in fields(RunConfiguration) if "separator" in option.metadata
}


@functools.cache
def kinds() -> dict[str, Any]:
    """Return the type of each field."""
    return get_type_hints(RunConfiguration)


def _thresholds(shares: Mapping[str, float]) -> list[str]:
    """Return ``METRIC=SHARE`` for each metric; ``SHARE`` alone if all metrics have the same."""
    if set(shares) == set(SAMPLED) and len(set(shares.values())) == 1:
        return [_percent(shares[SAMPLED[0]])]
    return [f"{metric}={_percent(share)}" for metric, share in shares.items()]


def _option(name: str, text: str) -> list[str]:
    return [f"--{name}={text}"] if text.startswith("-") else [f"--{name}", text]


def _percent(share: float) -> str:
    return f"{100 * share:.12g}%"
