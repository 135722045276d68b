"""A project's settings: found upwards, below the user's config and the command line, and all of them harmless."""

from collections.abc import Callable
from pathlib import Path

import pytest

from opduel.commands.config import ARGUMENTS, config_path, write_config
from opduel.commands.defaults import DRIVER, HARNESS, PARSERS, with_defaults
from opduel.commands.option_types import path
from opduel.commands.project import HARMLESS, project_settings
from opduel.commands.subcommands import SUBCOMMANDS
from opduel.records import UsageError

Project = Callable[[str], Path]

CONFIGURED = [name for name, command in SUBCOMMANDS.items() if command.takes_run_options]


@pytest.fixture
def pyproject(home: Path) -> Project:
    """Write a pyproject.toml, and return a folder two levels below it."""

    def write(text: str) -> Path:
        inner = home / "project" / "a" / "b"
        inner.mkdir(parents=True, exist_ok=True)
        (home / "project" / "pyproject.toml").write_text(text, encoding="utf-8")
        return inner

    return write


def defaults(folder: Path, *arguments: str, name: str = "compare", command: str = HARNESS) -> list[str]:
    return with_defaults(command, arguments, project_settings(name, CONFIGURED, folder))


def test_settings_are_found_in_a_folder_above(pyproject: Project) -> None:
    folder = pyproject('[tool.opduel]\ntime-budget = 600\nthreshold = ["2%", "instructions=0.5%"]\nverify = true\n')
    expected = ["--time_budget=600", "--threshold=2%", "--threshold=instructions=0.5%", "--verify"]
    assert defaults(folder) == expected


def test_the_command_line_overrides_the_config_and_that_the_project(pyproject: Project) -> None:
    folder = pyproject("[tool.opduel]\ntime_budget = 1\nseed = 1\nalpha = 0.1\n")
    write_config(config_path(), {ARGUMENTS: {HARNESS: {"time_budget": 2, "seed": 2}}})
    assert defaults(folder, "--time_budget", "3") == ["--seed=2", "--alpha=0.1", "--time_budget", "3"]


def test_a_table_overrides_what_holds_for_all_subcommands(pyproject: Project) -> None:
    folder = pyproject("[tool.opduel]\ntime_budget = 1\n[tool.opduel.drive]\ntime_budget = 2\nregression = true\n")
    assert defaults(folder, name="drive", command=DRIVER) == ["--time_budget=2", "--regression"]
    assert defaults(folder) == ["--time_budget=1"]


def checkout_setting(pyproject: Project, text: str, name: str = "local") -> list[str]:
    folder = pyproject(text)
    (folder.parents[1] / ".git").mkdir(exist_ok=True)
    return defaults(folder, name=name, command=DRIVER)


def test_what_is_measured_by_opduel_local_the_checkouts_own_file_may_say(pyproject: Project, home: Path) -> None:
    suite = '[tool.opduel.local]\nsuite = "benchmarks"\nbench = "time_"\n'
    assert checkout_setting(pyproject, suite) == [f"--suite={home}/project/benchmarks", "--bench=time_"]
    assert checkout_setting(pyproject, suite, "drive") == [], "another subcommand's"
    lines = '[tool.opduel.local]\nsetup = "x = 1"\nstatement = ["f(x)", "g(x)"]\n'
    assert checkout_setting(pyproject, lines) == ["--setup=x = 1", "--statement=f(x)", "--statement=g(x)"]
    for suite in ("../../elsewhere", "/tmp", "https://example.org/x", "benchmarks@main"):
        with pytest.raises(UsageError, match=r"local\.suite: .* is not in this checkout"):
            checkout_setting(pyproject, f'[tool.opduel.local]\nsuite = "{suite}"\n')
    with pytest.raises(UsageError, match=r"local\.statment: is not .*: did you mean statement\?"):
        checkout_setting(pyproject, '[tool.opduel.local]\nstatment = ["f()"]\n')
    for text in ('[tool.opduel]\nsuite = "benchmarks"\n', '[tool.opduel.drive]\nstatement = "f()"\n'):
        with pytest.raises(UsageError, match="is not one of the settings that a project"):
            checkout_setting(pyproject, text, "drive")


def test_packages_for_opduel_local_are_names_without_addresses_and_files(pyproject: Project) -> None:
    packages = '[tool.opduel.local]\nsuite_packages = ["numpy>=2", "six"]\nwith_packages = "python==3.12 scipy[test]"\n'
    expected = ["--suite_packages=numpy>=2 six", "--with_packages=python==3.12 scipy[test]"]
    assert checkout_setting(pyproject, packages) == expected
    for word in ("six @ https://example.org/x.whl", "six@https://example.org/x", "bench.txt", "./own", "--index-url=x"):
        with pytest.raises(UsageError, match=r"local\.with_packages: .* is not the name of a package: write one such"):
            checkout_setting(pyproject, f'[tool.opduel.local]\nwith_packages = "{word}"\n')
    with pytest.raises(UsageError, match=r"suite_packages: .*: move it to the table tool\.opduel\.local, for"):
        checkout_setting(pyproject, '[tool.opduel]\nsuite_packages = "six"\n')


OTHERS = sorted({action.dest for make in PARSERS[DRIVER] for action in make()._actions} - HARMLESS)


def test_whatever_else_there_is_a_checkout_cannot_set(pyproject: Project) -> None:
    for name in OTHERS:
        folder = pyproject(f'[tool.opduel]\n{name} = "x"\n')
        with pytest.raises(UsageError, match=rf"tool\.opduel\.{name}: is not one of the settings that a project"):
            defaults(folder, name="drive", command=DRIVER)


def test_what_it_can_set_is_an_option_and_no_path() -> None:
    actions = {action.dest: action for make in PARSERS[DRIVER] for action in make()._actions}
    assert actions.keys() >= HARMLESS
    assert [name for name in HARMLESS if actions[name].type is path] == []
    for name in ("env", "frameworks_dir", "spool", "remote_reporter", "control", "suite", "benchmark_file", "exec_dir"):
        assert name in OTHERS


def test_a_file_of_its_own_comes_first(pyproject: Project) -> None:
    folder = pyproject("[tool.opduel]\nseed = 1\n")
    (folder.parents[1] / "opduel.toml").write_text("seed = 2\n")
    assert defaults(folder) == ["--seed=2"]
    (folder / "pyproject.toml").write_text("[tool.other]\n")
    assert defaults(folder) == ["--seed=2"], "the nearest with settings"


def test_without_settings_nothing_is_added(pyproject: Project) -> None:
    assert defaults(pyproject("[project\nname = 'not for us to judge'\n"), "-b", "conv") == ["-b", "conv"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[tool.opduel]\nseed = \n", "pyproject.toml: is not TOML"),
        ("[tool]\nopduel = 1\n", "tool.opduel: must be a table"),
        ("[tool.opduel]\nsede = 1\n", "tool.opduel.sede: is not one of the settings"),
        ("[tool.opduel.compare]\ntime_bugdet = 1\n", "you: did you mean time_budget? If not, take"),
        ("[tool.opduel]\nseed = 'x'\n", "tool.opduel.seed: 'x' is not a whole number"),
        ("[tool.opduel.compere]\nseed = 1\n", "tool.opduel.compere: is not a subcommand: use compare"),
        ("[tool.opduel.compare]\nseed = [1, 2]\n", "tool.opduel.compare.seed: takes one value"),
        ("[tool.opduel]\nremote-access-token = 'x'\n", "tool.opduel.remote-access-token: is not one of the settings"),
    ],
)
def test_an_error_names_file_field_and_fix(pyproject: Project, text: str, words: str) -> None:
    with pytest.raises(UsageError, match=r"pyproject\.toml") as caught:
        defaults(pyproject(text))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
