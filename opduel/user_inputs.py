"""What a user gives as the inputs of an operator, as arguments and settings. Runs inside a build: old syntax."""

DEFAULT_MODE = "imperative"


def read_input(user_inputs, takes_dtype, is_block):
    """``(arguments, settings)`` of one of a user's inputs: what the operator gets, and what says how to run it.

    An operator's own ``dtype`` is an argument of it; a block's is that of its tensors, too.
    """
    arguments = {key: value for key, value in user_inputs.items() if key != "case"}
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
    return arguments, nearest([user_inputs.get("case", {}), settings])


def is_shape(value):
    return isinstance(value, (list, tuple)) and bool(value) and all(isinstance(size, int) for size in value)


def nearest(levels):
    """The settings of several levels, the nearest first; ``run_backward`` and ``directions`` say the same thing."""
    settings = {}
    for level in levels:
        has_directions = "run_backward" in settings or "directions" in settings
        for key, value in level.items():
            if key not in settings and not (has_directions and key in ("run_backward", "directions")):
                settings[key] = value
    return settings


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
