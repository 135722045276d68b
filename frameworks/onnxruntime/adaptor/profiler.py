"""Measure the time of each node of a call by ONNX Runtime's own profiler.

A session that profiles writes a file of events (https://onnxruntime.ai/docs/performance/tune-performance/profiling-tools.html),
in whole microseconds: one for each node that ran, and one for each run of the model, after its nodes.
"""

import json
import os
import shutil
import tempfile

NODE, RUN = "_kernel_time", "model_run"  # suffix of the names of nodes' events; name of the events of runs


def profile(call, calls):
    """Profile so many calls, after one more; return {"operators": {name: [ns, ...]}, "memory": {}} for each.

    An operator has a time for each of its nodes.
    """
    folder = tempfile.mkdtemp(prefix="opduel-ort-")
    try:
        return by_call(events_of(call.prepared, calls + 1, folder)[0], call.prepared.case["operator"])[1:]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def events_of(prepared, calls, folder):
    """Run so many calls in a session of their own; return ``(events, path)`` of its profile."""
    session = prepared.session(os.path.join(folder, "trace"))
    for _ in range(calls):
        session.run(None, prepared.feeds)
    path = session.end_profiling()
    with open(path) as stream:
        return json.load(stream), path


def by_call(events, operator):
    """Return the profile of each run, with the case's operator under the name in its spec."""
    name = operator.rpartition(".")[2]
    calls, nodes = [], {}
    for event in events:
        if event.get("name", "").endswith(NODE):
            kind = event["args"].get("op_name", event["name"])
            nodes.setdefault(operator if kind == name else kind, []).append(1000 * event["dur"])
        elif event.get("name") == RUN:
            calls.append({"operators": nodes, "memory": {}})
            nodes = {}
    return calls


def write_profile(call, calls, folder, name):
    """Write the profiler's trace of so many calls (``trace.json``) and a table of it (``table.txt``)."""
    events, path = events_of(call.prepared, calls, folder)
    os.rename(path, os.path.join(folder, "trace.json"))
    rows = {}
    for call_profile in by_call(events, call.prepared.case["operator"]):
        for operator, times in call_profile["operators"].items():
            rows.setdefault(operator, []).extend(times)
    with open(os.path.join(folder, "table.txt"), "w") as stream:
        stream.write(
            "{}: {} calls\n{:<40} {:>8} {:>14} {:>12}\n".format(name, calls, "operator", "nodes", "total us", "mean us")
        )
        for operator, times in sorted(rows.items(), key=lambda row: -sum(row[1])):
            total = sum(times) / 1000
            stream.write(f"{operator:<40} {len(times):>8} {total:>14.1f} {total / len(times):>12.2f}\n")
