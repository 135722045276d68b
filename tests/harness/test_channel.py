"""The pipes between controller and worker: messages, deadlines, closed ends, and what is printed beside them."""

import contextlib
import os
from collections.abc import Iterator

import pytest

from opduel.harness.processes.channel import Channel, ClosedError, Waiting, complete


class Ends:
    """A channel, and the other side's descriptors of it."""

    def __init__(self, channel: Channel, others: contextlib.ExitStack) -> None:
        self.channel, self.others = channel, others
        self.requests, self.answers, self.printed = channel.passed


@pytest.fixture
def ends() -> Iterator[Ends]:
    with contextlib.ExitStack() as others:
        channel = Channel(others)
        yield Ends(channel, others)
        channel.close()


def test_the_output_tail_begins_with_a_whole_word() -> None:
    """Half a secret would not be recognized as one."""
    with contextlib.ExitStack() as ends:
        made = Channel(ends)
        os.write(made.passed[2], b"secret " * 1000)
        assert made.output_tail().split() == ["secret"] * 285
        made.clear_output_tail()
        os.write(made.passed[2], b"y" * 5000)
        assert made.output_tail() == ""
        made.close()


def test_messages_go_both_ways_however_they_are_cut(ends: Ends) -> None:
    ends.channel.send({"op": "block", "name": "\u00e4\n"})
    assert os.read(ends.requests, 100) == b'{"op": "block", "name": "\\u00e4\\n"}\n'
    os.write(ends.answers, b'{"a": 1}\n{"b"')
    assert complete(ends.channel.receiving(10)) == {"a": 1}
    os.write(ends.answers, b": 2}\n")
    assert complete(ends.channel.receiving(10)) == {"b": 2}


def test_without_an_answer_the_steps_wait_until_the_deadline_and_no_longer(ends: Ends) -> None:
    steps = ends.channel.receiving(0.05)
    waiting = next(steps)
    assert isinstance(waiting, Waiting)
    waiting.wait()
    with pytest.raises(StopIteration) as over:
        next(steps)
    assert over.value.value is None
    os.write(ends.answers, b'{"late": 1}\n')
    assert complete(ends.channel.receiving(10)) == {"late": 1}, "it is not lost"


def test_an_answer_that_has_come_is_taken_without_waiting(ends: Ends) -> None:
    os.write(ends.answers, b'{"a": 1}\n')
    with pytest.raises(StopIteration):
        next(ends.channel.receiving(0))


def test_half_a_message_is_an_error(ends: Ends) -> None:
    os.write(ends.answers, b'{"ns": [1\n')
    with pytest.raises(ValueError, match="Expecting"):
        complete(ends.channel.receiving(10))


def test_an_end_that_is_closed_is_reported(ends: Ends) -> None:
    ends.others.close()
    with pytest.raises(ClosedError):
        ends.channel.send({})
    with pytest.raises(ClosedError):
        complete(ends.channel.receiving(10))
    ends.channel.close()
    ends.channel.close()
    for ask in (lambda: ends.channel.send({}), lambda: complete(ends.channel.receiving(10))):
        with pytest.raises(ClosedError):
            ask()


def test_no_part_of_a_terminals_sequence_is_in_the_output_tail(ends: Ends) -> None:
    os.write(ends.printed, b"\x1b[31mred\x1b[0m \x1b]0;title\x07bell\x00\xff\n")
    assert ends.channel.output_tail() == "red bell\ufffd"


def test_a_long_wait_leaves_time_for_something_else(ends: Ends) -> None:
    """Until the answer comes, which is what ends it here; a wait that is short leaves none."""
    called: list[int] = []

    def meanwhile() -> None:
        called.append(1)
        if len(called) == 2:
            os.write(ends.answers, b'{"ns": 1}\n')

    assert complete(ends.channel.receiving(60.0), meanwhile) == {"ns": 1}
    assert len(called) == 2
    os.write(ends.answers, b'{"ns": 2}\n')
    assert complete(ends.channel.receiving(60.0), meanwhile) == {"ns": 2}
    assert len(called) == 2
