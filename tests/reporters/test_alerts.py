"""What is alarming in a report, and the texts that say so: short, whole and harmless."""

import json
from dataclasses import replace

import pytest
import report_samples as samples

from opduel.records import Cause, Commit, Comparison, Failure, Verdict, Verification
from opduel.reporters.alert_text import LONGEST_BLOCK, MOST_LISTED, headline, plain_text, slack_message, variables
from opduel.reporters.alerts import Alert, alert_of

HOSTILE = "<!channel> <@U1> <http://evil|x> `a` *b* _c_ & @here ```\n\x1b[31m::error::x"


def again(comparison: Comparison, verdict: Verdict | None = "regressed") -> Comparison:
    """The comparison after a second measurement with that verdict."""
    return replace(comparison, verification=Verification("regressed", verdict, ratio=1.081))


SLOWER = again(samples.comparison("nd.dot/forward", "regressed", 1.083, ci=(1.071, 1.094), q_value=0.0004))


def alert(*comparisons: Comparison, unverified: bool = False, **run: object) -> Alert:
    alert_sent = alert_of(samples.report(comparisons, **run), unverified)
    assert alert_sent is not None
    return alert_sent


@pytest.mark.parametrize(
    "comparison",
    [
        samples.comparison("a"),
        samples.comparison("a", "improved", 0.5),
        samples.comparison("a", "not_better", 1.5),
        again(samples.comparison("a", "not_better", 1.5), "not_better"),
        samples.comparison("a", "regressed", 1.5),  # measured once
        samples.comparison("a", "inconclusive", 1.5, held_back="regressed"),
        again(samples.comparison("a", "inconclusive", 1.5), "unchanged"),
        again(samples.comparison("a", "inconclusive", 1.5), None),
        samples.failed("a", Failure("control", "crash", "died")),
        samples.failed("a", Failure("both", "error", "died")),
        samples.failed("a", Failure("treatment", "killed", "from outside")),
    ],
)
def test_no_wolf_is_cried(comparison: Comparison) -> None:
    assert alert_of(samples.report([comparison])) is None


def test_what_is_confirmed_and_what_the_treatment_breaks_is_reported() -> None:
    alert_sent = alert(samples.comparison("fine"), SLOWER, samples.failed("broken"))
    assert (alert_sent.regressed, alert_sent.broken, headline(alert_sent)) == (1, 1, "1 case regressed, 1 fails")
    text = plain_text(alert_sent)
    assert "between mxnet==1.8.0.post0 and mxnet==1.9.1\n" in text
    assert "\n  nd.dot/forward  +8.3 % [+7.1, +9.4]  (again +8.1 %, q 0.0004)\n" in text
    assert "\n  broken  fails: crash: the worker died of SIGSEGV\n" in text
    assert (
        "confirmed: flagged again, in the same direction, by a second measurement on fresh processes; failing on the"
        in text
    )
    assert "fine" not in text


def test_the_cause_of_a_change_is_below_it() -> None:
    why = "2 calls of prod per call, new (a.py:3), account for 90 % [85, 95] of the added time"
    alert_sent = alert(replace(SLOWER, cause=Cause(why)))
    assert f"(again +8.1 %, q 0.0004)\n    cause: {why}\n" in plain_text(alert_sent)
    assert why in json.dumps(slack_message(alert_sent), ensure_ascii=False)


def test_regressions_that_were_measured_once_are_reported_on_demand_and_as_such() -> None:
    text = plain_text(alert(samples.comparison("slow", "regressed", 1.2), unverified=True))
    assert "NOT VERIFIED: 1 measured once only" in text
    assert "confirmed" not in text


def test_a_run_that_is_in_doubt_says_so() -> None:
    alert_sent = alert(
        SLOWER, validity=samples.validity("others were busy"), aborted=True, stop_reason="stopped by SIGTERM"
    )
    text = plain_text(alert_sent)
    assert "the host was disturbed: others were busy; 1 verdict stands" in text
    assert "not completed: stopped by SIGTERM" in text


def test_the_worst_are_reported_and_how_many_more_there_are() -> None:
    slow = [again(samples.comparison(f"case{number:02}", "regressed", 1.1 + number / 100)) for number in range(17)]
    alert_sent = alert(*slow, samples.failed("crashed"))
    assert headline(alert_sent) == "17 cases regressed, 1 fails"
    lines = plain_text(alert_sent).splitlines()
    names = [line.split()[0] for line in lines if line.startswith("  ")]
    assert names == ["crashed", "case16", "case15", "case14", "case13", "and"]
    assert f"  and {18 - MOST_LISTED} more" in lines


def test_of_a_rate_the_lowest_is_the_worst() -> None:
    rates = [
        again(samples.comparison(f"rate{drop}", "regressed", 1 - drop / 100, metric="value", lower_is_better=False))
        for drop in (10, 50, 20)
    ]
    lines = plain_text(alert(*rates)).splitlines()
    assert [line.split()[0] for line in lines if line.startswith("  ")] == ["rate50", "rate20", "rate10"]


def test_a_commit_of_no_year_of_ours_is_reported_all_the_same() -> None:
    commit = Commit("0123456789abcdef0123456789abcdef01234567", 1_718_000_000_000, "Ada <a@example.org>", "In ms")
    report = replace(samples.report([SLOWER]), treatment=replace(samples.TREATMENT, commit=commit))
    alert_sent = alert_of(report)
    assert alert_sent is not None
    assert "0123456789ab  Ada: In ms" in plain_text(alert_sent)


def test_a_slack_message_is_within_the_limits_whatever_things_are_called() -> None:
    slow = [again(samples.comparison("&" * 3000 + str(number), "regressed", 1.5)) for number in range(9)]
    alert_sent = replace(alert(*slow), places=("&" * 9000, "/r/report.json"), doubts=("<" * 5000,))
    message = slack_message(alert_sent)
    texts = [message["text"], *(block["text"]["text"] for block in message["blocks"])]
    assert all(len(text) <= LONGEST_BLOCK for text in texts)
    assert len(message["blocks"]) <= 50
    assert all(text.count("```") in (0, 2) for text in texts)
    json.dumps(message)


def test_texts_from_outside_are_neither_markup_nor_mentions() -> None:
    commit_like = replace(samples.CONTROL, requested=HOSTILE)
    report = replace(samples.report([replace(SLOWER, case=HOSTILE)], spec=HOSTILE), control=commit_like)
    alert_sent = alert_of(report)
    assert alert_sent is not None
    message = slack_message(replace(alert_sent, places=(HOSTILE,)))
    title, *blocks = [block["text"] for block in message["blocks"]]
    assert title["text"] == "*opduel: 1 case regressed*"
    for text in [*(block["text"] for block in blocks), message["text"].removeprefix(f"{title['text']}\n")]:
        assert text.startswith("```")
        assert text.endswith("```")
        inside = text[3:-3]
        assert not set("<>`") & set(inside)
        assert "&lt;!channel&gt;" in inside
        assert "\x1b" not in inside
    assert all(block["text"]["verbatim"] for block in message["blocks"])
    assert not message["unfurl_links"]
    assert "\x1b" not in plain_text(alert_sent)
    assert all(value.isprintable() for value in variables(alert_sent).values())


def test_the_facts_for_a_command() -> None:
    pages = ("https://results.example.org/runs/1",)
    facts = variables(replace(alert(SLOWER), places=("/r/report.json", "/r/culprits.json"), pages=pages))
    assert facts == {
        "OPDUEL_ID": "20240229T101112Z-7f3a",
        "OPDUEL_TITLE": "1 case regressed",
        "OPDUEL_FRAMEWORK": "mxnet",
        "OPDUEL_SPEC": "conv",
        "OPDUEL_BRANCH": "",
        "OPDUEL_CONTROL": "mxnet==1.8.0.post0",
        "OPDUEL_TREATMENT": "mxnet==1.9.1",
        "OPDUEL_REGRESSED": "1",
        "OPDUEL_BROKEN": "0",
        "OPDUEL_SINCE": "between mxnet==1.8.0.post0 and mxnet==1.9.1",
        "OPDUEL_REPORT": "/r/report.json",
        "OPDUEL_PAGE": "https://results.example.org/runs/1",
    }
