"""SQL statements as the worker runs them: standard library, Python 3.6 syntax."""

import array
import hashlib
import os
import random
import sqlite3

STATEMENTS = {
    "sql.sort": "SELECT value FROM numbers ORDER BY value",
    "sql.sum": "SELECT sum(value) FROM numbers",
    "sql.group": "SELECT name, sum(value) FROM numbers GROUP BY name ORDER BY name",
}
DEFAULTS = {"direction": "forward", "context": "cpu", "dtype": "float32", "mode": "imperative"}


class MissingOperator(Exception):
    kind = "missing"  # tells the harness that this build has no such operator


def versions():
    """Return the versions that the report shows."""
    return {"sqlite": sqlite3.sqlite_version}


def draw_rows(case, seed):
    """Draw the table's rows from the seed, the case and the name of the argument alone."""
    unknown = sorted(set(case["inputs"]) - {"rows"})
    if unknown:
        raise ValueError("{}: there is no such argument: use rows".format(unknown[0]))
    generator = random.Random("{}|{}|rows".format(seed, case["id"]))
    return [(generator.randrange(100), generator.random()) for _ in range(case["inputs"]["rows"])]


def open_database(case, seed):
    """Return a database with the case's table, and the statement. An exception here is the case's failure."""
    if case["operator"] not in STATEMENTS:
        raise MissingOperator("{} is no statement: use {}".format(case["operator"], ", ".join(sorted(STATEMENTS))))
    for field, default in DEFAULTS.items():
        if case[field] != default:
            raise ValueError("there is no {} {}: use {}".format(field, case[field], default))
    connection = sqlite3.connect(":memory:")
    connection.execute("PRAGMA threads = {}".format(int(os.environ["SQLITE_THREADS"]) - 1))  # helpers that sort
    connection.execute("CREATE TABLE numbers (name INTEGER, value REAL)")
    connection.executemany("INSERT INTO numbers VALUES (?, ?)", draw_rows(case, seed))
    return connection, STATEMENTS[case["operator"]]


def make_call(case, seed):
    """Return a function of no arguments: one call of it is what is timed."""
    connection, statement = open_database(case, seed)
    return lambda: connection.execute(statement).fetchall()


def results(case, seed, folder, limit):
    """Write what the call computes, for the metric error: a file of at most ``limit`` bytes for each column."""
    connection, statement = open_database(case, seed)
    outputs = []
    for number, column in enumerate(zip(*connection.execute(statement))):
        values = array.array("d", column[: max(1, limit // 8)])
        name = "{}.bin".format(number)
        with open(os.path.join(folder, name), "wb") as stream:
            values.tofile(stream)
        outputs.append({"name": "column {}".format(number), "dtype": "<f8", "shape": [len(column)],
                        "storage": "default", "file": name, "count": len(values)})  # fmt: skip
    return outputs


def digest(case, seed):
    """Return a digest of the inputs' values, which must be the same on both sides."""
    return hashlib.sha256(repr(draw_rows(case, seed)).encode("utf-8")).hexdigest()
