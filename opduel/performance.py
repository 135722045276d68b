"""run_performance_test: one operator or a list of them on given inputs, here or in a build driven from outside."""

from . import inside
from .user_inputs import each_mode, nearest, read_input


def run_performance_test(
    ops, inputs, run_backward=True, dtype="float32", ctx=None, profiler="native", warmup=10, runs=50, build=None, seed=0
):
    """Measure one operator, or each of a list, on each of the inputs; a list of ``{name: [result, ...]}``.

    ``ops``: functions such as ``mx.nd.add``, Gluon blocks or their classes, or names ("nd.add", "gluon.nn.Dense").
    ``inputs``: dictionaries of arguments: shapes, arrays, attributes; and for those of this dictionary
    ``run_backward``, ``initializer`` (a function such as ``nd.normal``, or a spec's word), and ``dtype``: the
    operator's own where it has an argument of that name, else that of its tensors. ``case`` holds settings as in a
    spec: ``{"dtype": "float16", "mode": "hybridized"}``. ``profiler``: "native", the framework's own, or "python",
    the clock around each call. ``build``: measure there (a release, an environment, an interpreter), in processes of
    its own, instead of here; ops are names then.

    A result: opperf's ``avg_time_forward_add`` and ``avg_time_backward_add`` in ms, and mean, p50, p90, p99, min, max
    and stdev likewise; ``max_storage_mem_alloc_cpu/0`` in kB of 1000 bytes; ``inputs``, ``dtype``, ``context`` and
    ``mode``; ``failed_backward`` with the reason, if that failed.

    Raises what the operator raises forwards, if it is run here; ValueError for arguments that make no sense; from
    outside UsageError and RunError.
    """
    check(profiler, warmup, runs)
    operators = list(ops) if isinstance(ops, (list, tuple)) else [ops]
    if build is not None:
        from . import outside  # needs the checkout's environment

        how = {"profiler": profiler, "warmup": warmup, "runs": runs, "seed": seed}
        return outside.run_performance_test(operators, inputs, build, run_backward, dtype, ctx, **how)
    adaptor = inside.adaptor_of(operators)
    defaults = {"dtype": dtype, "context": ctx, "run_backward": run_backward}
    results_by_name = []
    for operator in map(adaptor.Operator, operators):
        results = []
        for index, user_inputs in enumerate(inputs):
            arguments, own = read_input(user_inputs, operator.takes_dtype, operator.block is not None)
            for settings in each_mode(nearest([own, defaults])):
                result = adaptor.measure(operator, arguments, settings, profiler, warmup, runs, seed + index)
                result["inputs"] = {
                    key: adaptor.array_as_line(value) for key, value in user_inputs.items() if key != "case"
                }
                results.append(result)
        results_by_name.append({operator.short: results})
    return results_by_name


def check(profiler, warmup, runs):
    """Raises ValueError: one of them makes no sense."""
    if profiler not in ("native", "python"):
        raise ValueError("profiler {!r}: use 'native' or 'python'".format(profiler))
    if warmup < 0 or runs < 1:
        raise ValueError("warmup {!r}, runs {!r}: give 0 or more, and 1 or more".format(warmup, runs))
