"""opduel run COMMAND COMMAND: two command lines against each other, without a spec, with hyperfine's options."""

import argparse
import hashlib
import json
import os
import shlex
from collections.abc import Sequence
from pathlib import Path

import platformdirs

from opduel.harness.specs import validate
from opduel.harness.specs.programs import check_words
from opduel.records import UsageError, disk_error
from opduel.support.atomic import write_atomically


def spec_of(options: argparse.Namespace, commands: Sequence[str]) -> Path:
    """Write a spec of the one case that runs what a build is, in this folder, and return its path. UsageError: a
    command has what only a shell would follow."""
    for command in commands:
        try:
            check_words(shlex.split(command), 'write sh -c "..." around it')
        except ValueError as error:
            raise UsageError(f"{command}: {error}") from None
    try:
        folder = os.getcwd()
    except FileNotFoundError:
        raise UsageError("this folder was removed: change into one that is there") from None
    fields = {
        "identifier": "run",
        "command": ["{program}"],
        "cwd": folder,
        "prepare": options.prepare,
        "cleanup": options.cleanup,
        "stdin": options.input and os.path.join(folder, options.input),
        "exit_codes": list(range(256)) if options.ignore_failure else None,
    }
    test = {name: value for name, value in fields.items() if value is not None}
    spec = {"framework": "generic", "tests": [test]}
    try:
        validate(spec)
    except UsageError as error:
        raise UsageError(str(error).replace("tests[0].", "--")) from None
    text = json.dumps(spec, indent=1)
    path = (
        platformdirs.user_cache_path("opduel")
        / "commands"
        / hashlib.sha256(text.encode()).hexdigest()[:12]
        / "run.json"
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text.encode())
    except OSError as error:
        raise disk_error(path, error, "set XDG_CACHE_HOME to another folder") from None
    return path
