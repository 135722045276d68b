"""Causes in Python code."""

from functools import partial

from benchmarks.injected_causes.cause import Cause, Truth, integers

python = partial(Cause, "Python")


def _in_python(name: str, parts: str = "") -> tuple[Truth, ...]:
    return (Truth(name, 1.0, "Python functions", parts),)


def _importing(module: str, after: str = "import ctypes\n") -> tuple[str, str]:
    return after, f"{after}import {module}\n"


def _clocked(part: str, work: str) -> str:
    """Return the function that clocked.py runs: the slowed part, then the remaining work; both results are dropped."""
    lines = ["start = clock()", part or "part = None", "end = clock()", f"result = {work}", "del part, result"]
    lines.append("return end - start, clock() - start")
    return "def clocked(clock):\n" + "".join(f"    {line}\n" for line in lines)


PYTHON = (
    python(
        "two more calls of numpy.prod",
        "reshape",
        {
            "array": {"call": "numpy.random.rand", "args": [{"value": 24}]},
            "shape": {"call": "builtins.tuple", "args": [{"value": [4, -1]}]},
        },
        [
            (
                "    return array.reshape(",
                "    if np.prod(array.shape) % fixed or np.prod(shape) > array.size:\n"
                '        raise ValueError("not a shape")\n    return array.reshape(',
            )
        ],
        _in_python("prod", parts=r"prod|\.reshape$"),  # the lines that compare, too
    ),
    python(
        "a check of every element in Python",
        "mean",
        integers(1000),
        [
            (
                "    return math.fsum(values) / len(values)\n",
                "    _check_numbers(values)\n    return math.fsum(values) / len(values)\n\n\n"
                "def _check_numbers(values):\n    for value in values:\n        if value != value:\n"
                '            raise ValueError("not a number")\n',
            )
        ],
        _in_python("_check_numbers"),
    ),
    python(
        "a cache that is gone",
        "plan",
        {"sizes": {"value": [30, 210, 1001, 77, 6, 97, 128]}},
        [("@functools.lru_cache(maxsize=64)\n", ""), ("import functools\n", "")],
        _in_python("_factors"),
    ),
    python(
        "a deep copy of the options",
        "pad",
        {"count": {"value": 200}, "widths": {"value": [1, 2]}},
        [
            _importing("copy", "import functools\n"),
            ("dict(_DEFAULTS, **options)", "copy.deepcopy(dict(_DEFAULTS, **options))"),
        ],
        _in_python("deepcopy"),
    ),
    python(
        "a regular expression that is compiled for each call",
        "parse",
        {"text": "a=1, b=2, c=3, d=4"},
        [("_PAIR.findall(text)", 're.compile(r"(\\w+)=(\\w+)").findall(text)')],
        _in_python("compile"),
    ),
    python(
        "an attribute that is computed",
        "Grid.places",
        {"self": {"call": "smallnum.Grid", "args": [{"value": 7}, {"value": 9}]}, "turns": {"value": 300}},
        [
            ("        self.area = rows * columns\n", ""),
            (
                "    def places(self, turns):",
                '    def __getattr__(self, name):\n        if name == "area":\n'
                "            return self.rows * self.columns\n        raise AttributeError(name)\n\n"
                "    def places(self, turns):",
            ),
        ],
        _in_python("__getattr__", parts="__getattr__|listcomp"),
    ),
    python(
        "a message that nobody reads",
        "describe",
        integers(300),
        [
            (
                "    return low, high\n\n\ndef _records",
                "    _message(values)\n    return low, high\n\n\ndef _message(values):\n"
                '    return f"the range of {values!r}"\n\n\ndef _records',
            )
        ],
        _in_python("_message"),
    ),
    python(
        "another layer of generators",
        "rows",
        {"count": {"value": 1000}},
        [
            ("    return sum(_records(range(count)))\n", "    return sum(_counted(_records(range(count))))\n"),
            (
                "def rows(count):",
                "def _counted(records):\n    for record in records:\n        yield record\n\n\ndef rows(count):",
            ),
        ],
        _in_python("_counted"),
    ),
    python(
        "a lock that nobody else wants",
        "increment",
        {"turns": {"value": 500}},
        [
            _importing("threading", "import re\n"),
            ("_PAIR = re", "_LOCK = threading.Lock()\n_PAIR = re"),
            ("        count += 1\n    return count", "        with _LOCK:\n            count += 1\n    return count"),
        ],
        _in_python("increment", parts=r"increment|_thread\.lock"),
    ),
    python(
        "an import within the function",
        "encode",
        integers(10),
        [
            (
                '    return ",".join(map(repr, values))',
                '    from json.encoder import encode_basestring as _\n\n    return ",".join(map(repr, values))',
            )
        ],
        _in_python("encode", parts="encode|_handle_fromlist"),
    ),
    python(
        "a helper that is called twice, in Python",
        "convert",
        integers(500),
        [("[_checked(value) for", "[_checked(_checked(value)) for")],
        _in_python("_checked", parts="_checked|listcomp"),  # the line that calls it, too
    ),
    python(
        "two functions with more turns, 7 to 3",
        "tags",
        {"turns": {"value": 100}},
        [("_weights(5 * turns) + _labels(5 * turns)", "_weights(12 * turns) + _labels(8 * turns)")],
        [Truth("_weights", 0.7, "Python functions"), Truth("_labels", 0.3, "Python functions")],
    ),
    python(
        "a signature that is inspected for each call",
        "bind",
        {"count": {"value": 100}},
        [
            _importing("inspect", "import functools\n"),
            ('    return ["values"] * count', "    return list(inspect.signature(pad).parameters) * count"),
        ],
        _in_python("signature"),
        {
            "control": _clocked("", '["values"] * 100'),
            "treatment": _clocked("part = inspect.signature(pad)", "list(part.parameters) * 100"),
        },
    ),
    python(
        "a copy of the array in Python",
        "gather",
        {"array": {"call": "numpy.random.rand", "args": [{"value": 200000}]}},
        [("    array = np.asarray(array)\n    return array[:", "    array = np.array(array)\n    return array[:")],
        _in_python(r"numpy\.array"),  # and the sum reads it from further away in the caches: ``clocked``
        {
            side: "VALUES = np.random.rand(200000)\n"
            + _clocked(f"part = np.{name}(VALUES)", "part[: part.size // 2].sum()")
            for side, name in (("control", "asarray"), ("treatment", "array"))
        },
    ),
)
