"""run_performance_test: one operator or a list of them on given inputs, here or in a build driven from outside."""

from . import inside

DEFAULT_MODE = "imperative"


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
    found = []
    for operator in map(adaptor.Operator, operators):
        results = []
        for index, given in enumerate(inputs):
            arguments, own = read_input(given, operator.takes_dtype, operator.block is not None)
            for settings in each_mode(nearest([own, defaults])):
                result = adaptor.measure(operator, arguments, settings, profiler, warmup, runs, seed + index)
                result["inputs"] = {key: adaptor.shown(value) for key, value in given.items() if key != "case"}
                results.append(result)
        found.append({operator.short: results})
    return found


def check(profiler, warmup, runs):
    """Raises ValueError: one of them makes no sense."""
    if profiler not in ("native", "python"):
        raise ValueError("profiler {!r}: use 'native' or 'python'".format(profiler))
    if warmup < 0 or runs < 1:
        raise ValueError("warmup {!r}, runs {!r}: give 0 or more, and 1 or more".format(warmup, runs))


def read_input(given, takes_dtype, is_block):
    """``(arguments, settings)`` of one of a user's inputs: what the operator gets, and what says how to run it.

    An operator's own ``dtype`` is an argument of it; a block's is that of its tensors, too.
    """
    arguments = {key: value for key, value in given.items() if key != "case"}
    if is_shape(arguments.get("args")):  # opperf's form of a single one
        arguments["args"] = [arguments["args"]]
    settings = {}
    for key in ("run_backward", "initializer", "data_initializer"):
        if key in arguments:
            settings[key.replace("data_", "")] = arguments.pop(key)
    if "dtype" in arguments and (is_block or not takes_dtype):
        settings["dtype"] = arguments["dtype"]
        if not takes_dtype:
            del arguments["dtype"]
    return arguments, nearest([given.get("case", {}), settings])


def is_shape(value):
    return isinstance(value, (list, tuple)) and bool(value) and all(isinstance(size, int) for size in value)


def nearest(levels):
    """The settings of several levels, the nearest first; ``run_backward`` and ``directions`` say the same thing."""
    found = {}
    for level in levels:
        said = "run_backward" in found or "directions" in found
        for key, value in level.items():
            if key not in found and not (said and key in ("run_backward", "directions")):
                found[key] = value
    return found


def each_mode(settings):
    """What the adaptor takes, once for each mode that the settings name."""
    backward = settings.get("run_backward", False)
    common = {
        "dtype": settings.get("dtype", "float32"),
        "context": settings.get("context"),
        "directions": settings.get("directions", ["forward", "backward"] if backward else ["forward"]),
        "initializer": settings.get("initializer"),
    }
    modes = settings.get("mode", DEFAULT_MODE)
    return [dict(common, mode=mode) for mode in (modes if isinstance(modes, (list, tuple)) else [modes])]
