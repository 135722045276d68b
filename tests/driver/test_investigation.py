"""From a benchmark to that caused it, on points whose levels the test knows; and the same after any crash."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from made_runs import MadeHarness, MadePoint, a_commit

from opduel.driver.investigation import Investigation
from opduel.driver.journal import Journal
from opduel.driver.outcome import UNTRUSTED, Outcome, culprits_document
from opduel.driver.revisions import UnbuildableError
from opduel.driver.runs import TRIES, RunOrder, Runs
from opduel.records import Comparison, NoSpaceError, OpduelError, Verdict

WORSE: Sequence[Verdict] = ("regressed", "failed")


def levels(*of_points: float | None) -> Mapping[str, float | None]:
    """One case's time at p0, p1..."""
    return {f"p{number}": level for number, level in enumerate(of_points)}


class Line:
    """An investigation of points, start after start."""

    def __init__(self, path: Path, cases: Mapping[str, Mapping[str, float | None]], broken: Sequence[int] = ()) -> None:
        self.path = path
        self.harness = MadeHarness(cases)
        self.revisions = [MadePoint(number, number in broken) for number in range(len(next(iter(cases.values()))))]

    def follow(
        self, sought: Sequence[Verdict] = WORSE, settings: str = "", again: bool = False, is_awaited: bool = False
    ) -> Outcome:
        """One start, to its end."""
        journal = Journal(self.path)
        try:
            runs = Runs(journal, self.harness, 0.0, lambda _: None, is_awaited=is_awaited)
            investigation = Investigation(self.revisions, runs, journal, settings)
            if again:
                runs.forget(investigation.name)
            return investigation.investigate(sought)
        finally:
            journal.close()

    def measured_steps(self) -> list[tuple[str, str, str, Sequence[str] | None]]:
        """What was measured, in order."""
        return [
            (order.run_type, order.control.requested, order.treatment.requested, order.cases)
            for order in self.harness.orders
        ]


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    return tmp_path / "journal.db"


def named(outcome: Outcome) -> list[tuple[str, tuple[str, ...]]]:
    assert outcome.culprits is not None
    assert all(traced.range.is_named for traced in outcome.culprits)
    return [(traced.revisions[-1].name, tuple(traced.range.cases)) for traced in outcome.culprits]


def test_nothing_flagged_nothing_followed(path: Path) -> None:
    line = Line(path, {"a": levels(1, 1, 1), "b": levels(1, 1.2, 1.01)})
    outcome = line.follow()
    assert (outcome.verification, outcome.confirmed, outcome.culprits) == (None, (), None)
    assert line.measured_steps() == [("benchmark", "p0", "p2", None)]


def test_one_commit_is_named_and_only_its_cases_are_measured_again(path: Path) -> None:
    line = Line(path, {"a": levels(1, 1, 1, 1, 1.3, 1.3), "b": levels(1, 1, 1, 1, 1, 1)})
    outcome = line.follow()
    assert outcome.confirmed == ("a",)
    assert named(outcome) == [("p4", ("a",))]
    assert line.measured_steps()[:2] == [("benchmark", "p0", "p5", None), ("verify", "p0", "p5", ["a"])]
    replicated = [order.replicates and order.replicates.run.id for order in line.harness.orders]
    assert replicated == [None, "1-benchmark-p0..p5", *[None] * (len(replicated) - 2)]
    assert {(kind, tuple(cases or ())) for kind, _, _, cases in line.measured_steps()[2:]} == {("regress", ("a",))}


def test_two_commits_that_slow_two_cases_are_both_named(path: Path) -> None:
    line = Line(path, {"a": levels(1, 1.3, 1.3, 1.3, 1.3), "b": levels(1, 1, 1, 1.5, 1.5)})
    assert named(line.follow()) == [("p1", ("a",)), ("p3", ("b",))]


def test_one_case_slowed_twice_has_two_culprits(path: Path) -> None:
    line = Line(path, {"a": levels(1, 1.3, 1.3, 1.3, 1.3, 1.3, 1.7, 1.7)})
    assert named(line.follow()) == [("p1", ("a",)), ("p6", ("a",))]


def test_a_commit_that_breaks_a_case_is_named(path: Path) -> None:
    line = Line(path, {"a": levels(1, 1, None, None)})
    assert named(line.follow()) == [("p2", ("a",))]


@pytest.mark.parametrize(("kind", "bad"), [("crash", ["p2"]), ("killed", ["p1", "p2", "p3"])])
def test_a_case_that_the_machine_kills_in_a_step_says_nothing_about_the_commit(
    path: Path, kind: str, bad: list[str]
) -> None:
    """The commit that broke the case is p2; only an A/B of p1 and p2 in which the case fails by itself shows that."""
    line = Line(path, {"a": levels(1, 1, None, None)})
    compare = line.harness._compare

    def killed(case: str, order: RunOrder, is_held_back: bool) -> Comparison:
        comparison = compare(case, order, is_held_back)
        if order.run_type == "regress" and comparison.failure is not None:
            return replace(comparison, failure=replace(comparison.failure, kind=kind))
        return comparison

    line.harness._compare = killed  # type: ignore[method-assign]
    (culprit,) = line.follow().culprits or ()
    assert [revision.name for revision in culprit.revisions[1:]] == bad


def test_what_fails_on_both_sides_is_nobody_s_doing(path: Path) -> None:
    line = Line(path, {"a": levels(None, None, None), "b": levels(None, 1, 1)})
    assert line.follow().verification is None


def test_improvements_are_followed_when_they_are_asked_for(path: Path) -> None:
    line = Line(path, {"a": levels(1, 1, 0.6, 0.6)})
    assert line.follow().culprits is None
    assert named(line.follow([*WORSE, "improved"])) == [("p2", ("a",))]
    assert [kind for kind, *_ in line.measured_steps()].count("benchmark") == 1


def test_what_a_second_measurement_does_not_find_is_not_followed(path: Path) -> None:
    line = Line(path, {"a": levels(1, 1, 1.3)})
    measure = line.harness.measure

    def forgetful(order):  # type: ignore[no-untyped-def]
        if order.run_type == "verify":
            line.harness.level = {"a": levels(1, 1, 1)}
        return measure(order)

    line.harness.measure = forgetful  # type: ignore[method-assign]
    outcome = line.follow()
    assert outcome.verification is not None
    assert (outcome.confirmed, outcome.culprits) == ((), None)


def test_a_point_that_cannot_be_built_is_passed_over_and_written_down(path: Path) -> None:
    line = Line(path, {"a": levels(1, 1, 1, 1, 1, 1, 1.3)}, broken=[3])
    assert named(line.follow()) == [("p6", ("a",))]
    journal = Journal(path)
    assert [(kind, text) for _, kind, text in journal.events()] == [
        ("unbuildable", "p3 can't be built: does not compile")
    ]
    journal.close()


@pytest.mark.parametrize(
    "amiss",
    [UnbuildableError("p2", "the package index can't be reached"), NoSpaceError("p2: the disk is full")],
    ids=["network", "disk"],
)
def test_what_is_no_fault_of_a_point_ends_the_search_and_is_not_remembered(path: Path, amiss: OpduelError) -> None:
    line = Line(path, {"a": levels(1, 1, 1.3, 1.3, 1.3)})
    line.revisions[2].amiss = amiss
    outcome = line.follow()
    assert (outcome.confirmed, outcome.culprits) == (("a",), None)
    assert outcome.unfinished == outcome.why_open == f"the search for the culprit ended: {amiss}"
    measured = len(line.measured_steps())
    line.revisions[2].amiss = None
    outcome = line.follow()
    assert named(outcome) == [("p2", ("a",))]
    assert outcome.why_open == ""
    assert [kind for kind, *_ in line.measured_steps()[measured:]] == ["regress"] * (
        len(line.measured_steps()) - measured
    )


@pytest.mark.parametrize(
    ("end", "tries", "why"),
    [
        ("held", TRIES, "verdicts were held back, because the host was disturbed"),
        ("biased", TRIES, "verdicts were held back, because the host was disturbed"),
        ("broken", 1, "not completed: by a signal"),
    ],
)
def test_a_step_that_cannot_be_trusted_ends_the_search_and_is_measured_again(
    path: Path, end: str, tries: int, why: str
) -> None:
    line = Line(path, {"a": levels(1, 1, 1.3, 1.3, 1.3)})
    line.harness.endings = ["", "", *[end] * tries]
    outcome = line.follow()
    assert (outcome.confirmed, outcome.culprits) == (("a",), None)
    error = f"p2 against p0: {why}; this is measured again when the search goes on"
    assert outcome.unfinished == outcome.why_open == f"the search for the culprit ended: {error}"
    steps = [("regress", "p0", "p2", ["a"])] * tries
    assert line.measured_steps()[2:] == steps
    outcome = line.follow()
    assert (named(outcome), outcome.why_open) == ([("p2", ("a",))], "")
    assert line.measured_steps()[2:] == [
        *steps,
        steps[0],
        ("regress", "p0", "p1", ["a"]),
        ("regress", "p1", "p2", ["a"]),
    ]


@pytest.mark.parametrize("sound", [0, 1])
def test_by_a_run_whose_aa_check_found_a_difference_nothing_is_searched(path: Path, sound: int) -> None:
    """Neither by the benchmark nor, after one that was ``sound``, by the verification; the next pass repeats both."""
    line = Line(path, {"a": levels(1, 1, 1.3, 1.3, 1.3)})
    line.harness.endings = [*[""] * sound, *["biased"] * TRIES]
    outcome = line.follow()
    assert (outcome.confirmed, outcome.culprits, outcome.why_open) == ((), None, UNTRUSTED)
    kinds = ["benchmark", *["verify"] * TRIES] if sound else ["benchmark"] * TRIES
    assert [kind for kind, *_ in line.measured_steps()] == kinds
    assert named(line.follow()) == [("p2", ("a",))]


def holding(line: Line, case: str, *steps: tuple[str, str]) -> None:
    """The line's host is so busy that the verdict on the case is held back in these steps, or in all."""
    compare = line.harness._compare

    def held_back(name: str, order: RunOrder, is_held_back: bool) -> Comparison:
        comparison = compare(name, order, is_held_back)
        builds = order.control.requested, order.treatment.requested
        if name != case or order.run_type != "regress" or (steps and builds not in steps) or comparison.failure:
            return comparison
        return replace(comparison, verdict="inconclusive", held_back=comparison.verdict)

    line.harness._compare = held_back  # type: ignore[method-assign]


def known_cases(line: Line) -> list[str]:
    """The cases of which a change is known to later lines."""
    journal = Journal(line.path)
    try:
        return [name.rpartition("/")[2] for name in journal.facts("known/")]
    finally:
        journal.close()


def test_one_case_that_is_held_back_keeps_no_other_from_its_culprit_and_is_not_taken_for_known(path: Path) -> None:
    line = Line(path, {"a": levels(1, 1.01, 1.3, 1.3, 1.3), "b": levels(1, 1, 1, 1.3, 1.3)})
    holding(line, "b")
    outcome = line.follow()
    assert outcome.why_open == ""
    ranges = {tuple(culprit.range.cases): culprit for culprit in outcome.culprits or ()}
    assert [revision.name for revision in ranges["a",].revisions] == ["p1", "p2"]
    assert ranges["b",].range.note.endswith("; runs that would narrow it down could not be trusted: b")
    assert [culprit.range.unsure for culprit in ranges.values()] == [("b",), ()]
    assert known_cases(line) == ["a"]


def test_a_second_change_that_is_held_back_is_not_lost_without_a_word(path: Path) -> None:
    line = Line(path, {"a": levels(1, 1.3, 1.3, 1.7, 1.7), "b": levels(1, 1, 1, 1, 1.3)})
    holding(line, "a", ("p0", "p2"), ("p0", "p1"), ("p1", "p2"))
    (of_a,) = [culprit for culprit in line.follow().culprits or () if "a" in culprit.range.cases]
    assert [revision.name for revision in of_a.revisions] == ["p2", "p3"]
    assert of_a.range.note == (
        "runs that would narrow it down could not be trusted: a; more of the change may lie elsewhere: a"
    )
    assert known_cases(line) == ["b"]


def test_where_the_host_stays_busy_the_range_that_is_known_is_the_answer_in_the_end(path: Path) -> None:
    line = Line(path, {"a": levels(1, 1, 1.3, 1.3, 1.3)})
    holding(line, "a")
    for _ in range(TRIES):
        assert line.follow().unfinished
    outcome = line.follow()
    assert outcome.why_open == ""
    (culprit,) = outcome.culprits or ()
    assert [revision.name for revision in culprit.revisions] == ["p0", "p1", "p2", "p3", "p4"]
    assert culprit.range.unsure == ("a",)
    assert known_cases(line) == []


def test_a_failure_is_sought_whatever_the_host_does(path: Path) -> None:
    line = Line(path, {"a": levels(1, 1, None, None)})
    holding(line, "a")
    assert named(line.follow()) == [("p2", ("a",))]


def test_a_culprit_among_points_that_cannot_be_built_is_a_range(path: Path) -> None:
    line = Line(path, {"a": levels(1, 1, 1, 1.3, 1.3)}, broken=[2])
    outcome = line.follow()
    assert outcome.culprits is not None
    (traced,) = outcome.culprits
    assert not traced.range.is_named
    assert [revision.name for revision in traced.revisions] == ["p1", "p2", "p3"]
    document = culprits_document(outcome, "a line")
    assert document["culprits"][0]["named"] is False
    assert [bad["commit"] for bad in document["culprits"][0]["bad"]] == [a_commit(2).id, a_commit(3).id]


@pytest.mark.parametrize("end", [0, 4])
def test_an_end_that_cannot_be_built_is_an_error(path: Path, end: int) -> None:
    with pytest.raises(UnbuildableError, match=f"p{end} can't be built: does not compile"):
        Line(path, {"a": levels(1, 1, 1, 1, 1)}, broken=[end]).follow()


def test_wherever_it_was_interrupted_it_ends_the_same_and_measures_nothing_twice(tmp_path: Path) -> None:
    cases = {"a": levels(1, 1.3, 1.3, 1.3, 1.3, 1.3, 1.7), "b": levels(1, 1, 1, 1, 1.5, 1.5, 1.5)}
    undisturbed = Line(tmp_path / "undisturbed.db", cases, broken=[3])
    expected = undisturbed.follow()
    runs = len(undisturbed.harness.orders)
    assert runs > 6
    for position in range(runs):
        line = Line(tmp_path / f"{position}.db", cases, broken=[3])
        line.harness.endings = [""] * position + ["interrupted"]
        with pytest.raises(KeyboardInterrupt):
            line.follow()
        outcome = line.follow()
        assert culprits_document(outcome, "") == culprits_document(expected, "")
        assert line.revisions[3].build_count == 1  # what can't be built is not tried again
        assert line.measured_steps()[position] == line.measured_steps()[position + 1]
        assert line.measured_steps()[:position] + line.measured_steps()[position + 1 :] == undisturbed.measured_steps()
        assert len(line.harness.delivered) == runs


def test_what_could_not_be_built_is_tried_again_when_all_is_made_again(path: Path) -> None:
    line = Line(path, {"a": levels(1, 1, 1, 1.3, 1.3)}, broken=[2])
    line.follow()
    line.revisions[2].broken = False
    assert named(line.follow(again=True)) == [("p3", ("a",))]


@pytest.mark.parametrize("damaged", ["1 x", "{", "-1"])
def test_a_damaged_fact_about_cached_builds_is_replaced(path: Path, damaged: str) -> None:
    line = Line(path, {"a": levels(1, 1, 1, 1.3)})
    line.follow()
    journal = Journal(path)
    journal._connection.execute("UPDATE facts SET text = ? WHERE name LIKE '%/cached'", (damaged,))
    journal.close()
    assert named(line.follow()) == [("p3", ("a",))]


def test_evidence_is_the_direct_comparison(path: Path) -> None:
    line = Line(path, {"a": levels(1, 1, 1, 1, 1.3, 1.3)})
    (culprit,) = culprits_document(line.follow(), "")["culprits"]
    (evidence,) = culprit["evidence"]
    assert evidence.endswith("-regress-p3..p4")
    assert evidence in line.harness.delivered


def test_somebody_who_waits_gets_the_cause_of_the_culprit_alone(path: Path) -> None:
    line = Line(path, {"a": levels(1, 1, 1, 1, 1.3, 1.3)})
    assert named(line.follow(is_awaited=True)) == [("p4", ("a",))]
    explained = {
        (order.run_type, order.control.requested, order.treatment.requested): order.explains
        for order in line.harness.orders
    }
    assert explained.pop(("benchmark", "p0", "p5")) is None
    assert explained.pop(("verify", "p0", "p5")) is False
    assert {ends[1:]: explains for ends, explains in explained.items()} == {
        ends: ends in {("p3", "p4"), ("p2", "p3"), ("p4", "p5")} for ends in (ends[1:] for ends in explained)
    }
    assert explained["regress", "p3", "p4"] is True


def test_a_line_of_a_single_commit_has_its_cause_from_the_verification(path: Path) -> None:
    line = Line(path, {"a": levels(1, 1.3)})
    line.follow(is_awaited=True)
    assert [order.explains for order in line.harness.orders] == [None, True]


def test_among_points_that_cannot_be_built_the_ends_are_explained(path: Path) -> None:
    line = Line(path, {"a": levels(1, 1, 1.3, 1.3)}, broken=[1, 2])
    line.follow(is_awaited=True)
    assert line.harness.orders[1].explains is False, "not known yet"


def test_a_benchmark_that_broke_is_not_followed(path: Path) -> None:
    line = Line(path, {"a": levels(1, 1.5)})
    line.harness.endings = ["broken"]
    assert line.follow().verification is None
    assert named(line.follow()) == [("p1", ("a",))]


def test_other_settings_are_other_runs(path: Path) -> None:
    line = Line(path, {"a": levels(1, 1)})
    for settings in ("one", "two", "one"):
        line.follow(settings=settings)
    assert len(line.harness.orders) == 2


def test_the_document_has_the_evidence(path: Path) -> None:
    line = Line(path, {"a": levels(1, 1.5)})
    document = culprits_document(line.follow(), "p0..p1/0")
    (culprit,) = document["culprits"]
    assert document["line"] == "p0..p1/0"
    assert culprit["cases"]["a"]["ratio"] == pytest.approx(1.5)
    assert culprit["cases"]["a"]["ci"] == pytest.approx([1.5 * 0.99, 1.5 * 1.01])
    assert culprit["evidence"] == ["2-verify-p0..p1"]
    (bad,) = culprit["bad"]
    commit = a_commit(1)
    assert bad == {"commit": commit.id, "commit_time": commit.time, "author": commit.author, "subject": commit.subject}
