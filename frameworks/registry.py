"""Find frameworks by name: opduel's own, and those of other packages (entry points ``opduel.frameworks``)."""

from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from opduel.frameworks.base import FRAMEWORKS_DIR, Framework
from opduel.records import UsageError
from opduel.support.text import one_line

# Name -> its class in opduel.frameworks.<name>.framework, which is loaded when the framework is asked for.
_CLASSES = {
    "mxnet": "MXNet",
    "asv": "Asv",
    "generic": "Generic",
    "onnxruntime": "ONNXRuntime",
    "pytest": "Pytest",
    "python": "Python",
    "torch": "Torch",
    "cross": "Cross",
}
GROUP = "opduel.frameworks"


def framework_names() -> list[str]:
    """Return the names of all frameworks: the usual one first, those of other packages last."""
    return list(dict.fromkeys([*_CLASSES, *sorted(_installed())]))


def get_framework(name: str, frameworks_dir: Path = FRAMEWORKS_DIR) -> Framework:
    """Return the framework called ``name``, with its data below ``frameworks_dir``. Raises UsageError: there is none of
    that name."""
    if name in _CLASSES:
        module = import_module(f"opduel.frameworks.{name}.framework")
        framework_class: type[Framework] = getattr(module, _CLASSES[name])
        return framework_class(frameworks_dir)
    if name in _installed():
        return _loaded(_installed()[name])(frameworks_dir)
    raise UsageError(f"framework {name!r} is not known: use one of {', '.join(framework_names())}")


@cache
def _installed() -> dict[str, EntryPoint]:
    """Return the frameworks of other packages in this environment; they can't replace opduel's own."""
    return {point.name: point for point in entry_points(group=GROUP)}


def _loaded(point: EntryPoint) -> type[Framework]:
    """Return the class that another package offers. Raise UsageError if it can't be imported, or isn't a framework."""
    package = point.dist.name if point.dist else point.value
    fix = f"repair the package {package}, or uninstall it"
    try:
        framework_class = point.load()
    except Exception as error:  # a package may raise anything at its import
        raise UsageError(f"framework {point.name!r}: cannot be loaded ({one_line(f'{error}')}): {fix}") from None
    if not (isinstance(framework_class, type) and issubclass(framework_class, Framework)):
        raise UsageError(f"framework {point.name!r}: {point.value} is not a subclass of Framework: {fix}")
    return framework_class
