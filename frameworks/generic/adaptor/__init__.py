"""The adaptor of programs: a call is one run of the program, from its start to its end.

It runs in opduel's own Python. A program runs for its values once in each worker, however many cases its values are:
the children that the worker forks share a file in memory.
"""

import fcntl
import json
import os
import platform

from . import printed, program
from .printed import ProgramError

CPU_RUNS = 3  # at most so many runs measure processor time, until they took CPU_NS together
CPU_NS = 300 * 1000 * 1000
_SHARED = os.memfd_create("opduel-values")  # lines of JSON: a command and the outcome of its run in this worker


def key_line(text):
    """Return the line of an error's text that tells most: these messages begin with it."""
    return text.splitlines()[0].strip()


def versions():
    """Return the version of the Python that starts the programs, which the controller gets once the worker is ready."""
    return {"framework": platform.python_version()}


def make_call(case, seed):
    """Return a function that runs the case's program once and raises ProgramError if that fails.

    Raise ProgramError if a program has no such case.
    """
    if case["direction"] not in ("", "forward"):
        raise ProgramError("a program has no {} direction: leave it out".format(case["direction"]))
    if case["context"] not in ("", "cpu"):
        raise ProgramError("a program has no context {}: leave it out".format(case["context"]))
    command = program.Command(case)

    def call():
        command.run()

    if command.has_surroundings:
        call.sample = lambda: command.run().wall_ns
    call.own_process = True  # runs don't affect each other, so none is dropped as warm-up
    return call


def cpu_time(case, seed):
    """Return the processor time of a run in ns, user and system, with that of processes it waited for: a median."""
    command = program.Command(case)
    times = []
    while len(times) < CPU_RUNS and sum(times) < CPU_NS:
        times.append(command.run().cpu_ns)
    return sorted(times)[len(times) // 2]


def resident(case):
    """Return the peak of memory in one run, without pages of files, in bytes."""
    return program.Command(case).run(peak=True).peak_bytes


def values(case, seed):
    """Return the values that the program prints, as ``printed.values_of`` does.

    Raise ProgramError if it can't be run, or its output can't be read.
    """
    inputs = case["inputs"]
    settings = {name: setting for name, setting in inputs.items() if name not in ("value", "unit")}
    key = json.dumps([settings, case["files"]])
    fcntl.lockf(_SHARED, fcntl.LOCK_EX)  # one child at a time; its end releases the lock in any case
    try:
        outcome = _last_outcome(key)
        if outcome is None:
            _keep(key, {"error": "its run for another of its values did not end", "kind": "timeout"})
            try:
                output = program.Command(case).run(keep=True).output
                higher_is_better = inputs.get("higher_is_better") or ()
                outcome = {"values": printed.values_of(inputs["parse"], output, higher_is_better)}
            except Exception as error:
                outcome = {"error": str(error), "kind": getattr(error, "kind", "error")}
            _keep(key, outcome)
    finally:
        fcntl.lockf(_SHARED, fcntl.LOCK_UN)
    if "error" in outcome:
        raise ProgramError(outcome["error"], outcome["kind"])
    return outcome["values"]


def value(case, seed):
    """Return the one of the ``values`` that the case's inputs name, in their unit.

    Raise ProgramError as ``values`` does, or if there is no such value.
    """
    value_by_name = {program_value["name"]: program_value for program_value in values(case, seed)}
    if "value" not in case["inputs"]:
        raise ProgramError(f"has no name to choose one of the {len(value_by_name)} values by")
    name, unit = case["inputs"]["value"], case["inputs"]["unit"]
    if name not in value_by_name:
        raise ProgramError(f"prints no value {name}", "missing")
    program_value = value_by_name[name]
    if "error" in program_value:
        raise ProgramError(program_value["error"], program_value["kind"])
    if program_value["unit"] != unit:
        own_unit, other_unit = program_value["unit"] or "no unit", unit or "no unit"
        raise ProgramError(f"prints {name} in {own_unit}, and the other build in {other_unit}")
    return program_value["value"]


def _keep(key, outcome):
    os.write(_SHARED, json.dumps([key, outcome]).encode("utf-8") + b"\n")


def _last_outcome(key):
    """Return the last outcome stored for a command, or None if it was not run yet."""
    size, outcome = os.fstat(_SHARED).st_size, None
    for line in os.pread(_SHARED, size, 0).splitlines():
        line_key, line_outcome = json.loads(line.decode("utf-8"))
        if line_key == key:
            outcome = line_outcome
    return outcome
