"""JUnit XML for CI systems: one test per case, which fails if the case regressed."""

from decimal import Decimal
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from opduel.records import Comparison, Report
from opduel.records.measurement import SIDES
from opduel.reporters.changes import change_and_interval
from opduel.reporters.formats import Rendered
from opduel.reporters.interchange.cases import build_facts, figure_lines, named_cases, note, one_line, run_facts
from opduel.reporters.run_text import is_number
from opduel.reporters.summary import caveats
from opduel.reporters.units import human_value
from opduel.support.text import counted, printable_lines

_FIGURES = (
    *("verdict", "metric", "unit", "control", "treatment", "ratio", "ci", "difference"),
    *("q_value", "threshold", "mde", "rounds", "held_back", "note"),
)


def to_junit(report: Report) -> Rendered:
    """Return one suite: regressed is a failure, failed an error, inconclusive is skipped, as is what a build skipped,
    and all other verdicts pass."""
    skipped_by_control = sum(comparison.is_absent_from_control for comparison in report.comparisons)
    skipped = len(report.run.skipped) + skipped_by_control + report.count("inconclusive")
    counts = {
        "tests": str(len(report.comparisons) + len(report.run.skipped)),
        "failures": str(report.count("regressed")),
        "errors": str(report.count("failed") - skipped_by_control),
    }
    wall = report.run.wall_s
    if is_number(wall) and wall >= 0:
        counts["time"] = f"{wall:.3f}"  # older schemas of Jenkins take no more; properties have it in full
    spec = one_line(report.run.spec or "opduel")
    root = Element("testsuites", {"name": "opduel", **counts})
    suite = SubElement(root, "testsuite", {"name": spec, **counts, "skipped": str(skipped)})
    if started := report.run.started:
        suite.set("timestamp", one_line(started))
    _properties(suite, report)
    for comparison, name in named_cases(report)[0]:
        _test(suite, comparison, name, spec)
    for skip in report.run.skipped:
        test = SubElement(suite, "testcase", {"name": one_line(skip.case), "classname": spec})
        _say(test, "skipped", "skipped", one_line(skip.reason), "")
    if warnings := caveats(report):
        SubElement(suite, "system-err").text = "\n".join(map(one_line, warnings))
    indent(root, " ")
    return Rendered(f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(root, encoding="unicode")}\n')


def _properties(suite: Element, report: Report) -> None:
    facts = run_facts(report)
    for side in SIDES:
        facts |= {f"{side}.{name}": value for name, value in build_facts(getattr(report, side)).items()}
    properties = SubElement(suite, "properties")
    for name, value in facts.items():
        SubElement(properties, "property", {"name": name, "value": str(value)})


def _test(suite: Element, comparison: Comparison, name: str, spec: str) -> None:
    test = SubElement(suite, "testcase", {"name": name, "classname": f"{spec}.{one_line(comparison.operator)}"})
    figures = figure_lines(comparison, _FIGURES)
    if comparison.unit == "ns" and is_number(comparison.treatment) and comparison.treatment >= 0:
        test.set("time", _seconds(comparison.treatment / 1e9))
    if comparison.verdict == "regressed":
        _say(test, "failure", "regressed", _change(comparison), figures)
    elif comparison.verdict == "inconclusive":
        _say(test, "skipped", "inconclusive", note(comparison) or _change(comparison), "")
    elif comparison.verdict == "failed":
        failure = comparison.failure
        kind = f"{failure.side} {failure.kind}" if failure else "failed"
        reason = failure.reason if failure else comparison.note
        tag = "skipped" if comparison.is_absent_from_control else "error"
        _say(test, tag, one_line(kind), one_line(reason), printable_lines(failure.output_tail if failure else ""))
    SubElement(test, "system-out").text = figures


def _say(test: Element, tag: str, kind: str, message: str, text: str) -> None:
    SubElement(test, tag, {"type": kind, "message": message}).text = text or None


def _change(comparison: Comparison) -> str:
    unit = one_line(comparison.unit)
    change, interval = change_and_interval(comparison, unit)
    control = human_value(comparison.control, unit)
    return f"change {change}, interval {interval}, control {control}, {counted(comparison.rounds, 'round')}"


def _seconds(value: float) -> str:
    """Return seconds unrounded and without an exponent, which readers of JUnit don't know."""
    return format(Decimal(repr(float(value))), "f")
