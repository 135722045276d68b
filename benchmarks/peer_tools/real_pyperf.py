"""pyperf itself: its runner measures one side after the other, ``pyperf compare_to`` decides."""

import re
from collections.abc import Collection, Mapping
from pathlib import Path

from benchmarks.peer_tools.programs import run_program
from benchmarks.peer_tools.trial import Answer, Answers, Tool, Trial
from opduel.records.measurement import SIDES

SCRIPT = Path(__file__).resolve().with_name("pyperf_cases.py")
OPTIONS = ("--processes", "3")
SECTIONS: Mapping[str, Answer] = {"Slower": "slower", "Faster": "faster", "Same speed": "same"}
_ENTRY = re.compile(r"- (.*): [^:]+ -> [^:]+: ([0-9.]+x (?:slower|faster)|no change)")


def pyperf() -> Tool:
    """Return pyperf with 3 processes of 3 values a side; its default of 20 processes takes 80 s a case."""
    return Tool("pyperf", " ".join(OPTIONS), _measure)


def _measure(trial: Trial) -> Mapping[str, Answers]:
    """Measure the control first, then the treatment, as its users do."""
    bench = trial.bench
    job = {"OPDUEL_PEERS_JOB": str(trial.write_job())}
    files = [trial.folder.absolute() / f"{side}.json" for side in SIDES]
    for side, file in zip(SIDES, files, strict=True):
        environment = {**bench.environment, **bench.build.environment, **job, "OPDUEL_PEERS_SIDE": side}
        command = [bench.build.interpreter, str(SCRIPT), "--quiet", "--output", str(file), *OPTIONS]
        command += ["--affinity", ",".join(map(str, sorted(bench.cpus.measure)))]
        command += ["--inherit-environ", ",".join(environment)]
        run_program(command, environment, trial.folder)
    compare = [bench.build.interpreter, "-m", "pyperf", "compare_to", "--group-by-speed", *map(str, files)]
    output = run_program(compare, bench.environment, trial.folder)
    return {"pyperf: compare_to": parse_compare_to(output, [case.id for case in bench.cases])}


def parse_compare_to(output: str, cases: Collection[str]) -> dict[str, Answer]:
    """Parse ``pyperf compare_to --group-by-speed``: cases that are not listed as slower or faster are the same.

    Raises:
        ValueError: the text names a case that was not measured, or a line can't be read.
    """
    answers: dict[str, Answer] = dict.fromkeys(cases, "same")
    section: Answer | None = None
    for line in output.splitlines():
        heading = re.fullmatch(r"(Slower|Faster|Same speed) \(\d+\):", line)
        if heading:
            section = SECTIONS[heading[1]]
        elif line.startswith("- ") and section:
            entry = _ENTRY.fullmatch(line)
            if not entry or entry[1] not in answers:
                raise ValueError(f"pyperf compare_to printed a line that can't be read: {line!r}")
            answers[entry[1]] = section
    return answers
