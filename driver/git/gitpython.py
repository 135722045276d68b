"""GitPython, imported whatever the user's settings of git are.

It asks git for its version when it is imported, and fails without git (unless it is to be quiet), or where git can't
read the user's settings. Both are for the first command that needs git to say.
"""

import os

_PLAIN = {"GIT_PYTHON_REFRESH": "quiet", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
_inherited = {name: value for name, value in os.environ.items() if name.startswith("GIT_CONFIG_")}
try:
    for _name in _inherited:
        del os.environ[_name]
    os.environ.update(_PLAIN)
    import git
finally:
    for _name in _PLAIN:
        os.environ.pop(_name, None)
    os.environ.update(_inherited)

__all__ = ["git"]
