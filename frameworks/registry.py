"""The frameworks there are, by name."""

from pathlib import Path

from opduel.frameworks.base import FRAMEWORKS_DIR, Framework
from opduel.frameworks.mxnet.framework import MXNet
from opduel.records import UsageError

_FRAMEWORKS: dict[str, type[Framework]] = {MXNet.name: MXNet}


def framework_names() -> list[str]:
    """All names that ``get_framework`` takes, sorted."""
    return sorted(_FRAMEWORKS)


def get_framework(name: str, frameworks_dir: Path = FRAMEWORKS_DIR) -> Framework:
    """The framework called ``name``, with its data below ``frameworks_dir``.

    Raises:
        UsageError: there is none of that name.
    """
    try:
        return _FRAMEWORKS[name](frameworks_dir)
    except KeyError:
        raise UsageError(f"framework {name!r} is not known: use one of {', '.join(framework_names())}") from None
