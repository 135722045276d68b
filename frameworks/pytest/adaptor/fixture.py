"""The fixture ``benchmark``, as pytest-benchmark and pytest-codspeed have it: it hands over the call to be timed."""

import functools


class BenchmarkFixture:
    """What a test gets as ``benchmark``. ``time`` takes the call, and doesn't return; ``seed`` comes before a setup."""

    stats = None  # as pytest-benchmark has it where it times nothing
    enabled, disabled, skipped, has_error = True, False, False, False

    def __init__(self, item, time, seed):
        self._time, self._seed = time, seed
        marker = item.get_closest_marker("benchmark")
        self.options = dict(marker.kwargs) if marker else {}
        self.group = self.options.pop("group", None)
        self.name, self.fullname = item.name, item.nodeid
        callspec = getattr(item, "callspec", None)
        self.param, self.params = (callspec.id, callspec.params) if callspec else (None, None)
        self.extra_info = {}

    def __call__(self, function_to_benchmark, *args, **kwargs):
        """Have a call of the function timed; as a decorator, one without arguments."""
        self._time(functools.partial(function_to_benchmark, *args, **kwargs))

    def pedantic(
        self, target, args=(), kwargs=None, setup=None, teardown=None, rounds=1, warmup_rounds=0, iterations=1
    ):
        """Have a call of ``target`` timed, with ``setup`` before it, which may return its arguments, and ``teardown``
        after it. How often, opduel decides."""
        if setup is None and teardown is None:
            return self._time(functools.partial(target, *args, **(kwargs or {})))
        if setup is not None and iterations > 1:
            raise ValueError("Can't use more than 1 `iterations` with a `setup` function.")
        return self._time(surrounded(target, args, kwargs or {}, setup, teardown, iterations, self._seed))

    def weave(self, target, **options):
        """Have the next call of ``target`` timed, which aspectlib looks for: what the test calls afterwards."""
        try:
            import aspectlib
        except ImportError:
            raise ImportError("benchmark.weave needs aspectlib: add it with --suite_packages aspectlib") from None

        def timed(function):
            def call(*args, **kwargs):
                weaving.rollback()  # what is timed may call the target itself
                self(function, *args, **kwargs)

            return call

        weaving = aspectlib.weave(target, timed, **options)

    patch = weave


def surrounded(target, args, kwargs, setup, teardown, iterations, seed):
    """Return a function that calls ``target``; its attributes say what comes before and after it, untimed."""
    arguments, is_torn_down = [args, kwargs], [True]

    def call():
        return target(*arguments[0], **arguments[1])

    def close():
        if teardown is not None and not is_torn_down[0]:
            is_torn_down[0] = True
            teardown(*arguments[0], **arguments[1])

    def before():
        close()
        if setup is not None:
            seed()
            new_arguments = setup()
            if new_arguments:
                if args or kwargs:
                    raise TypeError("Can't use `args` or `kwargs` if `setup` returns the arguments.")
                arguments[:] = new_arguments
        is_torn_down[0] = False

    call.before, call.close, call.number = before, close, iterations
    return call
