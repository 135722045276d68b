"""The tutorial's commands are good usage and choose the cases that its outputs show; its lists are what is printed."""

import re
import shlex
from pathlib import Path

import pytest

from opduel.commands.case_selection import choose_cases
from opduel.commands.driver_options import parse_driver_options as parse_driver
from opduel.commands.listing import list_cases
from opduel.commands.options import read_options
from opduel.commands.run_bench import run_bench_parser

ROOT = Path(__file__).resolve().parents[2]
TUTORIAL = ROOT / "docs" / "tutorial"
# Each command with the last output that follows it.
STEPS = [
    (page.name, command, re.findall(r"```text\n(.*?)```", text, re.DOTALL)[-1])
    for page in sorted(TUTORIAL.glob("*.md"))
    for command, text in re.findall(
        r"```sh\n(python3 .*?)\n```\n(.*?)(?=```sh|\Z)", page.read_text(encoding="utf-8"), re.DOTALL
    )
]


@pytest.fixture(autouse=True)
def _in_the_tutorials_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (spec,) = re.findall(r"```json\n(.*?)```", (TUTORIAL / "own-spec.md").read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "my-model.json").write_text(spec, encoding="utf-8")
    monkeypatch.chdir(tmp_path)


def test_there_are_steps() -> None:
    commands = [shlex.split(command)[1] for _, command, _ in STEPS]
    assert sorted(commands) == ["harness.py", "harness.py", "harness.py", "repo_driver.py", "run_bench.py"]


@pytest.mark.parametrize(("page", "command", "output"), STEPS)
def test_a_step_shows_what_its_command_prints(
    page: str, command: str, output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _, script, *arguments = shlex.split(command)
    if script == "run_bench.py":
        own, other_words = run_bench_parser().parse_known_args(arguments)
        assert list_cases(own.list, read_options(other_words) if other_words else None) == 0
        printed = [line.split("\t") for line in capsys.readouterr().out.splitlines() if not line.startswith("#")]
        assert printed == [line.split() for line in output.splitlines()]
        return
    if script == "repo_driver.py":
        parse_driver(arguments)
        assert re.search(r"^dot/forward ", output, re.MULTILINE)
        return
    printed_ids = re.findall(r"^(\S+/(?:forward|backward)\S*) ", output, flags=re.MULTILINE)
    assert sorted(printed_ids) == sorted(case.id for case in choose_cases(read_options(arguments), 0).cases)
