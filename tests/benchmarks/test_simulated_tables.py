"""The simulated figures of statistics.md are what its commands print today."""

import re
from collections.abc import Callable, Sequence

import pytest
from scipy import stats

from benchmarks import simulate_decisions, simulate_disturbance
from benchmarks.raw_results import ROOT

PAGE = (ROOT / "docs" / "explanation" / "statistics.md").read_text(encoding="utf-8")
Main = Callable[[Sequence[str]], int]
Counts = dict[str, tuple[int, int]]  # what -> how often, out of how many
Printed = Callable[..., dict[str, Counts]]  # by scenario


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Printed:
    """Executes a command of the page as it stands there, and reads what it prints: a title, and indented lines."""

    def execute(main: Main, command: str) -> dict[str, Counts]:
        script = f"    .venv/bin/python benchmarks/{main.__module__.rpartition('.')[2]}.py {command}".rstrip()
        assert f"\n{script}\n" in PAGE
        assert main(command.split()) == 0
        found: dict[str, Counts] = {}
        for block in capsys.readouterr().out.split("\n\n"):
            title, *lines = block.strip().splitlines()
            matches = [re.match(r"  (.*?)\s+(\d+) of\s+(\d+) = ", line) for line in lines]
            found[title] = {one[1]: (int(one[2]), int(one[3])) for one in matches if one}
        return found

    return execute


def table_after(text: str) -> list[list[str]]:
    """The cells of the page's first table after this text, without its heading."""
    lines = PAGE[PAGE.index(text) :].split("\n\n|", 1)[1].split("\n\n", 1)[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def shows(cell: str, count: int, total: int) -> bool:
    """Whether a cell has this count, or this share, rounded; and its exact interval, if it has one."""
    figure = re.match(rf"{count} of {total}\b|([\d.]+) %", cell)
    if figure is None or (figure[1] and not rounded(figure[1], 100 * count / total)):
        return False
    limits = re.search(r"\(([\d.]+) to ([\d.]+)", cell)
    exact = stats.binomtest(count, total).proportion_ci(method="exact")
    return limits is None or (rounded(limits[1], 100 * exact.low) and rounded(limits[2], 100 * exact.high))


def rounded(text: str, value: float) -> bool:
    """Whether this is the value with the text's number of decimals, either way where it ends in 5."""
    return abs(value - float(text)) <= 0.5 * 10.0 ** -len(text.partition(".")[2]) + 1e-9


def summed(by_scenario: Sequence[Counts], what: str) -> tuple[int, int]:
    """Over all of them."""
    counts = [one[what] for one in by_scenario]
    return sum(count for count, _ in counts), sum(total for _, total in counts)


def test_a_cell_shows_a_count_or_a_rounded_share_with_its_interval() -> None:
    assert shows("2 of 50 (0 to 14 %)", 2, 50)
    assert shows("91.3 % (89.4 to 93.0), 1.7 % at screening", 913, 1000)
    assert shows("72 %", 719, 1000)
    assert not shows("2 of 50 (0 to 15 %)", 2, 50)
    assert not shows("2 of 50", 2, 500)
    assert not shows("91.3 %", 914, 1000)
    assert not shows("", 0, 50)
    assert shows("1.5 %", 29, 2000)
    assert not shows("1.6 %", 29, 2000)


@pytest.mark.nightly
def test_decisions(printed: Printed) -> None:
    scenarios = list(printed(simulate_decisions.main, "").items())[1:]  # the first block has the settings
    table = table_after("## Simulated figures")
    assert len(scenarios) == len(table)
    columns = {2: "runs with a false flag", 3: "found", 4: "unchanged, rightly", 5: "unchanged, wrongly"}
    for (title, counts), cells in zip(scenarios, table, strict=True):
        rounds = re.search(r": ([\d.]+) screening \+ ([\d.]+) confirmation", title)
        assert rounds is not None
        assert cells[1] == f"{rounds[1]} + {rounds[2]}", title
        for column, what in columns.items():
            assert bool(cells[column]) == (what in counts), (title, what)
            assert not cells[column] or shows(cells[column], *counts[what]), (title, what, counts[what])
        if early := re.search(r", (.*) at screening", cells[3]):
            assert shows(early[1], *counts["found at screening"]), (title, counts)
    held = [counts["screening: ci holds truth"] for _, counts in scenarios[1:3]]  # +5 %, +10 %
    assert "in {} of {} cases of +10 %, and in {} of {} of +5 %".format(*held[1], *held[0]) in PAGE, held


@pytest.mark.nightly
def test_forecasts(printed: Printed) -> None:
    scenarios = printed(simulate_decisions.main, "--forecasts --runs 60")
    shown = {"A/A at 2 %": "A/A", "every second +5 % at 2 %": "+5 %", "every second +10 % at 2 %": "+10 %"}
    shown["every second +2 % at 0.5 %"] = "+2 % at 0.5 %"
    for title, name in shown.items():
        settled = [count for what, count in scenarios[title].items() if what.endswith("settled by then")]
        met, total = (sum(part) for part in zip(*settled, strict=True))
        assert re.search(rf"\b{met} of\s{total} \({re.escape(name)}\)", PAGE), (title, met, total)


@pytest.mark.nightly
def test_disturbances(printed: Printed) -> None:
    commands = ("--change 0.02", "--change 0.0202", "--changed 1 --change 0.5")
    equal, beyond, one = (
        printed(simulate_disturbance.main, f"--runs 50 --cases 10 {command}").items() for command in commands
    )
    table = table_after("*Simulated:*")
    asked = [(equal, "runs with a false flag"), (beyond, "unchanged of those beyond")]
    asked.append((one, "regressed of those beyond"))
    for (scenarios, what), cells in zip(asked, table, strict=False):
        symmetric = [counts for title, counts in scenarios if not title.startswith("one_sided")]
        assert len(symmetric) == 6
        for cell, how in zip(cells[1:], ("reported", "standing"), strict=True):
            count = summed(symmetric, f"{how}: {what}")
            assert shows(cell, *count), (cells[0], how, count)
    rounds = [re.search(r": ([\d.]+) rounds a case, ([\d.]+) in all", title) for title, _ in one][:6]
    more = [round(float(each[2]) - float(each[1]), 1) for each in rounds if each]
    assert f"took {min(more)} to {max(more)} rounds a case more" in PAGE, more
    (broken,) = (counts for title, counts in equal if title.startswith("one_sided"))
    for cell, how in zip(table[3][1:], ("reported", "standing"), strict=True):
        assert shows(cell, *broken[f"{how}: runs with a false flag"]), (how, broken)


@pytest.mark.nightly
def test_biases(printed: Printed) -> None:
    commands = ("--change 0.02", "--changed 1 --change 0.5", "--changed 1 --change 0.5 --bias 0.01")
    runs = [printed(simulate_disturbance.main, f"--biased --runs 200 {command}") for command in commands]
    for cells in table_after("--changed 1 --change 0.5 --bias 0.01"):
        name = re.search(r"`(\w+)`", cells[0])
        assert name is not None
        equal, large, small = (
            next(counts for title, counts in run.items() if title.startswith(f"{name[1]},")) for run in runs
        )
        assert shows(cells[1], *equal["reported: runs with a false flag"]), (name, equal)
        assert shows(cells[2], *equal["standing: runs with a false flag"]), (name, equal)
        assert shows(cells[3], *large["standing: regressed of those beyond"]), (name, large)
        assert shows(cells[4], *small["standing: regressed of those beyond"]), (name, small)
