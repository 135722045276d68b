"""What chooses benchmarks of a suite: their exact names, regular expressions, and expressions for pytest's -k."""

import re
from collections.abc import Iterable, Iterator, Sequence

from opduel.driver.suites.discovery import SuiteCase
from opduel.records import METRICS, UsageError, case_id_for
from opduel.support.text import nearest

# With parameters, which may be no regular expression.
_LIKE_A_NAME = re.compile(r"[\w.]+\(.*\)(/\w+)?|[\w./:-]+\[.*\](/\w+)?", re.DOTALL)


def check_patterns(option: str, patterns: Iterable[str]) -> None:
    """Raise UsageError for what is no regular expression and can be no name."""
    for pattern in patterns:
        error = _error_in(pattern)
        if error and not _LIKE_A_NAME.fullmatch(pattern):
            raise UsageError(f"{option} {pattern}: is not a regular expression ({error}): correct it")


def named_by(pattern: str, cases: Sequence[SuiteCase]) -> set[str]:
    """Return the names of the cases that a pattern is the name of, with parameters or without; of those that it matches
    as a regular expression, if it is none's; else of the tests that it matches as an expression for pytest's -k."""
    exact = {case.name for case in cases if pattern in _names(case)}
    if exact or _error_in(pattern):
        return exact
    matched = {case.name for case in cases if re.search(pattern, case.name)}
    return matched or {case.name for case in cases if case.benchmark.kind == "test" and _has_keywords(case, pattern)}


def unmatched(words: str, patterns: Sequence[str], cases: Sequence[SuiteCase]) -> UsageError:
    """Return the error for patterns, given by the options ``words``, that choose none of the cases."""
    parts = {part for case in cases for part in re.split(r"\.|::", case.benchmark.name)}
    error = next(filter(None, map(_error_in, patterns)), None)
    how = f", and is not a regular expression ({error})" if error else " or as a regular expression"
    hint = nearest(patterns[0], [*(case.name for case in cases), *sorted(parts)])
    return UsageError(f"{words}: matches no benchmark of the suite by its name{how}: {hint}")


def _names(case: SuiteCase) -> set[str]:
    """Return what a case is called: by asv or pytest with its parameters, by its benchmark, and by reports for each
    metric; of a test also its file and class, and the end of its name."""
    names = {case.name, case.benchmark.name, *(case_id_for(metric, case.name) for metric in METRICS)}
    return names | set(_parts_of_test(case)) if case.benchmark.kind == "test" else names


def _parts_of_test(case: SuiteCase) -> Iterator[str]:
    base = case.benchmark.name
    levels, parameters = base.split("::"), case.name[len(base) :]
    for number in range(1, len(levels)):
        yield "::".join(levels[:number])
        end = "::".join(levels[number:])
        yield from (end, end + parameters)


def _has_keywords(case: SuiteCase, expression: str) -> bool:
    """Tell whether a test's name has the words of an expression with ``and``, ``or``, ``not`` and brackets."""
    words = re.findall(r"[()]|[^\s()]+", expression)
    name, operators = case.name.lower(), ("and", "or", "not", "(", ")")
    terms = [word if word in operators else str(word.lower() in name) for word in words]
    try:
        return bool(eval(" ".join(terms), {"__builtins__": {}}))  # of these words, True and False alone
    except (SyntaxError, TypeError, RecursionError, MemoryError):
        return False


def _error_in(pattern: str) -> str | None:
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        return str(error)
    return None
