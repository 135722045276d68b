"""The workflows for CI systems: what those systems' schemas take, and commands that are ours with options of ours."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import report_samples as samples
import yaml
from command_line import ROOT
from plain_package import PlainPackage

from opduel.commands.driver_options import driver_parser, parse_driver_options
from opduel.commands.entry import DONE, INCOMPLETE, REGRESSED, USAGE
from opduel.commands.init import TEMPLATES
from opduel.commands.options import harness_parser
from opduel.commands.words import words_of_checkout
from opduel.records import Failure
from opduel.reporters.github import OUTPUTS
from opduel.reporters.summary import unsettled_lines

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


def test_what_the_workflow_may_do_is_little_and_its_actions_are_pinned() -> None:
    workflow = recipe("opduel.github.yml")
    assert workflow["permissions"] == {"contents": "read", "pull-requests": "write"}
    steps = workflow["jobs"]["opduel"]["steps"]
    assert ["GITHUB_TOKEN" in step.get("env", {}) for step in steps].count(True) == 1
    used = [step["uses"] for step in steps if "uses" in step]
    assert used
    assert all(re.fullmatch(r"(actions|astral-sh)/[a-z-]+(/[a-z]+)?@[0-9a-f]{40}", name) for name in used)
    text = (EXAMPLES / "opduel.github.yml").read_text(encoding="utf-8")
    assert [line for line in text.splitlines() if "uses: " in line and not re.search(r" # v\d+\.\d+\.\d+$", line)] == []
    (checkout,) = [step["with"] for step in steps if step.get("uses", "").startswith("actions/checkout@")]
    assert checkout == {"fetch-depth": 0, "persist-credentials": False}, "a shallow clone has no merge base"


def test_builds_are_saved_whatever_the_exit_code() -> None:
    """A job that found a regression has failed: of the action for caches alone, nothing would be saved then."""
    steps = recipe("opduel.github.yml")["jobs"]["opduel"]["steps"]
    (restored,) = [step for step in steps if step.get("uses", "").startswith("actions/cache/restore@")]
    saved = steps[-1]
    assert saved["uses"] == restored["uses"].replace("restore", "save")
    assert saved["if"] == "always() && steps.restored.outcome == 'success'"
    assert saved["with"] == {name: restored["with"][name] for name in ("path", "key")}
    assert restored["with"]["key"].startswith(restored["with"]["restore-keys"])
    assert "github.run_attempt" in saved["with"]["key"], "a key is saved once"
    assert recipe("opduel.gitlab.yml")["opduel"]["cache"]["when"] == "always"


def test_all_outputs_are_explained() -> None:
    assert all(f"| `{name}` |" in TEXT for name in OUTPUTS)


NOTHING = samples.report([samples.failed("a", Failure("both", "error", "no"))])


@pytest.mark.parametrize("name", SCHEMAS)
@pytest.mark.parametrize(
    ("line", "code", "has_report", "expected"),
    [
        (unsettled_lines(NOTHING)[0].capitalize(), 3, True, "failed"),
        ("opduel local: error: the control can't be built", 3, False, "failed"),
        ("this run can't be trusted", 3, True, "warned"),
        ("1 regressed", 1, True, 1),
        ("", 2, False, 2),
        ("0 regressed", 0, True, 0),
        ("nothing to measure: no file is changed", 0, False, 0),
    ],
)
def test_a_job_fails_where_no_case_is_compared_and_warns_of_a_run_that_is_not_complete(
    tmp_path: Path, name: str, line: str, code: int, has_report: bool, expected: int | str
) -> None:
    """By the script itself, with a program in opduel's place. GitLab's own rules make a warning of 3."""
    program, is_github = tmp_path / "opduel", name == "opduel.github.yml"
    report = "mkdir opduel-reports; touch opduel-reports/report.json" if has_report else "true"
    program.write_text(f'#!/bin/sh\necho "{line}" >&2\n{report}\nexit {code}\n')
    program.chmod(0o755)
    (script,) = [script for script in scripts(recipe(name)) if "opduel local" in script]
    summary = tmp_path / "summary"
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "GITHUB_STEP_SUMMARY": str(summary)}
    process = subprocess.run(
        ["bash", "-e", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    code_of = {"failed": 3, "warned": 0} if is_github else {"failed": 2, "warned": 3}
    assert process.returncode == code_of.get(str(expected), expected)
    assert ("no case was compared" in process.stdout) == (expected == "failed")
    assert summary.exists() == (is_github and expected == "failed")


@pytest.mark.parametrize(
    ("changed", "is_measured"),
    [
        ("docs/index.md", False),
        ("doc/index.txt", False),
        ("README.md", False),
        ("src/notes.rst", False),
        ("src/smoother/__init__.py", True),
    ],
)
def test_documentation_alone_is_not_measured(home: Path, changed: str, is_measured: bool) -> None:
    package = PlainPackage(home / "checkout")
    base = package.git("rev-parse", "HEAD")
    package.write(changed, "changed\n")
    package.commit("Changed")
    script = recipe("opduel.gitlab.yml")["opduel"]["before_script"][0]
    process = subprocess.run(
        ["bash", "-e", "-c", f"{script}\necho measured"],
        cwd=package.folder, env={**os.environ, "CI_MERGE_REQUEST_DIFF_BASE_SHA": base},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert (process.stdout == "measured\n") == is_measured
    workflow: dict[Any, Any] = {**recipe("opduel.github.yml")}
    patterns = workflow[True]["pull_request"]["paths-ignore"]  # YAML 1.1 reads "on" as true
    regexes = {"**/": "(.*/)?", "**": ".*", "*": "[^/]*", ".": r"\."}
    ignored = [re.sub(r"\*\*/?|[*.]", lambda match: regexes[match[0]], pattern) for pattern in patterns]
    assert any(re.fullmatch(pattern, changed) for pattern in ignored) != is_measured


def test_exit_codes_are_explained() -> None:
    codes = re.findall(r"^\| (\d) \|", TEXT, flags=re.MULTILINE)
    assert codes == [str(code) for code in (DONE, REGRESSED, USAGE, INCOMPLETE)]


def test_options_in_the_text_are_ours() -> None:
    parsers = (harness_parser(), driver_parser())
    option_strings = {name for parser in parsers for action in parser._actions for name in action.option_strings}
    assert set(re.findall(r"(?<![\w-])--[a-z][\w-]*", TEXT)) <= option_strings
