"""Run another tool's program to its end."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from opduel.driver.builds.process import run
from opduel.records import RunError

LOG = "output.txt"
TIMEOUT_S = 6 * 3600.0


def run_program(
    command: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
    good: Collection[int] = (0,),
) -> str:
    """Return the program's standard output, and append all its output to a log in ``folder``, where it runs.

    ``environment`` is its whole environment, ``good`` the exit codes that are no failure.

    Raises:
        RunError: it ended with another exit code, or not in time.
    """
    outcome = run(command, timeout=TIMEOUT_S, whole_environment=environment, directory=folder)
    log = folder / LOG
    with log.open("a", encoding="utf-8") as stream:
        stream.write(f"$ {' '.join(command)}\n{outcome.stdout}{outcome.stderr}\n")
    if outcome.code not in good:
        lines = outcome.stdout.strip().splitlines()
        message = outcome.output_tail if outcome.stderr.strip() or not lines else lines[-1]
        raise RunError(f"{' '.join(command[:4])}...: {message}; its output: {log}")
    return outcome.stdout
