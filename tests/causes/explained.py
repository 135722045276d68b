"""Functions whose times are known, as those of a package of their own: what a call runs that is looked at."""

import gc
import threading


def tiny(value):
    return value


def many_tiny(turns):
    """Almost nothing but calls: what watching costs is several times what they take."""
    for turn in range(turns):
        tiny(turn)


def many_tiny_in_c(turns):
    for _ in range(turns):
        gc.isenabled()


def through_sorted(turns):
    """``sorted`` calls ``tiny``."""
    sorted(range(turns), key=tiny)


def through_sorted_too(turns):
    sorted(range(turns), key=tiny)


def sort(numbers):
    return sorted(numbers)


def tiny_values(count):
    yield from range(count)


def through_sum(turns):
    sum(tiny_values(turns))


class Counter:
    def count(self, turns):
        return turns if turns == 0 else self.count(turns - 1)

    @property
    def parity(self):
        return 0


def numbers(count):
    yield from range(count)


def raising():
    raise ValueError("wrong")


def mixture():
    """Recursion, a generator, exceptions of functions in Python and in C, a property, and a thread."""
    counter = Counter()
    counter.count(3)
    total = sum(numbers(5)) + counter.parity
    for attempt in (raising, lambda: next(iter(()))):
        try:
            attempt()
        except (ValueError, StopIteration):
            total += 1
    return total


def in_a_thread():
    thread = threading.Thread(target=many_tiny, args=(100,))
    thread.start()
    thread.join()


def yielded(turns):
    for turn in range(turns):  # noqa: UP028 - not passed on by Python itself
        yield turn


def passed_on(values):
    for value in values:  # noqa: UP028
        yield value


def through_generators(turns):
    return sum(passed_on(yielded(turns)))


def many_turns(turns):
    total = 0
    for turn in range(turns):
        total += turn & 7
    return total


def long_instructions(turns):
    """Each of its sums of numbers of thousands of digits is one instruction."""
    number = LONG
    for _ in range(turns):
        number + number
    return number


LONG = 1 << 100_000


def looks_up(turns):
    for _ in range(turns):
        LONG  # noqa: B018
