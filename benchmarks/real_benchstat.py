"""The rule written from benchstat's documentation, against the real benchstat, on the same samples.

    git clone https://go.googlesource.com/perf && (cd perf && go build -o ../benchstat ./cmd/benchstat)
    .venv/bin/python benchmarks/real_benchstat.py --benchstat ./benchstat

The samples are those of a calibration (benchmarks/calibrate.py): of every comparison the first --runs process pairs,
one value a process.  --digits rounds them, so that more are equal: tied values take another path through the test.
Exit code 1 if the two answer differently, with the cases.
"""

import argparse
import csv
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks import calibration_data  # noqa: E402
from benchmarks.peer_tools import rules  # noqa: E402
from benchmarks.peer_tools.trial import Answer  # noqa: E402
from opduel.commands import options as kinds  # noqa: E402
from opduel.commands.entry import run_command  # noqa: E402
from opduel.records import UsageError  # noqa: E402
from opduel.records.measurement import SIDES  # noqa: E402

DATA = ROOT / "benchmarks" / "results" / "calibration.jsonl"
FEWEST = 4  # values a side from which the test can be significant at all


@dataclass(frozen=True)
class Pair:
    """One comparison's values, ns a call, by process."""

    case: str
    control: Sequence[float]
    treatment: Sequence[float]


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = kinds.Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--benchstat", required=True, metavar="PROGRAM", help="the real one")
    made.add_argument("--data", type=Path, default=DATA, metavar="FILE", help="default: %(default)s")
    made.add_argument(
        "--runs", type=kinds.positive, default=10, metavar="N", help="at most, a side; default: %(default)s"
    )
    made.add_argument(
        "--digits", type=kinds.positive, default=6, metavar="N", help="of each value; default: %(default)s, all"
    )
    return made


def pairs_of(path: Path, runs: int, digits: int) -> list[Pair]:
    """All comparisons with enough process pairs.

    Raises:
        UsageError: the file can't be read, or has none.
    """
    found = []
    for trial in calibration_data.read(path):
        for one in trial.report.comparisons:
            samples = one.samples[:runs]
            if len(samples) >= FEWEST:
                sides = [[float(f"{getattr(sample, side):.{digits}g}") for sample in samples] for side in SIDES]
                found.append(Pair(one.case, *sides))
    if not found:
        raise UsageError(f"--data {path}: no comparison of {FEWEST} process pairs or more: run benchmarks/calibrate.py")
    return found


def real_answers(program: str, pairs: Sequence[Pair]) -> list[Answer]:
    """benchstat's, in one call, in the order of ``pairs``.

    Raises:
        UsageError: it can't be run, or its output isn't understood.
    """
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, f"{side}.txt") for side in SIDES]
        for file, side in zip(files, SIDES, strict=True):
            lines = [f"Benchmark{n} 1 {value!r} ns/op" for n, pair in enumerate(pairs) for value in getattr(pair, side)]
            file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        command = [program, "-format", "csv", *map(str, files)]
        try:
            said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        except (OSError, subprocess.CalledProcessError) as error:
            raise UsageError(f"--benchstat {program}: {error}: name a benchstat that runs") from None
    return _parsed(program, said, len(pairs))


def _parsed(program: str, said: str, count: int) -> list[Answer]:
    answers: dict[int, Answer] = {}
    for row in csv.reader(said.splitlines()):
        if len(row) >= 6 and row[0].isdigit():  # name, value, interval, value, interval, difference, p
            delta = row[5]
            answers[int(row[0])] = (
                "same" if delta in ("~", "0.00%") else "slower" if delta.startswith("+") else "faster"
            )
    if sorted(answers) != list(range(count)):
        raise UsageError(f"--benchstat {program}: answered {len(answers)} of {count} samples: name golang.org/x/perf's")
    return [answers[number] for number in range(count)]


def compare() -> int:
    """Print how many answers differ, and which; 1 if any does."""
    options = parser().parse_args()
    pairs = pairs_of(options.data, options.runs, options.digits)
    real = real_answers(options.benchstat, pairs)
    ours = [rules.benchstat(pair.control, pair.treatment) for pair in pairs]
    tied = sum(len({*pair.control, *pair.treatment}) < len(pair.control) + len(pair.treatment) for pair in pairs)
    differing = [one for one in zip(pairs, real, ours, strict=True) if one[1] != one[2]]
    said = {answer: real.count(answer) for answer in ("slower", "faster", "same")}
    print(f"{len(pairs)} samples, {tied} of them with equal values: benchstat says {said}; {len(differing)} differ")
    for pair, theirs, written in differing:
        print(f"- {pair.case}: benchstat {theirs}, the rule {written}: {pair.control} {pair.treatment}")
    return 1 if differing else 0


def main() -> int:
    """The exit code: 0 all answers are equal, 1 not, 2 wrong usage."""
    return run_command("real_benchstat.py", compare)


if __name__ == "__main__":
    sys.exit(main())
