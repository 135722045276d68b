"""A case inside another tool's process: the call and the injected work are those of opduel's worker.

The module is imported by its path, in the build's interpreter. It is the only one that knows harness/worker/main.py:
``Session`` (prepare, call, spins), and ``spin`` and ``time_calls`` of timing.py.
"""

import importlib.util
import json
import os

JOB = "OPDUEL_PEERS_JOB"  # names the file that trial.Trial.write_job writes


def load(path):
    """Import a module by its path."""
    spec = importlib.util.spec_from_file_location("opduel_worker", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Operation:
    """A prepared and warmed-up case, which is slowed if the job says so of this side."""

    def __init__(self, case_id, side):
        with open(os.environ[JOB], encoding="utf-8") as stream:
            job = json.load(stream)
        request = dict(job["requests"][side][case_id])
        request.pop("op")
        self.worker = load(job["worker"])
        self.session = self.worker.Session(self.worker.load_adaptor(job["adaptor"]))
        self.session.prepare(**request)

    def function(self):
        """Return a function without arguments: one call, then the injected work."""
        call, spin, spins = self.session.call, self.worker.timing.spin, self.session.spins

        def run():
            call()
            spin(spins)

        return run

    def seconds(self, loops):
        """Return the seconds that ``loops`` calls take together."""
        ns_a_call = self.worker.timing.time_calls(self.session.call, 1, loops, self.session.spins)[0]
        return 1e-9 * loops * ns_a_call
