"""The pipes between controller and worker: messages, deadlines, closed ends, and what is printed beside them."""

import contextlib
import os
from collections.abc import Iterator

import pytest

from opduel.harness.processes.channel import Channel, ClosedError, Waiting, complete


class Ends:
    """A channel, and the other side's descriptors of it."""

    def __init__(self, channel: Channel, closing: contextlib.ExitStack) -> None:
        self.channel, self.closing = channel, closing
        self.requests, self.answers, self.printed = channel.passed


@pytest.fixture
def other_end() -> Iterator[Ends]:
    with contextlib.ExitStack() as closing:
        channel = Channel(closing)
        yield Ends(channel, closing)
        channel.close()


def test_the_output_tail_begins_with_a_whole_word() -> None:
    """Half a secret would not be recognized as one."""
    with contextlib.ExitStack() as other_end:
        channel = Channel(other_end)
        os.write(channel.passed[2], b"secret " * 1000)
        assert channel.output_tail().split() == ["secret"] * 285
        channel.clear_output_tail()
        os.write(channel.passed[2], b"y" * 5000)
        assert channel.output_tail() == ""
        channel.close()


def test_messages_go_both_ways_however_they_are_cut(other_end: Ends) -> None:
    other_end.channel.send({"op": "block", "name": "\u00e4\n"})
    assert os.read(other_end.requests, 100) == b'{"op": "block", "name": "\\u00e4\\n"}\n'
    os.write(other_end.answers, b'{"a": 1}\n{"b"')
    assert complete(other_end.channel.receiving(10)) == {"a": 1}
    os.write(other_end.answers, b": 2}\n")
    assert complete(other_end.channel.receiving(10)) == {"b": 2}


def test_without_an_answer_the_steps_wait_until_the_deadline_and_no_longer(other_end: Ends) -> None:
    steps = other_end.channel.receiving(0.05)
    waiting = next(steps)
    assert isinstance(waiting, Waiting)
    waiting.wait()
    with pytest.raises(StopIteration) as over:
        next(steps)
    assert over.value.value is None
    os.write(other_end.answers, b'{"late": 1}\n')
    assert complete(other_end.channel.receiving(10)) == {"late": 1}, "it is not lost"


def test_an_answer_that_has_come_is_taken_without_waiting(other_end: Ends) -> None:
    os.write(other_end.answers, b'{"a": 1}\n')
    with pytest.raises(StopIteration):
        next(other_end.channel.receiving(0))


def test_half_a_message_is_an_error(other_end: Ends) -> None:
    os.write(other_end.answers, b'{"ns": [1\n')
    with pytest.raises(ValueError, match="Expecting"):
        complete(other_end.channel.receiving(10))


def test_an_end_that_is_closed_is_reported(other_end: Ends) -> None:
    other_end.closing.close()
    with pytest.raises(ClosedError):
        other_end.channel.send({})
    with pytest.raises(ClosedError):
        complete(other_end.channel.receiving(10))
    other_end.channel.close()
    other_end.channel.close()
    for ask in (lambda: other_end.channel.send({}), lambda: complete(other_end.channel.receiving(10))):
        with pytest.raises(ClosedError):
            ask()


def test_no_part_of_a_terminals_sequence_is_in_the_output_tail(other_end: Ends) -> None:
    os.write(other_end.printed, b"\x1b[31mred\x1b[0m \x1b]0;title\x07bell\x00\xff\n")
    assert other_end.channel.output_tail() == "red bell\ufffd"


def test_a_long_wait_leaves_time_for_something_else(other_end: Ends) -> None:
    """Until the answer comes, which is what ends it here; a wait that is short leaves none."""
    called: list[int] = []

    def note_time() -> None:
        called.append(1)
        if len(called) == 2:
            os.write(other_end.answers, b'{"ns": 1}\n')

    assert complete(other_end.channel.receiving(60.0), note_time) == {"ns": 1}
    assert len(called) == 2
    os.write(other_end.answers, b'{"ns": 2}\n')
    assert complete(other_end.channel.receiving(60.0), note_time) == {"ns": 2}
    assert len(called) == 2
