"""docs/explanation/causes.md: its counts, and the changes that it quotes, are those of causes.csv."""

import csv
import re
from pathlib import Path

import pytest
from scipy import stats

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "explanation"
PAGE = (FOLDER / "causes.md").read_text(encoding="utf-8")
with (FOLDER / "causes.csv").open(encoding="utf-8", newline="") as stream:
    ROWS = list(csv.DictReader(stream))
JUDGEMENTS = ("right", "partly right", "wrong", "not explained")


def share(count: int, total: int) -> str:
    """A count with its share and exact 95 % interval, as ``14: 44 % [26, 62]``."""
    low, high = stats.binomtest(count, total).proportion_ci(0.95, "exact")
    return f"{count}: {100 * count / total:.0f} % [{100 * low:.0f}, {100 * high:.0f}]"


@pytest.mark.parametrize("library", ["MXNet", "NumPy", "SciPy", "ONNX Runtime", "**all**"])
def test_the_counts_are_those_of_the_data(library: str) -> None:
    judgements = [row["judgement"] for row in ROWS if library == "**all**" or row["pair"].startswith(f"{library} ")]
    counts = [judgements.count(judgement) for judgement in JUDGEMENTS]
    assert sum(counts) == len(judgements)
    cells = [library, str(len(judgements)), *(share(count, len(judgements)) for count in counts)]
    assert f"| {' | '.join(cells)} |" in PAGE


def test_quoted_changes_are_in_the_data() -> None:
    change = r"([-+][\d.]+) % \[([-+][\d.]+), ([-+][\d.]+)\]"
    quoted = re.findall(rf"^\| `(\S+)` \| {change} \| .* \| ([a-z ]+) \|$", PAGE, re.MULTILINE)
    columns = ("case", "change_percent", "ci_low_percent", "ci_high_percent", "judgement")
    data = {(row["case"], *(float(row[name]) for name in columns[1:4]), row["judgement"]) for row in ROWS}
    assert {judgement for *_, judgement in quoted} == {"right", "partly right", "not explained"}
    for case, *numbers, judgement in quoted:
        assert (case, *map(float, numbers), judgement) in data
