"""Make sessions, with the options of the run, which are in the environment, and those of a case."""

import os

import onnxruntime

from opduel_common.names import MissingOperator

from .messages import key_line, says_absent

_LEVEL, _MODE = onnxruntime.GraphOptimizationLevel, onnxruntime.ExecutionMode
CHOICES = {  # by option
    "graph_optimization_level": {
        "disabled": _LEVEL.ORT_DISABLE_ALL,
        "basic": _LEVEL.ORT_ENABLE_BASIC,
        "extended": _LEVEL.ORT_ENABLE_EXTENDED,
        "all": _LEVEL.ORT_ENABLE_ALL,
    },
    "execution_mode": {"sequential": _MODE.ORT_SEQUENTIAL, "parallel": _MODE.ORT_PARALLEL},
}
SWITCHES = ("enable_cpu_mem_arena", "enable_mem_pattern", "enable_mem_reuse", "use_deterministic_compute")
PROVIDERS = ["CPUExecutionProvider"]
FATAL_ONLY = 4  # level of ONNX Runtime's log; errors are raised in any case


def make_session(model, plain, is_network, profile=None):
    """Return a session of ``model``, bytes or the path of a file.

    ``plain``: the case's options. ``profile``: the prefix of the path of a profile that it writes. Raise
    MissingOperator, ValueError for an unknown option, and what ONNX Runtime raises.
    """
    options = session_options(plain, is_network)
    if profile is not None:
        options.enable_profiling = True
        options.profile_file_prefix = profile
    try:
        return onnxruntime.InferenceSession(model, options, providers=PROVIDERS)
    except Exception as error:
        if says_absent(str(error)):
            raise MissingOperator(key_line(str(error))) from None
        raise


def session_options(plain, is_network):
    """Return the run's options, overridden by the case's. Raise ValueError for an unknown one."""
    options = onnxruntime.SessionOptions()
    threads = int(os.environ.get("OPDUEL_ORT_THREADS", "1"))
    options.intra_op_num_threads = options.inter_op_num_threads = threads
    options.log_severity_level = FATAL_ONLY
    spinning = os.environ.get("OPDUEL_ORT_SPINNING", "1")
    for pool in ("intra_op", "inter_op"):
        options.add_session_config_entry(f"session.{pool}.allow_spinning", spinning)
    usual = "OPDUEL_ORT_LEVEL_MODEL" if is_network else "OPDUEL_ORT_LEVEL_OPERATOR"
    settings = {
        "graph_optimization_level": os.environ.get(usual, "all" if is_network else "disabled"),
        "execution_mode": os.environ.get("OPDUEL_ORT_EXECUTION", "sequential"),
    }
    for name, value in dict(settings, **plain).items():
        set_option(options, name, value)
    return options


def set_option(options, name, value):
    """Set one option; a name with dots is a configuration entry of the session. Raise ValueError if it is unknown."""
    if "threads" in name:
        raise ValueError(f"session.{name}: --threads says how many threads there are: leave it out")
    if "." in name:
        options.add_session_config_entry(name, str(int(value) if isinstance(value, bool) else value))
    elif name in CHOICES:
        if value not in CHOICES[name]:
            raise ValueError(f"session.{name} is {value!r}: use one of {', '.join(CHOICES[name])}")
        setattr(options, name, CHOICES[name][value])
    elif name in SWITCHES:
        if not isinstance(value, bool):
            raise ValueError(f"session.{name} is {value!r}: use true or false")
        setattr(options, name, value)
    else:
        settable = ", ".join((*CHOICES, *SWITCHES))
        raise ValueError(f"session.{name} is not known: use {settable}, or a configuration entry's key")
