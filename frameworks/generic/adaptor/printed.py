"""The values that a program prints, in the formats that are known: each a name, a number, its unit and its direction.

Of several values of one name, such as those of repetitions, the median is taken.  Units of time become nanoseconds.
"""

import json
import math
import re

NANOSECONDS = {
    **dict.fromkeys(("ns", "nsec", "nanosecond", "nanoseconds"), 1.0),
    **dict.fromkeys(("us", "usec", "µs", "microsecond", "microseconds"), 1e3),
    **dict.fromkeys(("ms", "msec", "millisecond", "milliseconds"), 1e6),
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1e9),
}
MOST_VALUES = 5000
LONGEST_NAME = 200
SHOWN = 60  # characters of a line in a message
OBSERVERS = ("PyTorchObserver ", "Caffe2Observer ")
# How Google Benchmark says which of its two times a benchmark is about: the other is the processor's.
REAL_TIMES = ("real_time", "manual_time")
AGGREGATE = re.compile(r"_(mean|median|stddev|cv|BigO|RMS)$")  # before version 1.5, which has no run_type


class Unreadable(Exception):
    """The output isn't what its format says; the text is one line."""

    kind = "error"


class NoNumber(Exception):
    """Why one of the values is none; the text is one line."""


def values_of(form, text, higher_is_better=()):
    """``[{"name", "value", "unit", "lower_is_better"}, ...]`` of an output, in the order printed; of a value that is no
    finite number, or that the program says has failed, ``error`` in place of ``value``.

    ``higher_is_better``: globs over the names of values for which that holds, whatever the output says.

    Raises Unreadable: it is cut off, or has no values.
    """
    found = {}
    for name, value, unit, lower in FORMATS[form](text):
        name = _name(name)
        unit = "" if unit is None else str(unit)[:LONGEST_NAME]
        scale, unit = (NANOSECONDS[unit], "ns") if unit in NANOSECONDS else (1, unit)
        one = found.setdefault(name, {"name": name, "unit": unit, "lower_is_better": lower, "values": []})
        try:
            if one["unit"] != unit:
                raise NoNumber("prints {} in {} and in {}: use one unit".format(name, one["unit"], unit))
            one["values"].append(_number(name, value, scale))
        except NoNumber as error:
            one["error"] = str(error)
        if len(found) > MOST_VALUES:
            raise Unreadable("prints more than {} values: print fewer".format(MOST_VALUES))
    if not found:
        raise Unreadable("prints no value: {}".format(EXPECTED[form]))
    for name, one in found.items():
        values = one.pop("values")
        one["lower_is_better"] = one["lower_is_better"] and not _matches(name, higher_is_better)
        if "error" not in one:
            one["value"] = _median(values)
    return list(found.values())


def _google_benchmark(text):
    """A benchmark's own time: real_time where its name says so, else cpu_time. Counters have no direction: left out."""
    begin = text.find("{")
    if begin < 0:
        return
    try:
        document, _ = json.JSONDecoder().raw_decode(text[begin:])
        rows = list(document["benchmarks"])
    except ValueError as error:
        raise Unreadable("prints no complete JSON document: {}".format(error)) from None
    except (KeyError, TypeError):
        raise Unreadable("prints JSON without benchmarks: {}".format(EXPECTED["google_benchmark"])) from None
    for row in _chosen(rows):
        name = row.get("run_name") or row.get("name")
        if row.get("error_occurred"):
            said = "reports an error: {}".format(_short(str(row.get("error_message") or "without a message")))
            yield name, NoNumber(said), "ns", True
            continue
        real = any(part in REAL_TIMES for part in str(name).split("/"))
        yield name, row.get("real_time" if real else "cpu_time"), row.get("time_unit", "ns"), True


def _chosen(rows):
    """The rows of single repetitions; where only aggregates are printed, the medians."""
    if not all(isinstance(row, dict) for row in rows):
        raise Unreadable("prints benchmarks that are not objects: {}".format(EXPECTED["google_benchmark"]))
    single = [row for row in rows if row.get("run_type", "iteration") == "iteration"]
    if any("run_type" in row for row in rows):
        return single or [row for row in rows if row.get("aggregate_name") == "median"]
    plain = [row for row in single if not AGGREGATE.search(str(row.get("name")))]
    return plain or [
        dict(row, run_name=row["name"][: -len("_median")]) for row in single if str(row.get("name")).endswith("_median")
    ]


def _json_lines(text):
    """Lines that are objects with a name and a value; other lines, and objects with neither, are left alone."""
    for number, line in enumerate(text.splitlines(), 1):
        if not line.lstrip().startswith("{"):
            continue
        one = _object(line, number)
        if "name" not in one and "value" not in one:
            continue
        for field in ("name", "value"):
            if field not in one:
                raise Unreadable("line {} has no {}: {}".format(number, field, _short(line)))
        lower = one.get("lower_is_better", True)
        if not isinstance(lower, bool):
            raise Unreadable("line {}: lower_is_better is neither true nor false: {}".format(number, _short(line)))
        yield one["name"], one["value"], one.get("unit", ""), lower


def _observer(text):
    """AI-PEP's lines: an observer's name, and an object with type, metric, unit and value, or the older
    ``{type: {metric: {"value", "unit"}}}``. Names are "type metric", as in its reports."""
    for number, line in enumerate(text.splitlines(), 1):
        start = next((line.find(one) + len(one) for one in OBSERVERS if one in line), None)
        if start is None:
            continue
        one = _object(line[start:], number)
        if "type" in one and "metric" in one:
            name = "{} {}".format(one["type"], one["metric"])
            if "value" in one:
                yield name, one["value"], one.get("unit", ""), True
            elif isinstance(one.get("summary"), dict) and "p50" in one["summary"]:
                yield name, one["summary"]["p50"], one.get("unit", ""), True
            continue
        for kind, metrics in one.items():
            for metric, said in metrics.items() if isinstance(metrics, dict) else ():
                if isinstance(said, dict) and "value" in said:
                    yield "{} {}".format(kind, metric), said["value"], said.get("unit", ""), True


FORMATS = {"google_benchmark": _google_benchmark, "json_lines": _json_lines, "observer": _observer}
EXPECTED = {
    "google_benchmark": "Google Benchmark's JSON is expected, as with --benchmark_format=json",
    "json_lines": 'lines such as {"name": "latency", "value": 1.5, "unit": "ms"} are expected',
    "observer": 'lines such as PyTorchObserver {"type": "NET", "metric": "latency", "unit": "us", "value": 1.5} '
    "are expected",
}


def _object(line, number):
    try:
        one = json.loads(line)
    except ValueError as error:
        raise Unreadable("line {} is not complete JSON ({}): {}".format(number, error, _short(line))) from None
    if not isinstance(one, dict):
        raise Unreadable("line {} is not a JSON object: {}".format(number, _short(line)))
    return one


def _number(name, value, scale):
    """The value in the unit that it is kept in, ``scale`` of them in one of its own. Raises NoNumber."""
    if isinstance(value, NoNumber):
        raise value
    try:
        number = float("nan") if isinstance(value, bool) else scale * float(value)
    except (TypeError, ValueError, OverflowError):
        number = float("nan")
    if not math.isfinite(number):
        raise NoNumber("prints {} for {}, which is not a finite number".format(_short(json.dumps(value)), name))
    return number


def _name(name):
    text = " ".join(str(name).split())
    if not text or len(text) > LONGEST_NAME or not text.isprintable():
        raise Unreadable("prints a value without a printable name of 1 to {} characters".format(LONGEST_NAME))
    return text


def _matches(name, globs):
    return any(re.fullmatch(".*".join(map(re.escape, one.split("*"))), name) for one in globs)


def _median(values):
    values = sorted(values)
    middle = len(values) // 2
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2


def _short(text):
    text = " ".join(text.split())
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."
