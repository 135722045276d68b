#!/usr/bin/env python3
"""Try all specs, build scripts and documented options of AI-PEP, and print the table of what runs here.

    .venv/bin/python benchmarks/ai_pep.py FAI-PEP

FAI-PEP is a clone of github.com/facebook/FAI-PEP. Where its specs name files on a server, a file of our own is put in
place of each, and a program of our own prints what Caffe2's and TensorFlow Lite's would; scripts build that program.
"""

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from operator import itemgetter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.bench import ROOT
from benchmarks.markdown import table
from opduel.commands.ai_pep import IGNORED, NOT_TAKEN
from opduel.commands.driver_options import driver_parser
from opduel.commands.options import harness_parser
from opduel.commands.run_bench import run_bench_parser

PROGRAM = """#!/bin/sh
for file in $(echo "$@" | tr '= ' '\\n\\n' | grep '^/'); do cat "$file" > /dev/null || exit 1; done
echo 'Caffe2Observer {"type": "NET", "metric": "latency", "unit": "us", "value": "'$((900 + $$ % 20))'"}'
printf 'Running benchmark for 50 iterations\\ncount=50 first=9 curr=9 min=8 max=9 avg=%s std=1\\n' $((900 + $$ % 20))
"""
# What PyTorch's repository and TensorFlow's build tool would leave.
BUILD_LOCAL = """#!/bin/sh
cd "$(dirname "$0")/.." && mkdir -p build/bin && cp program build/bin/caffe2_benchmark
"""
BAZEL = """#!/bin/sh
mkdir -p bazel-bin/tensorflow/lite/tools/benchmark
cp program bazel-bin/tensorflow/lite/tools/benchmark/benchmark_model
"""
HURRIED = ("--max_rounds", "2", "--busy_host", "report", "--explain", "none", "--simple_screen_reporter")


class Trial:
    """A folder with AI-PEP's specifications, a program on both sides, and a repository that is built into it."""

    def __init__(self, folder: Path, checkout: Path) -> None:
        self.folder = folder
        self.specifications = folder / "specifications"
        (folder / "model.pb").write_text("a model")
        md5 = hashlib.md5(b"a model", usedforsecurity=False).hexdigest()
        for path in (checkout / "specifications").rglob("*.*"):
            copy = self.specifications / path.relative_to(checkout / "specifications")
            copy.parent.mkdir(parents=True, exist_ok=True)
            text = re.sub(r'"location": "http[^"]*"', f'"location": "{folder}/model.pb"', path.read_text())
            copy.write_text(re.sub(r'"md5": "\w*"', f'"md5": "{md5}"', text))
        (folder / "model_init.pb").write_text("a model")
        for name in ("control", "treatment"):
            _write(folder / name, PROGRAM)
        self._make_repository(folder / "repository")
        _write(folder / "bin" / "bazel", BAZEL)
        self.environment = {**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}", "XDG_STATE_HOME": str(folder)}

    def _make_repository(self, folder: Path) -> None:
        def git(*words: str) -> None:
            subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=folder, check=True)

        _write(folder / "scripts" / "build_local.sh", BUILD_LOCAL)
        git("init", "-q", "-b", "master")
        for number in range(2):
            _write(folder / "program", f"{PROGRAM}# {number}\n")
            git("add", "-A")
            git("commit", "-qm", str(number))
            git("tag", f"v{number}")

    def harness(self, spec: Path, framework: str) -> str:
        """Measure the program against itself on a spec; return what became of it."""
        sides = {
            name: {"programs": {"program": {"location": str(self.folder / name)}}} for name in ("control", "treatment")
        }
        options = ["--framework", framework, "--info", json.dumps(sides), "--model_cache", f"{self.folder}/cache"]
        words = json.dumps({"MODEL_DIR": str(self.folder)})
        return self._run("harness.py", "-b", str(spec), *options, "-p", "host", "--string_map", words, *HURRIED)

    def driver(self, framework: str, platform: str) -> str:
        """Build two commits by AI-PEP's script and measure them; return what became of it."""
        spec = next((self.specifications / "models" / framework / "squeezenet").glob("squeezenet.json"))
        commits = [
            "--remote_repository",
            f"{self.folder}/repository",
            "--commit",
            "master",
            "--base_commit",
            "master~1",
        ]
        places = ["--exec_dir", f"{self.folder}/exec", "--work_dir", f"{self.folder}/work-{platform}", "--exact_base"]
        scripts = ["--framework", framework, "--frameworks_dir", f"{self.specifications}/frameworks"]
        options = [*commits, *places, *scripts, "--platforms", platform, "--ab_testing", "--min_free", "0"]
        return self._run("repo_driver.py", "-b", str(spec), *options, "--model_cache", f"{self.folder}/cache", *HURRIED)

    def _run(self, script: str, *words: str) -> str:
        command = [sys.executable, str(ROOT / script), *words]
        run = subprocess.run(
            command, env=self.environment, cwd=self.folder, capture_output=True, text=True, check=False
        )
        verdicts = re.findall(r"^(\w+)\t\S+/value\t", run.stdout, re.MULTILINE)
        if run.returncode == 2 or not verdicts or "failed" in verdicts:
            return self._shortened((run.stderr.splitlines() or [""])[-1])
        return "runs"

    def _shortened(self, line: str) -> str:
        """Return an error without what is not the same of all files or platforms."""
        line = re.sub(rf"^\S+: error: |argument \S+: |\S+\.json: |; see .*|{re.escape(str(self.folder))}/", "", line)
        return re.sub(
            r"'\S+' is a phone", "a phone", re.sub(r"--platform (\w+)\S*: no (\S+) in .*", r"no \2 for \1", line)
        )


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def tried(trial: Trial) -> Iterator[tuple[str, str, str]]:
    """Yield what was tried: a kind, a name, and what became of it."""
    for kind in ("models", "benchmarks"):
        for spec in sorted((trial.specifications / kind).rglob("*.json")):
            framework = spec.relative_to(trial.specifications).parts[1]
            yield f"specifications/{kind}/{framework}", spec.stem, trial.harness(spec, framework)
    frameworks = trial.specifications / "frameworks"
    for script in sorted(frameworks.rglob("build.*")):
        framework, *platform = script.relative_to(frameworks).parent.parts
        outcome = trial.driver(framework, "/".join(platform) or ".")
        yield f"specifications/frameworks/{framework}", "/".join(platform), outcome


def options_tried(readme: str) -> Iterator[tuple[str, str, str]]:
    """Yield each option of the README, and whether it is taken."""
    parsers = harness_parser(), driver_parser(), run_bench_parser()
    option_strings = {name for parser in parsers for name in parser._option_string_actions}
    for name in sorted(set(re.findall(r"^ +(?:-\w [A-Z_]+, )?(--\w+)", readme, re.MULTILINE))):
        outcome = "works" if name in option_strings else "unknown"
        for options, line in (
            (IGNORED, "ignored, with a line"),
            (NOT_TAKEN, "refused, with a line that names the fix"),
        ):
            outcome = line if any(name in names for names in options) else outcome
        yield "options in its README", name, outcome


def main() -> None:
    parser = argparse.ArgumentParser(description="Try what AI-PEP has, and print the table.")
    parser.add_argument("checkout", type=Path, help="a clone of github.com/facebook/FAI-PEP")
    checkout = parser.parse_args().checkout.absolute()
    counts: Counter[tuple[str, str]] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        outcomes = tried(Trial(Path(folder), checkout))
        for kind, name, outcome in chain(outcomes, options_tried((checkout / "README.md").read_text())):
            print(kind, name, outcome, sep="\t", file=sys.stderr, flush=True)
            counts[kind, outcome] += 1
    rows = [(kind, count, outcome) for (kind, outcome), count in counts.most_common()]
    print("\n".join(table(("what", "number", "outcome"), sorted(rows, key=itemgetter(0)))))


if __name__ == "__main__":
    main()
