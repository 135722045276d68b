"""Running another tool's program to its end."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from opduel.driver.builds.process import run
from opduel.records import RunError


def run_program(
    command: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
    timeout_s: float,
    good: Collection[int] = (0,),
) -> str:
    """What it printed. ``environment`` is its whole environment; what it says is kept in ``folder``.

    Raises:
        RunError: it ended with an exit code that is not ``good``, or not in time.
    """
    outcome = run(command, timeout=timeout_s, whole_environment=environment, directory=folder)
    with (folder / "said.txt").open("a", encoding="utf-8") as stream:
        stream.write(f"$ {' '.join(command)}\n{outcome.stdout}{outcome.stderr}\n")
    if outcome.code not in good:
        lines = outcome.stdout.strip().splitlines()
        words = outcome.output_tail if outcome.stderr.strip() or not lines else lines[-1]
        raise RunError(f"{' '.join(command[:4])}...: {words}; all that it said: {folder / 'said.txt'}")
    return outcome.stdout
