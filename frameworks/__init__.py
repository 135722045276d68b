"""The frameworks that opduel can measure; the registry finds one by name. Each name here is loaded when first used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opduel.frameworks.adaptor_functions import adaptor_names as adaptor_names
    from opduel.frameworks.adaptor_functions import require_functions as require_functions
    from opduel.frameworks.base import FRAMEWORKS_DIR as FRAMEWORKS_DIR
    from opduel.frameworks.base import Framework as Framework
    from opduel.frameworks.environment import recorded_environment as recorded_environment
    from opduel.frameworks.environment import run_environment as run_environment
    from opduel.frameworks.environment import worker_environment as worker_environment
    from opduel.frameworks.registry import framework_names as framework_names
    from opduel.frameworks.registry import get_framework as get_framework
    from opduel.frameworks.roles import Builds as Builds
    from opduel.frameworks.roles import Cases as Cases
    from opduel.frameworks.roles import ProfilingSetup as ProfilingSetup
    from opduel.frameworks.roles import Scripts as Scripts

_NAMES_BY_MODULE = {
    "adaptor_functions": {"adaptor_names", "require_functions"},
    "base": {"FRAMEWORKS_DIR", "Framework"},
    "environment": {"recorded_environment", "run_environment", "worker_environment"},
    "registry": {"framework_names", "get_framework"},
    "roles": {"Builds", "Cases", "ProfilingSetup", "Scripts"},
}


def __getattr__(name: str) -> Any:
    for module, names in _NAMES_BY_MODULE.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
