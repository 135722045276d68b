"""A project's settings: found upwards, below the user's config and the command line, paths from the file's folder."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from opduel.commands.config import ARGUMENTS, config_path, write_config
from opduel.commands.defaults import DRIVER, HARNESS, with_defaults
from opduel.commands.project import project_settings
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


def test_paths_begin_at_the_files_folder(pyproject: Project) -> None:
    folder = pyproject('[tool.opduel]\nbenchmark_file = "ours.json"\nlocal_reporter = "reports"\nround_log = "log"\n')
    root = folder.parents[1]
    expected = [f"--local_reporter={root / 'reports'}", f"--round_log={root / 'log'}"]
    assert defaults(folder) == ["--benchmark_file=ours.json", *expected], "a name, as there is no such file"
    (root / "ours.json").touch()
    assert defaults(folder) == [f"--benchmark_file={root / 'ours.json'}", *expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            'export_reporter = ["junit=a.xml", "md=/b.md"]',
            ["--export_reporter=junit={0}/a.xml", "--export_reporter=md=/b.md"],
        ),
        ('notify_webhook = ["@hook", "https://x"]', ["--notify_webhook=@{0}/hook", "--notify_webhook=https://x"]),
        ('spool = "waiting"', ["--spool={0}/waiting"]),
        ('root_model_dir = "there"', ["--root_model_dir={0}/there"]),
        ('shared_libs = "there/a.so, there/b.so"', ["--shared_libs={0}/there/a.so,{0}/there/b.so"]),
        ('suite = "there"', ["--suite={0}/there"]),
        ('suite = "there@main:sub"', ["--suite={0}/there@main:sub"]),
        ('suite = "https://example.org/a.git@main:there"', ["--suite=https://example.org/a.git@main:there"]),
        ('network = "net-symbol.json"', ["--network={0}/net-symbol.json"]),
        ('network = "resnet18_v1"', ["--network=resnet18_v1"]),
        ('network = "nets.py:Net"', ["--network={0}/nets.py:Net"]),
        ('network = "nets:Net"', ["--network={0}/nets:Net"]),
        ('network = "elsewhere:Net"', ["--network=elsewhere:Net"]),
        ('info = "builds.json"', ["--info={0}/builds.json"]),
    ],
)
def test_so_do_those_of_lists_and_those_that_may_be_something_else(
    pyproject: Project, text: str, expected: Sequence[str]
) -> None:
    folder = pyproject(f"[tool.opduel]\n{text}\n")
    root = folder.parents[1]
    (root / "there").mkdir()
    for name in ("there/a.so", "there/b.so", "net-symbol.json", "nets.py"):
        (root / name).touch()
    assert defaults(folder) == [word.format(root) for word in expected]


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
        ("[tool.opduel]\nexport_reporter = ['md=~nobody-of-that-name/b.md']\n", "there is no such user"),
        ("[tool.opduel]\nsede = 1\n", "tool.opduel.sede: harness.py has no such option"),
        ("[tool.opduel]\nseed = 'x'\n", "tool.opduel.seed: argument --seed: 'x' is not a whole number"),
        ("[tool.opduel.compere]\nseed = 1\n", "tool.opduel.compere: is not a subcommand: use compare"),
        ("[tool.opduel.compare]\nseed = [1, 2]\n", "tool.opduel.compare.seed: --seed takes one value"),
        ("[tool.opduel]\nnotify_command = 'mail us'\n", "tool.opduel.notify_command: can't be set for a project"),
        ("[tool.opduel]\nfleet = 'tls://theirs:8786'\n", "tool.opduel.fleet: can't be set for a project"),
        ("[tool.opduel]\nremote-access-token = 'x'\n", "tool.opduel.remote-access-token: can't be set for a project"),
    ],
)
def test_an_error_names_file_field_and_fix(pyproject: Project, text: str, words: str) -> None:
    with pytest.raises(UsageError, match=r"pyproject\.toml") as caught:
        defaults(pyproject(text))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
