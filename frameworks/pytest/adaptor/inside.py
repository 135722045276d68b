"""Tests inside the package that they time: its code is the build's, its tests are the suite's, whichever the build has.

The suite has no ``__init__.py`` of the package, or else the processes that tests start would take it for the build's.
"""

import importlib
import os
import pathlib
import sys
import types

from _pytest import config as of_config
from _pytest import pathlib as of_paths

PACKAGES = "OPDUEL_SUITE_PACKAGES"  # the folders of the suite that have tests in place of a package's, outer ones first


def extend_packages(root):
    """Let the build's packages have the suite's tests, and pytest know these by their names in the package. ``root``:
    the suite's folder. Return why the build can't import a package, by its folder."""
    folders = [folder for folder in os.environ.get(PACKAGES, "").split(os.pathsep) if folder]
    names, errors = {}, {}
    for folder in folders:
        above, name = os.path.split(folder)
        if above in errors:
            errors[folder] = errors[above]
        elif above in names or above not in folders:
            name = names[above] + "." + name if above in names else name
            try:
                extend(importlib.import_module(name), os.path.join(root, folder), folders, folder)
                names[folder] = name
            except BaseException as error:
                is_missing = isinstance(error, ModuleNotFoundError) and error.name == name
                if not is_missing or above in names:  # else it is no package of the build, but one of tests
                    errors[folder] = error
    name_as_in_package(pathlib.Path(os.path.realpath(root), folder) for folder in names)
    return errors


def extend(package, copy, folders, folder):
    """Let a package have what is in its folder of the suite, in place of what it has itself."""
    path = list(getattr(package, "__path__", []))
    if copy in path:
        return
    for entry in os.listdir(copy):
        if os.path.join(folder, entry) not in folders:
            forget(package, os.path.splitext(entry)[0])
    package.__path__ = [copy, *path]


def forget(package, name):
    """Have a module of a package imported again: it was the build's."""
    module_name = package.__name__ + "." + name
    for other in list(sys.modules):
        if other == module_name or other.startswith(module_name + "."):
            del sys.modules[other]
    if isinstance(vars(package).get(name), types.ModuleType):
        delattr(package, name)


def name_as_in_package(folders):
    """Have pytest take these folders for packages, although they have no ``__init__.py``."""
    folders, usual = frozenset(folders), of_paths.resolve_package_path
    if not folders or getattr(usual, "folders", None) == folders:
        return

    def resolve_package_path(path):
        outermost = usual(path)
        above = outermost.parent if outermost else path if path.is_dir() else path.parent
        while pathlib.Path(os.path.realpath(str(above))) in folders:
            outermost, above = above, above.parent
        return outermost

    resolve_package_path.folders = folders
    of_paths.resolve_package_path = of_config.resolve_package_path = resolve_package_path
