"""GitPython, imported without asking git anything about the user's settings.

The import runs git once; what is wrong with git or its settings is for the first real command to say. A git hook sets
variables that lead every git command to its own repository: this process, its commands and builds go without them.
"""

import os

_HOOK_VARIABLES = (  # git rev-parse --local-env-vars, but for those of settings
    *("GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_CEILING_DIRECTORIES", "GIT_COMMON_DIR", "GIT_DIR", "GIT_GRAFT_FILE"),
    *("GIT_IMPLICIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_NAMESPACE", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX"),
    *("GIT_QUARANTINE_PATH", "GIT_REPLACE_REF_BASE", "GIT_SHALLOW_FILE", "GIT_WORK_TREE"),
)
_NO_SETTINGS = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "GIT_CONFIG_COUNT": "0"}


def forget_hook_variables() -> None:
    """Remove the variables by which a git hook leads git to its repository from this process's environment."""
    for name in _HOOK_VARIABLES:
        os.environ.pop(name, None)


forget_hook_variables()
_environment = dict(os.environ)
try:
    os.environ |= {"GIT_PYTHON_REFRESH": "quiet", **_NO_SETTINGS}
    import git
finally:
    os.environ.clear()
    os.environ.update(_environment)

__all__ = ["forget_hook_variables", "git"]
