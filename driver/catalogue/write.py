"""Write the catalogue's specs: a file for each category, and the bundle that lists them."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from opduel.driver.catalogue.apply import Catalogue
from opduel.driver.catalogue.rules import Rules
from opduel.records import UsageError

_WIDTH = 150  # of a line with one test or one input on it


def spec_files(catalogue: Catalogue, rules: Rules, framework: str) -> dict[str, str]:
    """Return path within ``specifications/`` -> content; the same catalogue makes the same files."""
    files = {}
    for name, tests in catalogue.tests.items():
        head = {
            "$schema": "../spec.schema.json",
            "framework": framework,
            "description": rules.categories[name].description,
        }
        files[f"{rules.folder}/{name}.json"] = spec_text(head, tests)
    bundle = {
        "$schema": "./spec.schema.json",
        "framework": framework,
        "description": "Every operator that there are rules for, by category.",
        "specs": [*files, *rules.beside],
    }
    return {**files, f"{rules.bundle}.json": json.dumps(bundle, indent=2) + "\n"}


def spec_text(head: Mapping[str, str], tests: Sequence[Mapping[str, Any]]) -> str:
    """Return a spec with a line for each field of its head, and then its tests."""
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]
    body = ",\n".join(map(test_text, tests))
    return "{\n" + "\n".join(lines) + f'\n  "tests": [\n{body}\n  ]\n}}\n'


def test_text(test: Mapping[str, Any]) -> str:
    """Return a test on one line where it fits, else with a line for each of its inputs."""
    text = json.dumps(test)
    if len(text) + 4 <= _WIDTH:
        return f"    {text}"
    head = {key: value for key, value in test.items() if key != "inputs"}
    inputs = ",\n".join(f"      {json.dumps(inputs_of_case)}" for inputs_of_case in test["inputs"])
    return f'    {json.dumps(head)[:-1]}, "inputs": [\n{inputs}\n    ]}}'


def write_specs(files: Mapping[str, str], folder: str, root: Path) -> None:
    """Write the files below ``root``, and remove specs of former categories in its ``folder``.

    UsageError: a file can't be written."""
    try:
        (root / folder).mkdir(parents=True, exist_ok=True)
        for old in (root / folder).glob("*.json"):
            if f"{folder}/{old.name}" not in files:
                old.unlink()
        for name, text in files.items():
            (root / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{error.filename}: cannot be written: {error.strerror}: check the path") from None
