"""The frameworks there are, by name."""

from frameworks.base import Framework
from frameworks.mxnet.framework import MXNet
from records import UsageError

_FRAMEWORKS: dict[str, type[Framework]] = {MXNet.name: MXNet}


def framework_names() -> list[str]:
    """All names that ``get_framework`` takes, sorted."""
    return sorted(_FRAMEWORKS)


def get_framework(name: str) -> Framework:
    """The framework called ``name``.

    Raises:
        UsageError: there is none of that name.
    """
    try:
        return _FRAMEWORKS[name]()
    except KeyError:
        raise UsageError(f"framework {name!r} is not known: use one of {', '.join(framework_names())}") from None
