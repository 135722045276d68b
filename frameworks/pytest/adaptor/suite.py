"""List a suite's tests that are timed: run by path in the build's interpreter. Python 3.6 syntax.

suite.py discover ROOT FILE ...    prints the tests in these files of the folder ROOT, as JSON
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.pop(0)  # this folder, whose modules would hide the build's
sys.path.append(os.path.join(HERE, "..", "..", "common"))

from opduel_common.scripts import answer, load_adaptor  # noqa: E402 - after the path is set


def discover(root, *paths):
    """Return ``{"modules": [{"module", "benchmarks", "problems"}]}``, or ``error`` if pytest can't collect any."""
    load_adaptor(os.path.dirname(HERE))
    from opduel_adaptor.collection import TimedTests, text_of_error

    try:
        tests = TimedTests.of(root, paths)
    except BaseException as error:
        return {"error": text_of_error(error)}
    problems = ["{}: {}".format(place, why) for place, why in tests.problems.items()]
    return {"modules": [{"module": ".", "benchmarks": describe(tests.items), "problems": tests.notes + problems}]}


def describe(items):
    """Return each test once, with the texts of its sets of parameters."""
    from opduel_adaptor.collection import split_item

    ids = {}
    for item in items:
        name, parameters = split_item(item)
        ids.setdefault(name, {})[parameters] = None
    return [
        {
            "name": name,
            "kind": "test",
            "module": name.partition("::")[0],
            "names": [] if None in texts else ["id"],
            "values": [] if None in texts else [list(texts)],
        }
        for name, texts in ids.items()
    ]


if __name__ == "__main__":
    answer(discover, *sys.argv[2:])
