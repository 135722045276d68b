"""ONNX Runtime's own profiler: how long each node of a call took.

A session that profiles writes a file of events (https://onnxruntime.ai/docs/performance/tune-performance/profiling-tools.html),
in whole microseconds: one for each node that ran, and one for each run of the model, after its nodes.
"""

import json
import os
import shutil
import tempfile

NODE, RUN = "_kernel_time", "model_run"  # how the events' names end, or are


def profile(call, calls):
    """Profile so many calls, after one more; a list with one entry for each of them.

    An entry: {"operators": {name: [ns, ...]}, one for each node of that operator, "memory": {}}.
    """
    folder = tempfile.mkdtemp(prefix="opduel-ort-")
    try:
        return by_call(events_of(call.prepared, calls + 1, folder)[0], call.prepared.case["operator"])[1:]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def events_of(prepared, calls, folder):
    """``(events, path)`` of so many calls in a session of their own."""
    session = prepared.session(os.path.join(folder, "trace"))
    for _ in range(calls):
        session.run(None, prepared.feeds)
    path = session.end_profiling()
    with open(path) as stream:
        return json.load(stream), path


def by_call(events, operator):
    """The nodes of each run; the case's own operator by the name that the spec has for it."""
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
    """The profiler's own trace (``trace.json``) and a table of it (``table.txt``) of so many calls."""
    events, path = events_of(call.prepared, calls, folder)
    os.rename(path, os.path.join(folder, "trace.json"))
    rows = {}
    for one in by_call(events, call.prepared.case["operator"]):
        for operator, times in one["operators"].items():
            rows.setdefault(operator, []).extend(times)
    with open(os.path.join(folder, "table.txt"), "w") as stream:
        stream.write(
            "{}: {} calls\n{:<40} {:>8} {:>14} {:>12}\n".format(name, calls, "operator", "nodes", "total us", "mean us")
        )
        for operator, times in sorted(rows.items(), key=lambda row: -sum(row[1])):
            total = sum(times) / 1000
            stream.write("{:<40} {:>8} {:>14.1f} {:>12.2f}\n".format(operator, len(times), total, total / len(times)))
