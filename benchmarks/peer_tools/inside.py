"""One case as another tool's process runs it: the call and the injected work are our worker's own.

Imported by path, inside the build.  This is the one file that knows what harness/worker/main.py holds: ``Session``
(prepare, call, spins), and ``spin`` and ``time_calls`` of timing.py.
"""

import importlib.util
import json
import os

JOB = "OPDUEL_PEERS_JOB"  # the variable that names the file that trial.Trial.write_job writes


def load(path):
    """A module by its path."""
    spec = importlib.util.spec_from_file_location("opduel_worker", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Operation:
    """A case made ready: warmed up, and slowed if the job says so of this side."""

    def __init__(self, case_id, side):
        with open(os.environ[JOB], encoding="utf-8") as stream:
            job = json.load(stream)
        request = dict(job["requests"][side][case_id])
        request.pop("op")
        self.worker = load(job["worker"])
        self.session = self.worker.Session(self.worker.load_adaptor(job["adaptor"]))
        self.session.prepare(**request)

    def function(self):
        """A function of no arguments: one call, then the injected work."""
        call, spin, spins = self.session.call, self.worker.timing.spin, self.session.spins

        def once():
            call()
            spin(spins)

        return once

    def seconds(self, loops):
        """What ``loops`` calls take together."""
        ns_a_call = self.worker.timing.time_calls(self.session.call, 1, loops, self.session.spins)[0]
        return 1e-9 * loops * ns_a_call
