"""Both sides' blocks in turns: the two processes hand over to each other, and the controller waits for the end."""

import math
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from itertools import groupby
from typing import Any

from opduel.harness.processes.channel import Background, Waiting, wait_for_any
from opduel.harness.processes.process import CaseProcess
from opduel.harness.processes.worker_errors import AskError
from opduel.records.measurement import SIDES, Side

STOP = b"x"  # as in harness/worker/turns.py
# Of the time that the blocks may take, the share after which both sides are to stop: who only waits for its turn does
# so at once, and who doesn't hangs.
PATIENCE = 0.9


class Pipes:
    """A pipe to each side, from the other one. Use as a context manager: leaving it closes them.

    Processes open them by their paths: nobody inherits them.
    """

    def __init__(self) -> None:
        self._pipes: dict[Side, tuple[int, int]] = {}
        self._closing = ExitStack()

    def __enter__(self) -> "Pipes":
        with ExitStack() as opened:
            for side in SIDES:
                self._pipes[side] = os.pipe()
                for end in self._pipes[side]:
                    opened.callback(os.close, end)
            self._closing = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def paths(self, side: Side) -> dict[str, str]:
        """Return where a side hears that it is its turn, and where it tells the other."""
        (other,) = set(SIDES) - {side}
        return {"read_from": _path(self._pipes[side][0]), "write_to": _path(self._pipes[other][1])}

    def stop(self) -> None:
        """Tell both sides to stop when it would be their turn."""
        for side in SIDES:
            os.write(self._pipes[side][1], STOP)


def _path(end: int) -> str:
    return f"/proc/{os.getpid()}/fd/{end}"  # man 5 proc: opens the same pipe


def ask_in_turns(
    processes: Mapping[Side, CaseProcess],
    requests: Mapping[Side, Mapping[str, Any]],
    order: Sequence[Side],
    timeout_s: float,
    advance: Callable[[], Iterable[Waiting]] = tuple,
) -> tuple[dict[Side, list[Any]], dict[Side, AskError]]:
    """Ask for blocks of both sides in this order; return what each side says of its own, and the errors of those that
    failed.

    ``requests``: what a side is asked for a block. ``advance``: get on with what else is to be done, without waiting,
    and return what that waits for. There are fewer blocks than in ``order`` after an error, if the time was nearly up,
    or if a side couldn't open the pipes.
    """
    lengths = [(side, len(list(turn))) for side, turn in groupby(order)]
    stop_at, stopped = time.monotonic() + PATIENCE * timeout_s, False
    with Pipes() as pipes:
        running: dict[Side, Background[dict[str, Any]]] = {}
        for side in sorted(SIDES, key=lambda candidate: candidate == order[0]):  # who has to wait is asked first
            turns = {"turns": [length for of, length in lengths if of == side], "first": side == order[0]}
            message = {**requests[side], "op": "turns", **turns, **pipes.paths(side)}
            running[side] = Background(processes[side].asking(message, timeout_s), AskError)
            running[side].advance()
        while waiting := [step for step in (side.advance() for side in running.values()) if step]:
            ended_early = any(_ended_early(background, order.count(side)) for side, background in running.items())
            if not stopped and (ended_early or time.monotonic() >= stop_at):
                pipes.stop()
                stopped = True
            wait_for_any([*waiting, *advance()], math.inf if stopped else stop_at)
    blocks: dict[Side, list[Any]] = {}
    errors: dict[Side, AskError] = {}
    for side in SIDES:
        try:
            blocks[side] = running[side].finish()["blocks"]
        except AskError as error:
            errors[side] = error
    return blocks, errors


def _ended_early(background: Background[dict[str, Any]], blocks: int) -> bool:
    """Return whether it ended without so many: the other side would wait for it."""
    return background.over and (background.failed or len(background.finish()["blocks"]) < blocks)
