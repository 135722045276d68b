"""What AI-PEP has, tried: its options are known here, and files on servers are replaced by one of our own."""

import json
from pathlib import Path

from benchmarks.ai_pep import Trial, options_tried

README = """
usage: harness.py [-h] [--cooldown COOLDOWN] -b BENCHMARK_FILE
  -b BENCHMARK_FILE, --benchmark_file BENCHMARK_FILE
                        Specify the json file for the benchmark
  --cooldown COOLDOWN   Specify the time interval between two test runs.
  --reboot              Tries to reboot the devices
  --else
"""


def test_an_option_works_or_says_why_not() -> None:
    outcomes = {name: outcome for _, name, outcome in options_tried(README)}
    assert outcomes == {
        "--benchmark_file": "works",
        "--cooldown": "ignored, with a line",
        "--else": "unknown",
        "--reboot": "refused, with a line that names the fix",
    }


def test_files_on_servers_are_replaced(tmp_path: Path) -> None:
    model = {"location": "https://example.org/a.pb", "md5": "0" * 32}
    path = tmp_path / "FAI-PEP" / "specifications" / "models" / "net.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"files": {"a": model, "b": {"location": "{MODEL_DIR}/b.pb", "md5": ""}}}))
    (tmp_path / "trial").mkdir()
    trial = Trial(tmp_path / "trial", tmp_path / "FAI-PEP")
    files = json.loads((trial.specifications / "models" / "net.json").read_text())["files"]
    assert Path(files["a"]["location"]).read_text() == "a model"
    assert files["b"]["location"] == "{MODEL_DIR}/b.pb"
    assert files["a"]["md5"] == files["b"]["md5"] != model["md5"]
