"""The recipes for CI systems: what those systems' schemas take, and commands that are ours with options of ours."""

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
from opduel.commands.options import harness_parser, read_options
from opduel.commands.run_bench import run_bench_parser
from opduel.reporters.github import OUTPUTS

EXAMPLES = ROOT / "docs" / "examples"
SCHEMAS = {"opduel.github.yml": "github-workflows", "action.yml": "github-actions", "opduel.gitlab.yml": "gitlab-ci"}
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
    if re.match(r"\s*python3 ", line)
]


def test_every_recipe_is_here_and_in_the_docs() -> None:
    assert {path.name for path in EXAMPLES.glob("*.yml")} == set(SCHEMAS)
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
    values = {"SPEC": "smoke", "TIME_BUDGET": "1800", "CONTROL": "a==1", "TREATMENT": "a==2", "base": "b", "head": "c"}
    _, program, *arguments = [
        re.sub(r"\$(\w+)", lambda match: values.get(match[1], match[0]), word)
        for word in shlex.split(command)
        if word != "${options[@]}"
    ]
    assert not [word for word in arguments if "$" in word]
    if program.endswith("/repo_driver.py"):
        assert parse_driver_options(arguments).own.ab_testing
    else:
        assert program.endswith("/harness.py")
        assert read_options(arguments).benchmark_file == "smoke"


@pytest.mark.parametrize("name", SCHEMAS)
def test_nothing_from_outside_gets_into_a_script_but_by_variables(name: str) -> None:
    assert not [script for script in scripts(recipe(name)) if "${{" in script]


def test_what_the_workflow_may_do_is_little_and_its_actions_have_tags() -> None:
    workflow, action = recipe("opduel.github.yml"), recipe("action.yml")
    jobs = workflow["jobs"]
    assert workflow["permissions"] == {"contents": "read"}
    assert {name: job.get("permissions") for name, job in jobs.items()} == {
        "pull-request": {"contents": "read", "pull-requests": "write"},
        "nightly": None,
    }
    assert "head.repo.full_name == github.repository" in jobs["pull-request"]["if"]  # no code of forks
    steps = [step for job in (*jobs.values(), action["runs"]) for step in job["steps"]]
    assert ["GITHUB_TOKEN" in step.get("env", {}) for step in steps].count(True) == 1
    used = [step["uses"] for step in steps if "uses" in step]
    assert used
    assert all(re.fullmatch(r"actions/[a-z-]+(/[a-z]+)?@v\d+", action_name) for action_name in used)
    checkouts = [step["with"] for step in steps if step.get("uses", "").startswith("actions/checkout@")]
    assert all(action_name["persist-credentials"] is False for action_name in checkouts)


def test_what_was_built_and_measured_is_saved_whatever_the_exit_code() -> None:
    """A job that found a regression has failed: of the action for caches alone, nothing would be saved then."""
    jobs = [*recipe("opduel.github.yml")["jobs"].values(), recipe("action.yml")["runs"]]
    for steps in (job["steps"] for job in jobs):
        (restored,) = [step for step in steps if step.get("uses") == "actions/cache/restore@v4"]
        saved = steps[-1]
        assert saved["uses"] == "actions/cache/save@v4"
        assert saved["if"] in (
            "always() && steps.restored.outcome == 'success'",
            "always() && steps.restored.outputs.cache-hit != 'true' && steps.measure.outputs.report != ''",
        )
        assert saved["with"] == {name: restored["with"][name] for name in ("path", "key")}
        assert restored["with"]["key"].startswith(restored["with"]["restore-keys"].splitlines()[0])
    assert all("github.run_attempt" in job["steps"][-1]["with"]["key"] for job in jobs[:-1])  # a key is saved once
    of_pull_request = next(step for step in jobs[0]["steps"] if step.get("id") == "restored")
    assert "opduel-nightly-" in of_pull_request["with"]["restore-keys"]  # its base was built by night


def test_the_action_hands_on_all_outputs() -> None:
    assert tuple(recipe("action.yml")["outputs"]) == OUTPUTS
    assert all(f"| `{name}` |" in TEXT for name in OUTPUTS)


def test_exit_codes_are_explained() -> None:
    codes = re.findall(r"^\| (\d) \|", TEXT, flags=re.MULTILINE)
    assert codes == [str(code) for code in (DONE, REGRESSED, USAGE, INCOMPLETE)]


def test_options_in_the_text_are_ours() -> None:
    parsers = (harness_parser(), driver_parser(), run_bench_parser())
    option_strings = {name for parser in parsers for action in parser._actions for name in action.option_strings}
    assert set(re.findall(r"(?<![\w-])--[a-z][\w-]*", TEXT)) <= option_strings
