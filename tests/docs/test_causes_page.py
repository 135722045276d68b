"""docs/explanation/causes.md: its counts and judgements are those of causes.csv, row by row."""

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
LIBRARIES = ("MXNet", "NumPy", "SciPy", "ONNX Runtime")


def counted(number: int, of: int) -> str:
    """``14: 44 % [26, 62]``, with the exact interval."""
    low, high = stats.binomtest(number, of).proportion_ci(0.95, "exact")
    return f"{number}: {100 * number / of:.0f} % [{100 * low:.0f}, {100 * high:.0f}]"


@pytest.mark.parametrize("library", LIBRARIES)
def test_counts_are_those_of_the_table(library: str) -> None:
    rows = [row for row in ROWS if row["pair"].startswith(f"{library} ")]
    found = [sum(row["judgement"] == one for row in rows) for one in JUDGEMENTS]
    assert sum(found) == len(rows)
    cells = [f"{library}", f"{len(rows)}", *(counted(one, len(rows)) for one in found)]
    assert f"| {' | '.join(cells)} |" in PAGE


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['pair']}: {row['case']}")
def test_a_row_is_on_the_page_as_in_the_table(row: dict[str, str]) -> None:
    section = PAGE.partition(f"\n### {row['pair']}\n")[2].partition("\n### ")[0]
    found = re.search(rf"^\| `{re.escape(row['case'])}` \| (.*) \|$", section, re.M)
    assert found, row["case"]
    change, *_, source, judgement = found[1].split(" | ")
    low, high = (float(row[f"ci_{end}_percent"]) for end in ("low", "high"))
    assert change == f"{float(row['change_percent']):+.1f} % [{low:+.1f}, {high:+.1f}]"
    assert (source, judgement) == (row["source"], row["judgement"])
