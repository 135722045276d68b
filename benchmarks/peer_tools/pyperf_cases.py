"""The script that pyperf runs in many processes: each case is a benchmark, and each process prepares only one."""

import json
import os
import sys

import pyperf

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import inside

OPERATIONS = {}


def seconds(loops, case_id, side):
    """Return the seconds that ``loops`` calls take, without their preparation."""
    if case_id not in OPERATIONS:
        OPERATIONS[case_id] = inside.Operation(case_id, side)
    return OPERATIONS[case_id].seconds(loops)


def main():
    """Hand all cases of one side to pyperf."""
    with open(os.environ[inside.JOB], encoding="utf-8") as stream:
        requests = json.load(stream)["requests"]
    side = os.environ["OPDUEL_PEERS_SIDE"]
    runner = pyperf.Runner()
    for case_id in requests[side]:
        runner.bench_time_func(case_id, seconds, case_id, side)


if __name__ == "__main__":
    main()
