"""JUnit XML, validated against the schema of Jenkins' xunit plugin (junit-10.xsd, with its licence in it)."""

from pathlib import Path
from xml.etree import ElementTree

import interchange_samples
import report_samples
import xmlschema

from opduel.records import Failure, Report
from opduel.reporters.interchange.junit import to_junit

SCHEMA = xmlschema.XMLSchema(Path(__file__).with_name("junit-10.xsd"))


def suite(report: Report) -> ElementTree.Element:
    """The test suite, of a document that holds to the schema."""
    text = to_junit(report).text
    SCHEMA.validate(text)
    (element,) = ElementTree.fromstring(text.encode("utf-8"))
    return element


def outcomes(suite_element: ElementTree.Element) -> dict[str, str]:
    """What each test came to: passed, or the element that says otherwise."""
    outcome_tags = ("failure", "error", "skipped")
    tests = suite_element.findall("testcase")
    return {
        str(test.get("name")): next((child.tag for child in test if child.tag in outcome_tags), "passed")
        for test in tests
    }


def test_verdicts_are_outcomes() -> None:
    assert outcomes(suite(report_samples.report())) == {
        "steady": "passed",
        "faster": "passed",
        "slower": "failure",
        "unclear": "skipped",
        "broken": "error",
        "much slower": "failure",
        "hardly faster": "passed",
        "hardly larger": "passed",
    }


def test_what_a_build_skipped_by_its_own_word_is_skipped() -> None:
    on_control = report_samples.failed("c", Failure("control", "skipped", "no accelerator"))
    on_treatment = report_samples.failed("t", Failure("treatment", "skipped", "no accelerator"))
    skips = [{"case": "gate.Skipped", "reason": "needs a data set"}]
    element = suite(report_samples.report([on_control, on_treatment], skipped=skips))
    assert outcomes(element) == {"c": "skipped", "t": "error", "gate.Skipped": "skipped"}
    assert [element.get(name) for name in ("tests", "errors", "skipped")] == ["3", "1", "2"]
    messages = [skipped.get("message") for skipped in element.iter("skipped")]
    assert messages == ["no accelerator", "needs a data set"]


def test_counts_are_those_of_the_outcomes() -> None:
    element = suite(interchange_samples.report())
    outcome_list = list(outcomes(element).values())
    assert [element.get(name) for name in ("tests", "failures", "errors", "skipped")] == [
        str(count)
        for count in (
            len(outcome_list),
            outcome_list.count("failure"),
            outcome_list.count("error"),
            outcome_list.count("skipped"),
        )
    ]


def test_what_a_person_sees_of_a_regression_and_of_a_verdict_held_back() -> None:
    element = suite(interchange_samples.report())
    tests = {test.get("name"): test for test in element.findall("testcase")}
    regressed = tests["conv/forward"]
    assert regressed.get("classname") == "conv.nd.Convolution"
    assert float(regressed.get("time", "")) == interchange_samples.CHANGED[0].treatment / 1e9  # type: ignore[operator]
    failure = regressed.find("failure")
    assert failure is not None
    assert failure.get("message") == "change +5.3 %, interval [+4.2, +6.4], control 123 us, 15 rounds"
    assert "ratio: 1.053\n" in str(failure.text)
    skipped = tests["conv/held"].find("skipped")
    assert skipped is not None
    assert skipped.get("message") == interchange_samples.HELD.note
    properties = {comparison.get("name"): comparison.get("value") for comparison in element.iter("property")}
    assert properties["treatment.framework_version"] == "1.9.1"


def test_a_failure_has_its_output_tail_whatever_it_is() -> None:
    words = "\x1b[31mred\x1b[0m <b>&amp;]]>\nlast\x00 line￾"
    crash = report_samples.failed("a", Failure("treatment", "crash", "died of \x07 <SIGSEGV>", words))
    (test,) = suite(report_samples.report([crash])).findall("testcase")
    error = test.find("error")
    assert error is not None
    assert (error.get("type"), error.get("message")) == ("treatment crash", "died of \\x07 <SIGSEGV>")
    assert error.text == "\\x1b[31mred\\x1b[0m <b>&amp;]]>\nlast\\x00 line\\ufffe"


def test_a_run_that_is_not_to_be_trusted_or_not_complete_says_so() -> None:
    report = interchange_samples.report(
        validity=report_samples.validity("others were busy"), complete=False, stop_reason="the time was up"
    )
    words = suite(report).findtext("system-err", "")
    assert "others were busy" in words
    assert "not complete: the time was up" in words


def test_times_have_no_exponent_and_odd_ones_are_left_out() -> None:
    brief = [
        interchange_samples.report_samples.comparison(name, treatment=value)
        for name, value in (("a", 1.5e-3), ("b", -1.0), ("c", 1e30))
    ]
    element = suite(interchange_samples.report(*brief, wall_s=float("nan")))
    assert [test.get("time") for test in element.findall("testcase")] == ["0.0000000000015", None, "1" + "0" * 21]
    assert element.get("time") is None


def test_the_runs_seconds_are_as_older_schemas_take_them() -> None:
    element = suite(interchange_samples.report(wall_s=3911.313339735003))
    assert element.get("time") == "3911.313"
    (full_value,) = (
        comparison.get("value") for comparison in element.iter("property") if comparison.get("name") == "wall_s"
    )
    assert full_value == "3911.313339735003"


def test_an_empty_report_is_an_empty_suite() -> None:
    assert suite(interchange_samples.report_samples.report([])).get("tests") == "0"
