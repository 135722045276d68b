"""The loop over commits: what goes wrong with one holds up no other, and time is the journal's alone."""

import errno
import re
import threading
from contextlib import suppress
from dataclasses import replace

import pytest
from made_runs import a_commit
from made_watch import HOUR_S, Loop

from opduel.driver.journal import FIRST_RETRY_S
from opduel.driver.runs import BUDGETS, TRIES
from opduel.driver.suites.source import SuiteChangedError
from opduel.driver.watch import Tally, WatchSettings
from opduel.records import NoSpaceError, RunError


def test_the_newest_commit_is_measured_and_written_down(loop: Loop) -> None:
    tally = loop.watch().once()
    assert [commit.subject for commit, _ in tally.outcomes] == loop.ear.treatments == ["Change 3"]
    assert loop.dealt_with() == "Change 3"
    assert loop.watch().once().outcomes == []


def test_all_commits_since_the_last_one_are_measured_in_order(loop: Loop) -> None:
    loop.last.write_text(a_commit(1).id + "\n")
    loop.watch().once()
    assert loop.ear.treatments == ["Change 2", "Change 3"]


def test_one_that_cannot_be_built_holds_up_no_other_and_is_retried_when_due(loop: Loop) -> None:
    loop.last.write_text(a_commit(1).id)
    loop.builder.failing[2] = RunError("does not compile")
    tally = loop.watch().once()
    assert [commit.subject for commit, _ in tally.outcomes] == ["Change 3"]
    assert tally.failures == [f"{a_commit(2).short} can't be built: does not compile"]
    assert loop.dealt_with() == "Change 3"
    assert "to be tried again after 2027-01-15 09:00 UTC" in loop.events("unbuildable")[0]

    loop.now += HOUR_S - 1
    assert loop.watch().once() == Tally()
    loop.now += 1
    assert len(loop.watch().once().failures) == 1
    loop.now += HOUR_S
    assert loop.watch().once() == Tally()  # two hours now

    del loop.builder.failing[2]
    loop.now += HOUR_S
    assert [commit.subject for commit, _ in loop.watch().once().outcomes] == ["Change 2"]
    assert loop.journal.troubled() == {}
    assert loop.dealt_with() == "Change 3"


def test_one_that_is_not_settled_keeps_the_commit_file_before_it_and_is_measured_on_by_the_next_pass(
    loop: Loop,
) -> None:
    loop.last.write_text(a_commit(1).id)
    loop.harness.endings = ["open"]
    tally = loop.watch().once()
    assert loop.ear.treatments == ["Change 2", "Change 3"], "it holds up no other"
    assert [commit.subject for commit, _ in tally.outcomes] == ["Change 2", "Change 3"]
    assert tally.failures[0].startswith(f"{a_commit(2).short}: case looked changed when the time budget ended")
    assert loop.dealt_with() == "Change 1"
    assert len(loop.events("not settled")) == 1

    loop.repository.line.append(a_commit(4))
    again = loop.watch().once()
    assert loop.ear.treatments[2:] == ["Change 2", "Change 3", "Change 4"]
    assert [order.budgets for order in loop.harness.orders] == [1, 1, 2, 1]
    assert again.failures == []
    assert loop.dealt_with() == "Change 4"
    assert loop.watch().once() == Tally()


def test_one_that_stays_open_is_left_at_that_after_some_passes(loop: Loop) -> None:
    loop.harness.endings = ["open"] * 10
    tallies = loop.passes(BUDGETS + 2)
    assert [len(tally.failures) for tally in tallies] == [1] * (BUDGETS - 1) + [0] * 3
    assert [order.budgets for order in loop.harness.orders] == list(range(1, BUDGETS + 1))
    assert loop.dealt_with() == "Change 3"


def test_one_that_fails_behind_one_that_is_open_is_retried_when_due(loop: Loop) -> None:
    loop.last.write_text(a_commit(1).id)
    loop.harness.endings = ["open", "", "open"]
    loop.builder.failing[3] = RunError("does not compile")
    assert len(loop.watch().once().failures) == 2
    del loop.builder.failing[3]
    loop.harness.endings = ["open"]
    assert len(loop.watch().once().failures) == 1
    assert loop.ear.treatments == ["Change 2", "Change 3", "Change 2"], "not due yet"
    loop.now += HOUR_S
    loop.watch().once()
    assert loop.ear.treatments[3:] == ["Change 2", "Change 3"]
    assert loop.dealt_with() == "Change 3"


def test_one_that_is_not_due_is_passed_over_when_it_goes_on_for_ever(loop: Loop) -> None:
    loop.builder.failing[3] = RunError("does not compile")
    tallies = loop.passes(3)
    assert [number for number, _ in loop.builder.built].count(3) == 1
    assert [len(tally.failures) for tally in tallies] == [1, 0, 0]
    assert loop.ear.looked == 3


@pytest.mark.parametrize("commit_file", [True, False])
def test_going_on_for_ever_a_commit_is_reported_once(loop: Loop, commit_file: bool) -> None:
    def between(number: int) -> None:
        if number == 2:
            loop.repository.line += [a_commit(4), a_commit(5)]

    settings = {} if commit_file else {"commit_file": None}
    tallies = loop.passes(4, between, **settings)
    assert [len(tally.outcomes) for tally in tallies] == [1, 0, 2, 0]
    assert loop.ear.treatments == ["Change 3", "Change 4", "Change 5"]
    assert loop.last.exists() == commit_file


def test_a_trouble_of_a_commit_that_is_gone_is_passed_over(loop: Loop) -> None:
    digest = WatchSettings(loop.folder).digest
    loop.journal.record_trouble(f"{'f' * 40}/{digest}", "gone with a force-push")
    loop.now += FIRST_RETRY_S
    assert [commit.subject for commit, _ in loop.watch().once().outcomes] == ["Change 3"]


def test_a_run_that_broke_is_retried(loop: Loop) -> None:
    loop.harness.endings = ["broken"]
    tally = loop.watch().once()
    assert tally.failures == [f"{a_commit(3).short}: not completed: by a signal"]
    assert [item.partition("/")[0] for item in loop.journal.troubled()] == [a_commit(3).id]
    loop.now += HOUR_S
    assert loop.watch().once().failures == []
    assert loop.journal.troubled() == {}


def test_a_run_whose_verdicts_were_held_back_is_repeated_when_due(loop: Loop) -> None:
    loop.harness.endings = ["held"] * TRIES
    tally = loop.watch().once()
    assert tally.failures == [f"{a_commit(3).short}: verdicts were held back, because the host was disturbed"]
    assert loop.events("not settled")[0].startswith(tally.failures[0])
    loop.now += HOUR_S
    tally = loop.watch().once()
    assert tally.failures == []
    assert [comparison.held_back for _, outcome in tally.outcomes for comparison in outcome.benchmark.comparisons] == [
        None
    ]
    assert len(loop.harness.orders) == len(loop.harness.delivered) == TRIES + 1
    assert loop.journal.troubled() == {}


def test_a_signal_ends_it_and_the_commit_is_not_dealt_with(loop: Loop) -> None:
    loop.harness.endings = ["interrupted"]
    with pytest.raises(KeyboardInterrupt):
        loop.watch().once()
    assert not loop.last.exists()
    assert loop.journal.troubled() == {}


def test_for_ever_takes_what_lands_and_survives_whatever_a_pass_ends_in(loop: Loop) -> None:
    def between(number: int) -> None:
        loop.repository.is_gone = number == 1  # for the second pass
        if number == 2:
            loop.repository.line.append(a_commit(4))
            loop.builder.failing[4] = NoSpaceError("the disk is full")
        if number == 3:
            del loop.builder.failing[4]
            loop.now += HOUR_S

    tallies = loop.passes(4, between)
    assert [commit.subject for tally in tallies for commit, _ in tally.outcomes] == ["Change 3", "Change 4"]
    assert [len(tally.failures) for tally in tallies] == [0, 1, 1, 0]
    assert len(loop.events("remote gone")) == 1
    assert "the disk is full" in loop.events("failed")[0]


def test_a_remote_that_is_gone_before_anything_was_fetched_ends_it(loop: Loop) -> None:
    """There are no commits at hand to go on with, and no branch is to blame."""
    loop.repository.is_gone = True
    loop.repository.line.clear()
    with pytest.raises(RunError, match="failed 3 times"):
        loop.watch().once()
    assert loop.events("remote gone") == []


FULL = OSError(errno.ENOSPC, "No space left on device", "/work/git.lock")
FREE_SOME = "/work/git.lock: No space left on device: free some space, or give another folder with --work_dir"


@pytest.mark.parametrize(("error", "text"), [(RunError("git is broken"), "git is broken"), (FULL, FREE_SOME)])
def test_a_pass_that_fails_as_a_whole_is_recorded(loop: Loop, error: Exception, text: str) -> None:
    def fail(number: int) -> None:
        loop.repository.on_fetch = fails if number == 1 else lambda: None

    def fails() -> None:
        raise error

    assert [tally.failures for tally in loop.passes(3, fail)] == [[], [text], []]
    assert loop.events("pass failed") == [text]


def test_a_commit_that_a_full_disk_stops_is_tried_again_by_the_next_pass(loop: Loop) -> None:
    def free(number: int) -> None:
        loop.builder.failing.clear()

    loop.builder.failing[3] = FULL
    tallies = loop.passes(2, free)
    assert [tally.failures for tally in tallies] == [[FREE_SOME], []]
    assert loop.events("failed") == [f"{FREE_SOME}; the next pass tries again"]
    assert [commit.subject for commit, _ in tallies[1].outcomes] == ["Change 3"]


def test_of_a_commit_that_somebody_waits_for_no_pass_is_promised(loop: Loop) -> None:
    loop.builder.failing[2] = loop.builder.failing[3] = RunError("does not compile")
    loop.last.write_text(a_commit(1).id)
    loop.watch(retries=False).once()
    assert {text.partition("; ")[2] for text in loop.events("unbuildable")} == {"repeat the command to try again"}


def test_a_disk_without_space_ends_a_single_pass(loop: Loop) -> None:
    loop.builder.failing[3] = NoSpaceError("the disk is full")
    with pytest.raises(NoSpaceError):
        loop.watch().once()
    assert not loop.last.exists()


def test_a_disk_without_space_for_one_of_several_leaves_the_others_their_turn(loop: Loop) -> None:
    loop.last.write_text(a_commit(1).id)
    loop.builder.failing[2] = NoSpaceError("the disk is full")
    tally = loop.watch().once()
    assert tally.failures == ["the disk is full"]
    assert [commit.subject for commit, _ in tally.outcomes] == ["Change 3"]


def test_the_interval_is_from_beginning_to_beginning_and_ends_on_request(loop: Loop) -> None:
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            loop.status.write_text("0\n")

    loop.watch(interval_s=3600.0, sleep=sleep).for_ever(lambda _: None)
    assert len(slept) == 3
    assert all(0 < seconds <= 1 for seconds in slept)  # so that it sees the status file


@pytest.mark.parametrize("content", ["1", "", "00", "zero"])
def test_only_a_0_stops_it(loop: Loop, content: str) -> None:
    loop.status.write_text(content)
    assert len(loop.watch().once().outcomes) == 1


def test_it_stops_between_commits(loop: Loop) -> None:
    loop.last.write_text(a_commit(0).id)
    measure = loop.harness.measure

    def measure_and_stop(order):  # type: ignore[no-untyped-def]
        loop.status.write_text("0")
        return measure(order)

    loop.harness.measure = measure_and_stop  # type: ignore[method-assign]
    loop.watch().once()
    assert loop.ear.treatments == ["Change 1"]
    assert loop.dealt_with() == "Change 1"


def test_the_next_commit_is_built_on_other_processors_meanwhile(loop: Loop) -> None:
    loop.last.write_text(a_commit(1).id)
    loop.watch(ahead=frozenset({7})).once()
    ahead = [number for number, processors in loop.builder.built if processors == {7}]
    assert ahead == [0, 3]  # the next one's control and treatment


def test_building_ahead_ends_with_a_signal(loop: Loop) -> None:
    loop.last.write_text(a_commit(1).id)
    loop.builder.wait = threading.Event()
    measure = loop.harness.measure

    def interrupted(order):  # type: ignore[no-untyped-def]
        assert loop.builder.wait
        loop.builder.wait.wait(60)
        loop.harness.endings = ["interrupted"]
        return measure(order)

    loop.harness.measure = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        loop.watch(ahead=frozenset({7})).once()
    assert loop.builder.stops == 1
    assert not [thread for thread in threading.enumerate() if "_follow" in thread.name]

    loop.harness.measure = measure  # type: ignore[method-assign]
    loop.harness.endings = []
    loop.builder.wait = None
    loop.watch(ahead=frozenset({7})).once()
    assert not loop.builder.stopped.is_set()  # what one pass stopped, the next one goes on with


def test_a_failure_ahead_is_said_when_it_is_that_commit_s_turn(loop: Loop) -> None:
    loop.last.write_text(a_commit(1).id)
    loop.builder.failing[3] = RunError("does not compile")
    tally = loop.watch(ahead=frozenset({7})).once()
    assert tally.failures == [f"{a_commit(3).short} can't be built: does not compile"]


def test_what_was_never_delivered_is_delivered_before_anything_else(loop: Loop) -> None:
    loop.harness.refuse = RunError("the disk is full")
    with suppress(RunError):
        loop.watch().once()
    assert loop.harness.delivered == []
    loop.harness.refuse = None
    loop.repository.is_gone = True
    loop.watch().once()
    assert len(loop.harness.delivered) == 1


def test_a_commit_asked_for_alone_is_the_treatment(loop: Loop) -> None:
    loop.watch(commit=a_commit(2).id).once()
    assert loop.ear.treatments == ["Change 2"]


def test_a_commit_to_start_with_is_the_first_of_many(loop: Loop) -> None:
    loop.passes(1, commit=a_commit(1).id)
    assert loop.ear.treatments == ["Change 1", "Change 2", "Change 3"]


@pytest.mark.parametrize(("commit_file", "one_process"), [(True, True), (True, False), (False, True)])
def test_commits_that_land_one_by_one_are_counted_too(loop: Loop, commit_file: bool, one_process: bool) -> None:
    settings = {"step": 3} if commit_file else {"step": 3, "commit_file": None}

    def lands(_: int = 0) -> None:
        loop.repository.line.append(a_commit(len(loop.repository.line)))

    if one_process:
        loop.passes(8, lands, **settings)
    else:
        for _ in range(8):
            loop.watch(**settings).once()
            lands()
    assert loop.ear.treatments == ["Change 3", "Change 6", "Change 9"]


def test_a_commit_asked_for_is_measured_whatever_the_step(loop: Loop) -> None:
    loop.last.write_text(a_commit(1).id)
    loop.watch(step=5, commit=a_commit(3).id).once()
    assert loop.ear.treatments == ["Change 3"]


def test_a_suite_that_was_edited_costs_no_commit(loop: Loop) -> None:
    loop.last.write_text(a_commit(1).id)
    loop.harness.endings = [SuiteChangedError("--suite own: was changed since it was read: start the run again")] * 2
    tally = loop.watch().once()
    assert len(tally.failures) == 2
    assert loop.dealt_with() == "Change 1"
    loop.watch().once()
    assert loop.dealt_with() == "Change 3"


def test_culprits_and_both_builds_are_written_down(loop: Loop) -> None:
    level = {commit.short: 1.0 if number < 2 else 1.5 for number, commit in enumerate(loop.repository.line)}
    loop.harness = replace(loop.harness, level={"case": level})
    loop.watch(sought=("regressed",)).once()
    (outcome,) = loop.ear.outcomes
    assert outcome.culprits is not None
    assert [traced.revisions[-1].name for traced in outcome.culprits] == [a_commit(2).short]
    name = f"{a_commit(0).short}..{a_commit(3).short}.json"
    (culprits,) = (loop.folder / "culprits").iterdir()
    assert re.fullmatch(f"{a_commit(0).short}\\.\\.{a_commit(3).short}-[0-9a-f]{{8}}\\.json", culprits.name)
    assert a_commit(2).id in culprits.read_text()
    assert f'"commit": "{a_commit(2).id}"' in (loop.folder / "info" / name).read_text()
