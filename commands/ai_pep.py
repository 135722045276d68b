"""AI-PEP's options: those that make sense on a host, and a line for each of the others.

https://github.com/facebookarchive/FAI-PEP: benchmarking/harness.py, repo_driver.py, run_bench.py, lab_driver.py.
"""

import argparse
import json
import logging
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from opduel.commands.harness_options import HarnessOptions
from opduel.commands.option_types import command_words, string_map
from opduel.records import UsageError
from opduel.reporters.arguments import Parser

log = logging.getLogger(__name__)

FRAMEWORKS = ("caffe2", "tflite", "pytorch", "glow", "oculus")  # AI-PEP's, whose builds are programs
_LAB = "is for AI-PEP's lab of devices: use --fleet ADDRESS, or leave it out"

# What changes nothing here: the option, and why.
IGNORED: Mapping[Sequence[str], str] = {
    ("--android_dir", "--ios_dir", "--monsoon_map"): "is for phones",
    ("--hash_platform_mapping", "--device_name_mapping"): "is for phones",
    ("--cooldown",): "both builds are measured in turn, without a pause between them",
    ("--debug",): "nothing needs to be kept to look at a run again: its report.json has every sample",
    ("--logger_level",): "everything is logged on standard error",
}
# What is not taken: the option as it is written, and what to do instead.
NOT_TAKEN: Mapping[Sequence[str], str] = {
    ("--reboot",): "is decided on each host: use opduel fleet worker --before_run COMMAND, or leave it out (each round "
    "starts fresh processes)",
    ("--set_freq",): "is decided on each host: use opduel fleet worker --set_freq FREQUENCY",
    ("--platform_sig",): "use --platform NAME, a name for this kind of machine",
    ("--backend",): "a build has the backend that it was compiled with: name such builds with --control and "
    "--treatment, or use --ctx gpu; a program's own option goes into --command_args",
    ("--user_string",): "use --user_identifier TEXT",
    ("--config_dir",): "set the variable XDG_CONFIG_HOME",
    ("--adhoc",): "use --operators NAME --inputs JSON",
    ("--custom_binary", "-c", "--pre_built_binary"): "use --treatment PATH",
    ("--buck_target",): "commits are built by build.sh of the platform: use --platforms NAME",
    ("--lab", "--remote", "--server_addr", "--file_storage", "--rt_logging", "--use_enkaku", "--quota_use_case"): _LAB,
}

_TRUTHS = dict.fromkeys(("true", "yes", "on", "1"), True) | dict.fromkeys(("false", "no", "off", "0"), False)


class _Foreign(argparse.Action):
    """An option that ends the command with the line that says what to do instead, or does nothing but say so."""

    def __init__(self, *arguments: Any, why: str, is_ignored: bool, **settings: Any) -> None:
        hidden = {"nargs": "?", "default": argparse.SUPPRESS, "help": argparse.SUPPRESS}
        super().__init__(*arguments, **{**settings, **hidden})
        self._why, self._is_ignored = why, is_ignored

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: object, values: object, option_string: str | None = None
    ) -> None:
        if not self._is_ignored:
            raise UsageError(f"{option_string}: {self._why}")
        _warn_once(f"{option_string}: {self._why}: ignored")


@cache
def _warn_once(line: str) -> None:
    log.warning("%s", line)  # defaults are read again and again


def add_ai_pep_options(parser: Parser) -> None:
    """Those of harness.py: the ones that work here in a group of their own, all others with their lines."""
    add = parser.options("as in AI-PEP")
    add(
        "--wipe_cache BOOL",
        "evict the processor's caches before each timed call, on both sides alike",
        type=_truth,
        nargs="?",
        const=True,
        default=False,
    )
    add(
        "--root_model_dir DIR",
        "the folder for locations in a spec that begin with //",
        type=_folder,
    )
    add(
        "--shared_libs A,B,...",
        "shared libraries that a build needs; their folders are added to its library path (builds given as paths)",
        type=_libraries,
    )
    add(
        "--regressed_types JSON",
        'measure only these cases, which regressed before: a JSON list of ids, ["add/forward"]; the run type is '
        "regress",
        type=_names,
    )
    add(
        "--program PATH",
        "for programs: where the program is in a build, with {build} for what --control and --treatment say",
        dest="build_program",
    )
    add("--command_args WORDS", "for programs: further arguments at the end of each command line", type=command_words)
    add(
        "--string_map JSON",
        'for programs: texts for the words in braces of command lines, {"size": "100"} for {size}',
        type=string_map,
    )
    for names, why in {**NOT_TAKEN, **IGNORED}.items():
        for name in names:
            parser.add_argument(name, action=_Foreign, why=why, is_ignored=names in IGNORED)


def of_one_build(options: HarnessOptions) -> HarnessOptions:
    """Return the options, with the build of an ``--info`` that has no control as --treatment; without --control that
    alone is measured. UsageError: --info can't be read."""
    if options.info is None or options.treatment is not None:
        return options
    from opduel.driver.descriptor import read_info

    sides = read_info(options.info)
    if "control" in sides:
        return options
    single = options.control is None
    if single:
        log.info("--info has no control: its treatment is timed alone, as with --single")
    explicit = options.explicit - {"info"} | {"treatment", *(["single"] if single else [])}
    return replace(options, info=None, treatment=sides["treatment"].location, single=single, explicit=explicit)


def host_platform(text: str) -> str:
    """``--platform``: one name, or several with commas between; no phone."""
    for name in text.split(","):
        if re.match(r"\s*(android|ios)\b", name):
            raise argparse.ArgumentTypeError(f"{name!r} is a phone: opduel measures on this host, and others: use host")
    return text


def repository_kind(text: str) -> str:
    """``--repo``: git or hg."""
    if text not in ("git", "hg"):
        raise argparse.ArgumentTypeError(f"{text!r}: git and hg (Mercurial) are supported: convert it to one of them")
    return text


def _truth(text: str) -> bool:
    if text.lower() not in _TRUTHS:
        raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")
    return _TRUTHS[text.lower()]


def _folder(text: str) -> Path:
    path = Path(os.path.abspath(os.path.expanduser(text))) if text else None
    if path is None or not os.path.isdir(path):
        raise argparse.ArgumentTypeError(f"{text!r} is not a folder")
    return path


def _libraries(text: str) -> list[Path]:
    """``A,B`` -> absolute paths of files that are there."""
    paths = {name.strip(): Path(os.path.abspath(os.path.expanduser(name.strip()))) for name in text.split(",")}
    for name, path in paths.items():
        if not os.path.isfile(path):
            raise argparse.ArgumentTypeError(f"{name!r} is not a file: give paths of shared libraries")
        if os.pathsep in str(path.parent):
            raise argparse.ArgumentTypeError(f"{name!r}: a folder with {os.pathsep} in its name can't be used")
    return [*paths.values()]


def _names(text: str) -> list[str]:
    """A JSON list of names."""
    try:
        names = json.loads(text)
    except (ValueError, RecursionError):
        names = None
    if not isinstance(names, list) or not names or not all(isinstance(name, str) and name for name in names):
        raise argparse.ArgumentTypeError(f'{text[:80]!r} is not a JSON list of case ids: write ["add/forward"]')
    return list(dict.fromkeys(names))
