"""Builds that several threads want are made one at a time, the most urgent ones first."""

import threading
import time
from collections.abc import Callable

from made_runs import a_build

from opduel.driver.build_turns import LAST, BuildTurns
from opduel.records import Build, RunError


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


class Compile:
    """One that ends when it is told to, or stopped."""

    def __init__(self) -> None:
        self.is_started, self.may_end = threading.Event(), threading.Event()
        self.stopped = False
        self.calls: list[str] = []

    def __call__(self) -> Build:
        self.is_started.set()
        assert self.may_end.wait(20)
        if self.stopped:
            raise RunError("compiling was stopped")
        return a_build("long")

    def stop(self) -> None:
        self.calls.append("stop")
        self.stopped = True
        self.may_end.set()

    def resume(self) -> None:
        self.calls.append("resume")


def test_the_most_urgent_one_is_next_and_no_two_are_made_at_once() -> None:
    turns, first = BuildTurns(), Compile()
    never, lock, finished = threading.Event(), threading.Lock(), []

    def make(name: str) -> Callable[[], Build]:
        def build() -> Build:
            assert lock.acquire(blocking=False), "another build is being made"
            finished.append(name)
            lock.release()
            return a_build(name)

        return build

    threads = [threading.Thread(target=turns.ahead, args=(first, 1, never))]
    threads[0].start()
    assert first.is_started.wait(20)
    for name, rank in (("unlikely", LAST), ("third", 3), ("second", 2), ("second, too", 2)):
        threads.append(threading.Thread(target=turns.ahead, args=(make(name), rank, never)))
        threads[-1].start()
        wait_until(lambda: len(turns._waiting) == len(threads) - 1)
    threads.append(threading.Thread(target=turns.now, args=(make("needed"),)))
    threads[-1].start()
    wait_until(lambda: len(turns._waiting) == len(threads) - 1)
    assert finished == []
    first.may_end.set()
    for thread in threads:
        thread.join(20)
    assert finished == ["needed", "second", "second, too", "third", "unlikely"]


def test_what_is_given_up_before_its_turn_is_not_made() -> None:
    turns, first, given_up = BuildTurns(), Compile(), threading.Event()
    thread = threading.Thread(target=turns.now, args=(first,))
    thread.start()
    assert first.is_started.wait(20)
    results: list[Build | None] = []
    second = Compile()
    waiting = threading.Thread(target=lambda: results.append(turns.ahead(second, 1, given_up)))
    waiting.start()
    given_up.set()
    waiting.join(20)
    first.may_end.set()
    thread.join(20)
    assert results == [None]
    assert not second.is_started.is_set()
    assert turns.now(lambda: a_build("next")).requested == "next"


def test_only_a_build_that_was_given_up_is_stopped() -> None:
    compile_ = Compile()
    turns, given_up, failed = BuildTurns(compile_.stop, compile_.resume), threading.Event(), []

    def build() -> None:
        try:
            turns.ahead(compile_, 1, given_up)
        except RunError as error:
            failed.append(str(error))

    thread = threading.Thread(target=build)
    thread.start()
    assert compile_.is_started.wait(20)
    turns.stop_given_up()
    assert compile_.calls == []
    given_up.set()
    turns.stop_given_up()  # returns when it has ended
    thread.join(20)
    assert failed == ["compiling was stopped"]
    assert compile_.calls == ["stop", "resume"]
    turns.stop_given_up()  # there is none
    assert compile_.calls == ["stop", "resume"]
