"""A program as the worker runs it: a call is one run of the program, from its start to its end.

Runs in opduel's own Python: standard library, Python 3.6 syntax.  The worker loads this folder as a package of its own
(harness/worker/main.py, load_adaptor) and calls the functions of this file.  What a program prints is read once in each
worker, however many cases its values are: the children that the worker forks share a file in memory.
"""

import fcntl
import json
import os
import platform

from . import printed, program

CPU_RUNS = 3  # of a program that takes less than CPU_NS in all
CPU_NS = 300 * 1000 * 1000
_SHARED = os.memfd_create("opduel-values")  # a line of JSON for each command that was run in this worker


class ProgramError(Exception):
    """A program did not do what its case needs: ``kind`` as in records/measurement.py."""

    says_all = True

    def __init__(self, text, kind="error"):
        Exception.__init__(self, text)
        self.kind = kind


def key_line(text):
    """Our own messages are one line already."""
    return text.splitlines()[0].strip()


def versions():
    """What the controller receives once the worker is ready: the Python that starts the programs."""
    return {"framework": platform.python_version()}


def make_call(case, seed):
    """A function of no arguments that runs the case's program once. Raises program.RunFailed when it is called;
    ProgramError: the case is none of a program."""
    if case["direction"] != "forward":
        raise ProgramError("a program has no {} direction: use forward".format(case["direction"]))
    if case["context"] != "cpu":
        raise ProgramError("a program has no context {}: leave it out".format(case["context"]))
    command = program.Command(case["inputs"])

    def call():
        command.run()

    call.own_process = True  # no run leaves anything to the next: none has to be thrown away
    return call


def cpu_time(case, seed):
    """Nanoseconds of processor time, user and system, of one run and of what it waited for: the median of some runs."""
    command = program.Command(case["inputs"])
    taken = []
    while len(taken) < CPU_RUNS and sum(taken) < CPU_NS:
        taken.append(command.run().cpu_ns)
    return sorted(taken)[len(taken) // 2]


def resident(case):
    """The most memory in bytes that was resident in one run."""
    return program.Command(case["inputs"]).run(peak=True).peak_bytes


def values(case, seed):
    """What the program prints, as ``printed.values_of`` has it.

    Raises ProgramError: it can't be run, or what it prints can't be read.
    """
    inputs = case["inputs"]
    key = json.dumps([inputs.get(name) for name in ("command", "parse", "higher_is_better", "env", "cwd")])
    fcntl.lockf(_SHARED, fcntl.LOCK_EX)  # for one child at a time: its end frees it, however that came
    try:
        known = _known(key)
        if known is None:
            _keep(key, {"error": "its run for another of its values did not end", "kind": "timeout"})
            try:
                known = _found(inputs)
            except Exception as error:
                _keep(key, {"error": str(error), "kind": "error"})
                raise
            _keep(key, known)
    finally:
        fcntl.lockf(_SHARED, fcntl.LOCK_UN)
    if "error" in known:
        raise ProgramError(known["error"], known["kind"])
    return known["values"]


def value(case, seed):
    """One of the ``values``: that which the case's inputs name, in their unit.

    Raises ProgramError: as ``values``, or there is no such value.
    """
    found = values(case, seed)
    inputs = case["inputs"]
    if "value" not in inputs:
        raise ProgramError("has no name to choose one of the {} values by".format(len(found)))
    for one in found:
        if one["name"] == inputs["value"]:
            if one["unit"] != inputs["unit"]:
                words = "prints {} in {}, and the other build in {}"
                raise ProgramError(words.format(one["name"], one["unit"] or "no unit", inputs["unit"] or "no unit"))
            if "error" in one:
                raise ProgramError(one["error"])
            return one["value"]
    raise ProgramError("prints no value {}".format(inputs["value"]), "missing")


def _keep(key, found):
    os.write(_SHARED, json.dumps([key, found]).encode("utf-8") + b"\n")


def _known(key):
    """What was kept of a command last; None if it was not run. Of a run that was killed, that it did not end."""
    size, known = os.fstat(_SHARED).st_size, None
    for line in os.pread(_SHARED, size, 0).splitlines():
        of, found = json.loads(line.decode("utf-8"))
        if of == key:
            known = found
    return known


def _found(inputs):
    """The values, or the error, as they are kept."""
    try:
        run = program.Command(inputs).run(keep=True)
        return {"values": printed.values_of(inputs["parse"], run.output, inputs.get("higher_is_better") or ())}
    except (program.RunFailed, printed.Unreadable) as error:
        return {"error": str(error), "kind": error.kind}
