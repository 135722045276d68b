"""Modules of the worker for tests in this process."""

import importlib.util
from types import ModuleType

from opduel.harness.processes.process import WORKER


def module(name: str) -> ModuleType:
    """Return a module of the worker, with those that it imports, as the worker loads it."""
    spec = importlib.util.spec_from_file_location("worker_main", WORKER)
    assert spec
    assert spec.loader
    main = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(main)
    return main.beside(name)  # type: ignore[no-any-return]
