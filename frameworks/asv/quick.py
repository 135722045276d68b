"""Run cases of a suite by asv itself, as ``asv run --quick`` does: run by path in an environment with asv.

quick.py FOLDER INTERPRETER SECONDS CASES ANSWER
    FOLDER has the benchmarks, INTERPRETER the package and asv_runner; a benchmark without a limit has SECONDS. CASES is
    a JSON list of [benchmark, number of its set of parameters]. ANSWER gets {"benchmarks": {name: sets of parameters},
    "problem": why asv can't import the suite, "outcomes": [[benchmark, number, outcome], ...]}
"""

import json
import math
import sys
from collections.abc import Sequence
from typing import Any

from asv import runner, util
from asv.benchmarks import Benchmarks
from asv.config import Config
from asv.environment import ExistingEnvironment
from asv.repo import NoRepository


def discover(configuration: Any, environment: Any) -> tuple[Any, str | None]:
    """Return what asv's discovery lists, and why it lists nothing: it gives up where one module can't be imported."""
    try:
        return Benchmarks.discover(configuration, NoRepository(), [environment], [None]), None
    except util.UserError as error:
        return Benchmarks(configuration, []), last_line(str(error))


def run_cases(benchmarks: Any, environment: Any, cases: Sequence[tuple[str, int]]) -> list[tuple[str, int, str]]:
    """Run these cases; return ``[benchmark, number, outcome]`` of each."""
    outcomes: dict[tuple[str, int], str] = {}
    run_one = runner._run_benchmark_single_param

    def recorded(benchmark: Any, spawner: Any, param_idx: int, **options: Any) -> Any:
        result = run_one(benchmark, spawner, param_idx, **options)
        outcomes[benchmark["name"], param_idx] = outcome_of(result)
        return result

    runner._run_benchmark_single_param = recorded
    numbers: dict[str, list[int]] = {}
    for name, number in cases:
        numbers.setdefault(name, []).append(number)
    chosen = benchmarks.filter_out(set(benchmarks) - set(numbers))
    for name, chosen_numbers in numbers.items():
        if name in chosen and chosen[name]["params"]:
            chosen.benchmark_selection[name] = chosen_numbers
    results = runner.run_benchmarks(chosen, environment, quick=True)
    for name, number in cases:
        reason = last_line(results.stderr.get(name, "")) if name in chosen else "no such benchmark"
        outcomes.setdefault((name, number), f"failed: {reason}")
    return [(name, number, outcomes[name, number]) for name, number in cases]


def outcome_of(result: Any) -> str:
    """Return ``ran``, ``skipped: REASON`` or ``failed: REASON``."""
    value = result.result[0]
    if value is None:
        return f"failed: {last_line(result.stderr)}"
    is_skipped = isinstance(value, float) and math.isnan(value)
    return f"skipped: {last_line(result.stderr)}" if is_skipped else "ran"


def last_line(text: str) -> str:
    """Return what a failure says last."""
    return (text.strip().splitlines() or ["without a word"])[-1].strip()


def main() -> None:
    """Discover, run, and write the answer."""
    folder, interpreter, limit_s, cases, answer = sys.argv[1:]
    configuration = Config()
    configuration.project, configuration.repo, configuration.dvcs = "suite", "", "none"
    configuration.benchmark_dir, configuration.default_benchmark_timeout = folder, float(limit_s)
    environment = ExistingEnvironment(configuration, interpreter, {}, {})
    benchmarks, problem = discover(configuration, environment)
    with open(cases, encoding="utf-8") as stream:
        outcomes = run_cases(benchmarks, environment, [(name, number) for name, number in json.load(stream)])
    sets = {name: math.prod(map(len, benchmark["params"])) for name, benchmark in benchmarks.items()}
    with open(answer, "w", encoding="utf-8") as stream:
        json.dump({"benchmarks": sets, "problem": problem, "outcomes": outcomes}, stream)


if __name__ == "__main__":
    main()
