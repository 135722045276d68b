"""The workflows for CI systems: what those systems' schemas take, and commands that are ours with options of ours."""

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from command_line import ROOT

from opduel.commands.driver_options import driver_parser, parse_driver_options
from opduel.commands.entry import DONE, INCOMPLETE, REGRESSED, USAGE
from opduel.commands.init import TEMPLATES
from opduel.commands.options import harness_parser
from opduel.commands.words import words_of_checkout
from opduel.reporters.github import OUTPUTS

EXAMPLES = ROOT / "docs" / "examples"
SCHEMAS = {"opduel.github.yml": "github-workflows", "opduel.gitlab.yml": "gitlab-ci"}
TEXT = (ROOT / "docs" / "how-to" / "ci.md").read_text(encoding="utf-8")


def recipe(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((EXAMPLES / name).read_text(encoding="utf-8"))
    return loaded


def scripts(value: object) -> list[str]:
    """Every shell script in a recipe."""
    if isinstance(value, list):
        return [script for item in value for script in scripts(item)]
    if not isinstance(value, dict):
        return []
    own = [value[key] for key in ("run", "script", "before_script") if key in value]
    return [line for item in own for line in ([item] if isinstance(item, str) else item)] + scripts(
        list(value.values())
    )


COMMANDS = [
    (name, line.partition(" || ")[0].strip())
    for name in SCHEMAS
    for script in scripts(recipe(name))
    for line in script.splitlines()
    if line.strip().startswith("opduel ")
]


def test_every_recipe_is_here_and_in_the_docs() -> None:
    assert {path.name for path in EXAMPLES.glob("*.yml")} == set(SCHEMAS)
    assert all((EXAMPLES / name).resolve() == TEMPLATES / name for name in SCHEMAS), "opduel init writes the same"
    assert all(f"(../examples/{name})" in TEXT for name in SCHEMAS)


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_recipe_is_what_the_system_takes(name: str) -> None:
    """By SchemaStore's schemas, as check-jsonschema brings them along."""
    tool = Path(sys.executable).with_name("check-jsonschema")
    schema = f"vendor.{SCHEMAS[name]}"
    process = subprocess.run(
        [tool, "--builtin-schema", schema, EXAMPLES / name], capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stdout + process.stderr


def test_there_are_commands_in_each() -> None:
    assert {name for name, _ in COMMANDS} == set(SCHEMAS)


@pytest.mark.parametrize(("name", "command"), COMMANDS)
def test_commands_are_good_usage(name: str, command: str) -> None:
    _, subcommand, *words = [re.sub(r"\$(\w+)", "value", word) for word in shlex.split(command)]
    assert subcommand == "local"
    folder, options = words_of_checkout(words)
    assert parse_driver_options(["--local", folder, *options], "opduel local").own.local is not None


@pytest.mark.parametrize("name", SCHEMAS)
def test_nothing_from_outside_gets_into_a_script_but_by_variables(name: str) -> None:
    assert not [script for script in scripts(recipe(name)) if "${{" in script]


def test_what_the_workflow_may_do_is_little_and_its_actions_have_tags() -> None:
    workflow = recipe("opduel.github.yml")
    assert workflow["permissions"] == {"contents": "read", "pull-requests": "write"}
    steps = workflow["jobs"]["opduel"]["steps"]
    assert ["GITHUB_TOKEN" in step.get("env", {}) for step in steps].count(True) == 1
    used = [step["uses"] for step in steps if "uses" in step]
    assert used
    assert all(re.fullmatch(r"(actions|astral-sh)/[a-z-]+(/[a-z]+)?@v\d+", action_name) for action_name in used)
    (checkout,) = [step["with"] for step in steps if step.get("uses", "").startswith("actions/checkout@")]
    assert checkout == {"fetch-depth": 0, "persist-credentials": False}, "a shallow clone has no merge base"


def test_builds_are_saved_whatever_the_exit_code() -> None:
    """A job that found a regression has failed: of the action for caches alone, nothing would be saved then."""
    steps = recipe("opduel.github.yml")["jobs"]["opduel"]["steps"]
    (restored,) = [step for step in steps if step.get("uses") == "actions/cache/restore@v4"]
    saved = steps[-1]
    assert saved["uses"] == "actions/cache/save@v4"
    assert saved["if"] == "always() && steps.restored.outcome == 'success'"
    assert saved["with"] == {name: restored["with"][name] for name in ("path", "key")}
    assert restored["with"]["key"].startswith(restored["with"]["restore-keys"])
    assert "github.run_attempt" in saved["with"]["key"], "a key is saved once"
    assert recipe("opduel.gitlab.yml")["opduel"]["cache"]["when"] == "always"


def test_all_outputs_are_explained() -> None:
    assert all(f"| `{name}` |" in TEXT for name in OUTPUTS)


@pytest.mark.parametrize("name", SCHEMAS)
@pytest.mark.parametrize(
    ("line", "code", "wanted"),
    [
        ("Nothing was compared: every case failed", 3, 2),
        ("This run can't be trusted", 3, None),
        ("1 regressed", 1, 1),
        ("0 regressed", 0, 0),
    ],
)
def test_a_job_fails_where_no_case_can_run_and_is_only_warned_of_a_busy_machine(
    tmp_path: Path, name: str, line: str, code: int, wanted: int | None
) -> None:
    """By the script itself, with a program in opduel's place. GitLab's own rules make a warning of 3."""
    program = tmp_path / "opduel"
    program.write_text(f'#!/bin/sh\necho "{line}" >&2\nexit {code}\n')
    program.chmod(0o755)
    (script,) = [script for script in scripts(recipe(name)) if "opduel local" in script]
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    ended = subprocess.run(
        ["bash", "-e", "-c", script], cwd=tmp_path, env=environment, capture_output=True, check=False
    )
    assert ended.returncode == ({"opduel.github.yml": 0, "opduel.gitlab.yml": 3}[name] if wanted is None else wanted)


def test_exit_codes_are_explained() -> None:
    codes = re.findall(r"^\| (\d) \|", TEXT, flags=re.MULTILINE)
    assert codes == [str(code) for code in (DONE, REGRESSED, USAGE, INCOMPLETE)]


def test_options_in_the_text_are_ours() -> None:
    parsers = (harness_parser(), driver_parser())
    option_strings = {name for parser in parsers for action in parser._actions for name in action.option_strings}
    assert set(re.findall(r"(?<![\w-])--[a-z][\w-]*", TEXT)) <= option_strings
