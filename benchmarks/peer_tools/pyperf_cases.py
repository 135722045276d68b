"""The script that pyperf runs, many times over: every case is a benchmark, each of its processes prepares but one."""

import json
import os
import sys

import pyperf

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import inside

READY = {}


def timed(loops, case_id, side):
    """Seconds that ``loops`` calls take; what comes before the first of them is not timed."""
    if case_id not in READY:
        READY[case_id] = inside.Operation(case_id, side)
    return READY[case_id].seconds(loops)


def main():
    """Hand all cases of one side to pyperf."""
    with open(os.environ[inside.JOB], encoding="utf-8") as stream:
        requests = json.load(stream)["requests"]
    side = os.environ["OPDUEL_PEERS_SIDE"]
    runner = pyperf.Runner()
    for case_id in requests[side]:
        runner.bench_time_func(case_id, timed, case_id, side)


if __name__ == "__main__":
    main()
