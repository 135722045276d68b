"""The frameworks there are, by name: ours, and those of other packages (the entry points ``opduel.frameworks``)."""

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from opduel.frameworks.asv.framework import Asv
from opduel.frameworks.base import FRAMEWORKS_DIR, Framework
from opduel.frameworks.cross.framework import Cross
from opduel.frameworks.generic.framework import Generic
from opduel.frameworks.mxnet.framework import MXNet
from opduel.frameworks.onnxruntime.framework import ONNXRuntime
from opduel.frameworks.python.framework import Python
from opduel.frameworks.torch.framework import Torch
from opduel.records import UsageError
from opduel.records.text import one_line

_FRAMEWORKS: dict[str, type[Framework]] = {
    framework.name: framework for framework in (MXNet, Asv, Generic, ONNXRuntime, Python, Torch, Cross)
}
GROUP = "opduel.frameworks"


def framework_names() -> list[str]:
    """All names that ``get_framework`` takes: the usual one first, those of other packages last."""
    return list(dict.fromkeys([*_FRAMEWORKS, *sorted(_installed())]))


def get_framework(name: str, frameworks_dir: Path = FRAMEWORKS_DIR) -> Framework:
    """The framework called ``name``, with its data below ``frameworks_dir``.

    Raises:
        UsageError: there is none of that name.
    """
    if name in _FRAMEWORKS:
        return _FRAMEWORKS[name](frameworks_dir)
    if name in _installed():
        return _loaded(_installed()[name])(frameworks_dir)
    raise UsageError(f"framework {name!r} is not known: use one of {', '.join(framework_names())}")


@cache
def _installed() -> dict[str, EntryPoint]:
    """The frameworks of other packages in this environment; ours can't be replaced."""
    return {point.name: point for point in entry_points(group=GROUP)}


def _loaded(point: EntryPoint) -> type[Framework]:
    """The class that another package offers; UsageError if it can't be imported, or is no framework."""
    package = point.dist.name if point.dist else point.value
    fix = f"repair the package {package}, or uninstall it"
    try:
        framework_class = point.load()
    except Exception as error:  # whatever that package does when it is imported
        raise UsageError(f"framework {point.name!r}: cannot be loaded ({one_line(f'{error}')}): {fix}") from None
    if not (isinstance(framework_class, type) and issubclass(framework_class, Framework)):
        raise UsageError(f"framework {point.name!r}: {point.value} is not a subclass of Framework: {fix}")
    return framework_class
