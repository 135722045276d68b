"""Parse the values that a program prints: each has a name, a number, a unit and a direction.

Values of the same name, such as repetitions, become their median.  Units of time become nanoseconds.  What can't be
read costs its own value alone, and lines that are no values are logs.
"""

import hashlib
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
SKIPPED = "skipped"  # the kind of an error that is the program's own word
MOST_VALUES = 5000
LONGEST_NAME = 200
SHOWN = 60  # characters of a line in a message
OBSERVERS = ("PyTorchObserver ", "Caffe2Observer ")
# Parts of a Google Benchmark's name that say it is about real time; otherwise it is about processor time.
REAL_TIMES = ("real_time", "manual_time")
BEGIN = re.compile(r'^[ \t]*(\{)\s*"', re.M)  # of an object; "{log} started" is none
LINE_END = re.compile(r"\r\n|\r|\n")  # others may stand within JSON


class ProgramError(Exception):
    """A program, or one of its values, can't be measured: one line, and ``kind`` as in records/measurement.py."""

    says_all = True

    def __init__(self, text, kind="error"):
        super().__init__(text)
        self.kind = kind


def values_of(form, text, higher_is_better=()):
    """Return ``[{"name", "value", "unit", "lower_is_better"}, ...]`` of an output, in the order printed.

    A value that is not a finite number, or that the program reports as failed or skipped, has ``error`` and ``kind`` in
    place of ``value``; repetitions that were skipped don't count where others ran.
    ``higher_is_better``: globs over the names of values; they override what the output says.

    Raise ProgramError if Google Benchmark's output is cut off, or there are no values.
    """
    value_by_name = {}
    for name, value, unit, lower in FORMATS[form](text):
        name = _line(name) or "unnamed"
        unit = _line(unit)
        scale, unit = (NANOSECONDS[unit], "ns") if unit in NANOSECONDS else (1, unit)
        entry = value_by_name.setdefault(name, {"name": name, "unit": unit, "lower_is_better": lower, "values": []})
        try:
            if entry["unit"] != unit and not isinstance(value, ProgramError):
                raise ProgramError("prints {} in {} and in {}: use one unit".format(name, entry["unit"], unit))
            entry["values"].append(_number(name, value, scale))
        except ProgramError as error:
            if "error" not in entry or entry["kind"] == SKIPPED:
                entry.update(error=str(error), kind=error.kind)
        if len(value_by_name) > MOST_VALUES:
            raise ProgramError(f"prints more than {MOST_VALUES} values: print fewer")
    if not value_by_name:
        raise ProgramError(f"prints no value: {EXPECTED[form]}")
    for name, entry in value_by_name.items():
        values = entry.pop("values")
        entry["lower_is_better"] = entry["lower_is_better"] and not _matches(name, higher_is_better)
        if values and entry.get("kind") == SKIPPED:
            del entry["error"], entry["kind"]
        if "error" not in entry:
            entry["value"] = statistics.median(values)
    return list(value_by_name.values())


def _google_benchmark(text):
    """Yield each benchmark's time: real_time if its name says so, else cpu_time. Counters are skipped: no direction."""
    for row in _repetitions(_benchmarks(text)):
        name = row.get("run_name") or row.get("name")
        if row.get("error_occurred"):
            message = "reports an error: {}".format(_short(str(row.get("error_message") or "without a message")))
            yield name, ProgramError(message), "ns", True
            continue
        if row.get("skipped"):  # with times of 0
            yield name, ProgramError(_line(row.get("skip_message")) or "skipped", SKIPPED), "ns", True
            continue
        real = any(part in REAL_TIMES for part in str(name).split("/"))
        yield name, row.get("real_time" if real else "cpu_time"), row.get("time_unit", "ns"), True


def _benchmarks(text):
    """Return the rows of the first JSON document that has any, among logs; none if there is no document."""
    problem, end = None, 0
    for begin in BEGIN.finditer(text):
        if begin.start() < end:
            continue
        try:
            document, end = json.JSONDecoder().raw_decode(text, begin.start(1))
            return list(document["benchmarks"])
        except (KeyError, TypeError):
            problem = problem or "JSON without benchmarks: {}".format(EXPECTED["google_benchmark"])
        except (ValueError, RecursionError) as error:
            problem = problem or f"no complete JSON document: {error}"
    if problem:
        raise ProgramError(f"prints {problem}")
    return []


def _repetitions(rows):
    """Return the rows of single repetitions, and the medians of benchmarks of which only aggregates were printed."""
    if not all(isinstance(row, dict) for row in rows):
        raise ProgramError("prints benchmarks that are not objects: {}".format(EXPECTED["google_benchmark"]))
    single = [row for row in rows if row.get("run_type", "iteration") == "iteration"]
    medians = [row for row in rows if row.get("aggregate_name") == "median"]
    names = {row.get("run_name") or row.get("name") for row in single}
    return single + [row for row in medians if (row.get("run_name") or row.get("name")) not in names]


def _json_lines(text):
    """Yield a value for each line that is an object with a name and a value."""
    for number, line in enumerate(LINE_END.split(text), 1):
        try:
            entry = _object(line)
        except ValueError as error:
            yield from _broken(number, line, error, "name")
            continue
        if "name" not in entry or not {"value", "unit", "lower_is_better"} & entry.keys():
            continue
        value, lower = entry.get("value"), entry.get("lower_is_better", True)
        if not isinstance(lower, bool):
            value = ProgramError(f"line {number}: lower_is_better is neither true nor false: {_short(line)}")
        yield entry["name"], value, entry.get("unit"), lower is not False


def _observer(text):
    """Yield the values of AI-PEP's lines, named "type metric" as in its reports.

    A line has an observer's name and an object with type, metric, unit and value, or the older
    ``{type: {metric: {"value", "unit"}}}``.
    """
    for number, line in enumerate(LINE_END.split(text), 1):
        start = next((line.find(prefix) + len(prefix) for prefix in OBSERVERS if prefix in line), None)
        if start is None:
            continue
        try:
            entry = _object(line[start:])
        except ValueError as error:
            yield from _broken(number, line, error, "type", "metric")
            continue
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


def _tflite(text):
    """Yield the mean time of TensorFlow Lite's benchmark_model, of its last "Running benchmark": the first warms up.

    That is a line "count=50 first=... avg=1500 std=2", or "count=1 curr=1500".
    """
    runs = re.findall(r"Running benchmark for.*\n.*count=\d+ (?:curr=([\d.]+)$|.*\bavg=([\d.e+]+))", text, re.MULTILINE)
    for only, mean in runs[-1:]:
        yield "NET latency", only or mean, "us", True


FORMATS = {"google_benchmark": _google_benchmark, "json_lines": _json_lines, "observer": _observer, "tflite": _tflite}
EXPECTED = {
    "google_benchmark": "Google Benchmark's JSON is expected, as with --benchmark_format=json",
    "json_lines": 'lines such as {"name": "latency", "value": 1.5, "unit": "ms"} are expected',
    "observer": 'lines such as PyTorchObserver {"type": "NET", "metric": "latency", "unit": "us", "value": 1.5} '
    "are expected",
    "tflite": "benchmark_model's line such as count=50 ... avg=1500 is expected after its line Running benchmark",
}


def _object(line):
    """Return the object of a line, empty if the line begins none. ValueError: it isn't complete."""
    if not BEGIN.match(line):
        return {}
    try:
        return json.loads(line)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _broken(number, line, error, *fields):
    """Yield the value of a line that isn't complete, if its name can be read."""
    texts = [re.search(rf'"{field}"\s*:\s*"((?:[^"\\]|\\.)*)"', line) for field in fields]
    if all(texts):
        message = f"line {number} is not complete JSON ({error}): {_short(line)}"
        yield " ".join(text[1] for text in texts), ProgramError(message), None, True


def _number(name, value, scale):
    """Return ``scale * value``. Raise ProgramError if that isn't a finite number."""
    if isinstance(value, ProgramError):
        raise value
    try:
        number = float("nan") if isinstance(value, bool) else scale * float(value)
    except (TypeError, ValueError, OverflowError):
        number = float("nan")
    if not math.isfinite(number):
        raise ProgramError(f"prints {_short(json.dumps(value))} for {name}, which is not a finite number")
    return number


def _line(text):
    """Return a name or unit on one printable line; a long one is cut, and ends with a digest of all of it."""
    words = " ".join("" if text is None else str(text).split())
    line = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in words)
    if len(line) <= LONGEST_NAME:
        return line
    return f"{line[: LONGEST_NAME - 9]}-{hashlib.sha256(line.encode()).hexdigest()[:8]}"


def _matches(name, globs):
    return any(re.fullmatch(".*".join(map(re.escape, glob.split("*"))), name) for glob in globs)


def _short(text):
    text = " ".join(text.split())
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."
