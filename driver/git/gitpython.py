"""GitPython, imported without an error if git is missing, which the first real command says.

A git hook sets variables that lead every git command to its own repository: this process, its commands and builds go
without them.
"""

import os

_HOOK_VARIABLES = (  # git rev-parse --local-env-vars, but for those of settings
    *("GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_CEILING_DIRECTORIES", "GIT_COMMON_DIR", "GIT_DIR", "GIT_GRAFT_FILE"),
    *("GIT_IMPLICIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_NAMESPACE", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX"),
    *("GIT_QUARANTINE_PATH", "GIT_REPLACE_REF_BASE", "GIT_SHALLOW_FILE", "GIT_WORK_TREE"),
)


def forget_hook_variables() -> None:
    """Remove the variables by which a git hook leads git to its repository from this process's environment."""
    for name in _HOOK_VARIABLES:
        os.environ.pop(name, None)


forget_hook_variables()
os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")

import git  # noqa: E402

__all__ = ["forget_hook_variables", "git"]
