"""Parse the values that a program prints: each has a name, a number, a unit and a direction.

Values of the same name, such as repetitions, become their median.  Units of time become nanoseconds.
"""

import json
import math
import re
import statistics

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
# Parts of a Google Benchmark's name that say it is about real time; otherwise it is about processor time.
REAL_TIMES = ("real_time", "manual_time")
AGGREGATE = re.compile(r"_(mean|median|stddev|cv|BigO|RMS)$")  # before version 1.5, which has no run_type


class ProgramError(Exception):
    """A program can't be measured as its case says: one line, and ``kind`` as in records/measurement.py."""

    says_all = True

    def __init__(self, text, kind="error"):
        super().__init__(text)
        self.kind = kind


class Unreadable(ProgramError):
    """The output isn't what its format says."""


class NoNumber(Exception):
    """A value isn't a finite number; the text is one line."""


def values_of(form, text, higher_is_better=()):
    """Return ``[{"name", "value", "unit", "lower_is_better"}, ...]`` of an output, in the order printed.

    A value that is not a finite number, or that the program reports as failed, has ``error`` in place of ``value``.
    ``higher_is_better``: globs over the names of values; they override what the output says.

    Raise Unreadable if the output is cut off, or has no values.
    """
    value_by_name = {}
    for name, value, unit, lower in FORMATS[form](text):
        name = _name(name)
        unit = "" if unit is None else str(unit)[:LONGEST_NAME]
        scale, unit = (NANOSECONDS[unit], "ns") if unit in NANOSECONDS else (1, unit)
        entry = value_by_name.setdefault(name, {"name": name, "unit": unit, "lower_is_better": lower, "values": []})
        try:
            if entry["unit"] != unit:
                raise NoNumber("prints {} in {} and in {}: use one unit".format(name, entry["unit"], unit))
            entry["values"].append(_number(name, value, scale))
        except NoNumber as error:
            entry["error"] = str(error)
        if len(value_by_name) > MOST_VALUES:
            raise Unreadable(f"prints more than {MOST_VALUES} values: print fewer")
    if not value_by_name:
        raise Unreadable(f"prints no value: {EXPECTED[form]}")
    for name, entry in value_by_name.items():
        values = entry.pop("values")
        entry["lower_is_better"] = entry["lower_is_better"] and not _matches(name, higher_is_better)
        if "error" not in entry:
            entry["value"] = statistics.median(values)
    return list(value_by_name.values())


def _google_benchmark(text):
    """Yield each benchmark's time: real_time if its name says so, else cpu_time. Counters are skipped: no direction."""
    begin = text.find("{")
    if begin < 0:
        return
    try:
        document, _ = json.JSONDecoder().raw_decode(text[begin:])
        rows = list(document["benchmarks"])
    except ValueError as error:
        raise Unreadable(f"prints no complete JSON document: {error}") from None
    except (KeyError, TypeError):
        raise Unreadable("prints JSON without benchmarks: {}".format(EXPECTED["google_benchmark"])) from None
    for row in _repetitions(rows):
        name = row.get("run_name") or row.get("name")
        if row.get("error_occurred"):
            message = "reports an error: {}".format(_short(str(row.get("error_message") or "without a message")))
            yield name, NoNumber(message), "ns", True
            continue
        real = any(part in REAL_TIMES for part in str(name).split("/"))
        yield name, row.get("real_time" if real else "cpu_time"), row.get("time_unit", "ns"), True


def _repetitions(rows):
    """Return the rows of single repetitions, or the medians if only aggregates were printed."""
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
    """Yield a value for each line that is an object with a name and a value; skip lines that have neither."""
    for number, line in enumerate(text.splitlines(), 1):
        if not line.lstrip().startswith("{"):
            continue
        entry = _object(line, number)
        if "name" not in entry and "value" not in entry:
            continue
        for field in ("name", "value"):
            if field not in entry:
                raise Unreadable(f"line {number} has no {field}: {_short(line)}")
        lower = entry.get("lower_is_better", True)
        if not isinstance(lower, bool):
            raise Unreadable(f"line {number}: lower_is_better is neither true nor false: {_short(line)}")
        yield entry["name"], entry["value"], entry.get("unit", ""), lower


def _observer(text):
    """Yield the values of AI-PEP's lines, named "type metric" as in its reports.

    A line has an observer's name and an object with type, metric, unit and value, or the older
    ``{type: {metric: {"value", "unit"}}}``.
    """
    for number, line in enumerate(text.splitlines(), 1):
        start = next((line.find(prefix) + len(prefix) for prefix in OBSERVERS if prefix in line), None)
        if start is None:
            continue
        entry = _object(line[start:], number)
        if "type" in entry and "metric" in entry:
            name = "{} {}".format(entry["type"], entry["metric"])
            if "value" in entry:
                yield name, entry["value"], entry.get("unit", ""), True
            elif isinstance(entry.get("summary"), dict) and "p50" in entry["summary"]:
                yield name, entry["summary"]["p50"], entry.get("unit", ""), True
            continue
        for kind, metrics in entry.items():
            for metric, measurement in metrics.items() if isinstance(metrics, dict) else ():
                if isinstance(measurement, dict) and "value" in measurement:
                    yield f"{kind} {metric}", measurement["value"], measurement.get("unit", ""), True


FORMATS = {"google_benchmark": _google_benchmark, "json_lines": _json_lines, "observer": _observer}
EXPECTED = {
    "google_benchmark": "Google Benchmark's JSON is expected, as with --benchmark_format=json",
    "json_lines": 'lines such as {"name": "latency", "value": 1.5, "unit": "ms"} are expected',
    "observer": 'lines such as PyTorchObserver {"type": "NET", "metric": "latency", "unit": "us", "value": 1.5} '
    "are expected",
}


def _object(line, number):
    try:
        content = json.loads(line)
    except ValueError as error:
        raise Unreadable(f"line {number} is not complete JSON ({error}): {_short(line)}") from None
    if not isinstance(content, dict):
        raise Unreadable(f"line {number} is not a JSON object: {_short(line)}")
    return content


def _number(name, value, scale):
    """Return ``scale * value``. Raise NoNumber if that isn't a finite number."""
    if isinstance(value, NoNumber):
        raise value
    try:
        number = float("nan") if isinstance(value, bool) else scale * float(value)
    except (TypeError, ValueError, OverflowError):
        number = float("nan")
    if not math.isfinite(number):
        raise NoNumber(f"prints {_short(json.dumps(value))} for {name}, which is not a finite number")
    return number


def _name(name):
    text = " ".join(str(name).split())
    if not text or len(text) > LONGEST_NAME or not text.isprintable():
        raise Unreadable(f"prints a value without a printable name of 1 to {LONGEST_NAME} characters")
    return text


def _matches(name, globs):
    return any(re.fullmatch(".*".join(map(re.escape, glob.split("*"))), name) for glob in globs)


def _short(text):
    text = " ".join(text.split())
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."
