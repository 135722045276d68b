"""The frameworks that opduel can measure; the registry finds one by name."""

from opduel.frameworks.adaptor_functions import adaptor_names, require_functions
from opduel.frameworks.base import FRAMEWORKS_DIR, Framework
from opduel.frameworks.environment import recorded_environment, run_environment, worker_environment
from opduel.frameworks.registry import framework_names, get_framework
from opduel.frameworks.roles import Builds, Cases, ProfilingSetup, Scripts

__all__ = [
    "FRAMEWORKS_DIR",
    "Builds",
    "Cases",
    "Framework",
    "ProfilingSetup",
    "Scripts",
    "adaptor_names",
    "framework_names",
    "get_framework",
    "recorded_environment",
    "require_functions",
    "run_environment",
    "worker_environment",
]
