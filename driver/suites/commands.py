"""Follow asv's build_command and install_command: as lines for the build script's shell, and as requirements.

asv runs both in the environment that it measures in (asv/environment.py; asv/util.py, ``interpolate_command``). Here
build commands run in an environment of their own, and what they make is installed, with all that install commands name.
"""

import re
import shlex
from collections.abc import Sequence
from string import Formatter

# Variables of the build script and of a package's build: lines of the shell, and extras of the wheel.
BUILD_COMMANDS, WHEEL_EXTRAS = "BUILD_COMMANDS", "WHEEL_EXTRAS"
BUILT_WITH = ("build", "setuptools", "wheel")  # what asv's environments have
# What commands name, in the words of build.sh.
_PLACES = {"build_dir": '"$source"', "build_cache_dir": '"$destination"', "env_dir": '"$ASV_ENV_DIR"'}
_PIP = re.compile(r"(?:python -m ?)?pip install ")
_PROJECT = re.compile(r"(?:\{wheel_file\}|\{build_dir\}/?|\.)(?:\[([\w.,-]+)\])?")
_WITHOUT_EFFECT = re.compile(
    r"-[vqUe]+|-C.+|--(no-deps|force-reinstall|upgrade|verbose|quiet|editable|no-build-isolation|no-index|no-cache-dir"
    r"|ignore-installed|config-settings=.+|disable-pip-version-check)"
)


class NotFollowedError(Exception):
    """A command can't be followed; the text is the command, and what of it."""


def build_script(commands: Sequence[str], project: str) -> str:
    """Return lines for the shell that run these commands as asv does. Raise NotFollowedError."""
    return "\n".join(_line(command, {**_PLACES, "project": shlex.quote(project)}) for command in commands)


def installed_by(commands: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return what these commands have pip install besides the project, and the project's extras. Raise
    NotFollowedError."""
    further: list[str] = []
    extras: list[str] = []
    for command in commands:
        line = " ".join(_parts(command)[2])
        if re.fullmatch(r"python setup\.py (install|develop)( -\S+)*", line):
            continue
        if (pip := _PIP.match(line)) is None:
            raise NotFollowedError(f"{command}: is not pip's")
        for word in line[pip.end() :].split():
            if project := _PROJECT.fullmatch(word):
                extras += filter(None, (project[1] or "").split(","))
            elif not _WITHOUT_EFFECT.fullmatch(word):
                further.append(word)
    return further, extras


def _parts(command: str) -> tuple[list[str], str, list[str]]:
    """Return the variables and the folder with which a command begins, and its words."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise NotFollowedError(f"{command}: {error}") from None
    variables, folder = [], "{build_dir}"
    while words and (setting := re.match(r"([A-Za-z_]\w*|return-code|in-dir)=", words[0])):
        value = words.pop(0)[setting.end() :]
        if setting[1] == "return-code":
            raise NotFollowedError(f"{command}: must end with 0")
        if setting[1] == "in-dir":
            folder = value
        else:
            variables.append(setting[0] + value)
    return variables, folder, words


def _line(command: str, places: dict[str, str]) -> str:
    variables, folder, words = _parts(command)

    def quoted(word: str) -> str:
        pieces = ""
        try:
            for text, name, _, _ in Formatter().parse(word):
                pieces += (shlex.quote(text) if text else "") + ("" if name is None else places[name])
        except (KeyError, ValueError):
            names = ", ".join(f"{{{name}}}" for name in places)
            raise NotFollowedError(f"{command}: {word}: a commit's build has only {names}") from None
        return pieces or "''"

    if not words or "\0" in command:
        raise NotFollowedError(f"{command}: is no command")
    settings = [f"{name}={quoted(value)}" for name, _, value in (text.partition("=") for text in variables)]
    return f"(cd {quoted(folder)} && {' '.join([*settings, *map(quoted, words)])})"
