"""run_performance_test: one operator or a list of them on given inputs, here or in a build driven from outside."""

from . import inside


def run_performance_test(
    ops,
    inputs,
    run_backward=True,
    dtype="float32",
    ctx=None,
    profiler="native",
    warmup=10,
    runs=50,
    build=None,
    seed=0,
):
    """Measure one operator, or each of a list, on each of the inputs; a list of ``{name: [result, ...]}``.

    ``ops``: functions such as ``mx.nd.add``, Gluon block classes, or names ("nd.add"). ``inputs``: dictionaries of
    arguments: shapes, arrays, attributes; and ``dtype``, ``run_backward``, ``initializer`` (a function such as
    ``nd.normal``, or a spec's word) for those of this dictionary. ``profiler``: "native", the framework's own, or
    "python", the clock around each call. ``build``: measure there (a release, an environment, an interpreter), in
    processes of its own, instead of here; ops are names then.

    A result: opperf's ``avg_time_forward_add`` and ``avg_time_backward_add`` in ms, and mean, p50, p90, p99, min, max
    and stdev likewise; ``max_storage_mem_alloc_cpu/0`` in kB of 1000 bytes; ``inputs``; ``failed_backward`` with the
    reason, if that failed.

    Raises what the operator raises forwards, if it is run here; ValueError for arguments that make no sense; from
    outside UsageError and RunError.
    """
    if profiler not in ("native", "python"):
        raise ValueError("profiler {!r}: use 'native' or 'python'".format(profiler))
    if warmup < 0 or runs < 1:
        raise ValueError("warmup {!r}, runs {!r}: give 0 or more, and 1 or more".format(warmup, runs))
    operators = list(ops) if isinstance(ops, (list, tuple)) else [ops]
    if build is not None:
        from . import outside  # needs the checkout's environment

        return outside.run_performance_test(
            operators, inputs, run_backward, dtype, ctx, profiler, warmup, runs, build, seed
        )
    adaptor = inside.adaptor_of(operators)
    return [
        adaptor.performance(operator, inputs, run_backward, dtype, ctx, profiler, warmup, runs, seed)
        for operator in operators
    ]
