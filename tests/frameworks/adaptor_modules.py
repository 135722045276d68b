"""Adaptors and their modules, loaded in this process as a worker loads them."""

import sys
from pathlib import Path
from types import ModuleType

from opduel.frameworks import get_framework
from opduel.frameworks.base import SPECIFICATIONS

COMMON = SPECIFICATIONS.parent / "frameworks" / "common"


def load(path: Path, name: str = "") -> ModuleType:
    """Return a file as a module, or a folder as a package, whose modules are attributes; by default of a name of its
    own."""
    if str(COMMON) not in sys.path:
        sys.path.append(str(COMMON))
    from opduel_common.scripts import load_module

    is_package = path.is_dir()
    source = path / "__init__.py" if is_package else path
    module: ModuleType = load_module(name or f"of_{path.stem}", str(source), [str(path)] if is_package else None)
    return module


def load_adaptor(framework: str) -> ModuleType:
    """Return the package of a framework's adaptor, ``<framework>_adaptor``, loaded once."""
    name = f"{framework}_adaptor"
    return sys.modules.get(name) or load(get_framework(framework).adaptor, name)
