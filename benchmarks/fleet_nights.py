"""By hand: a night of several commits on one host, and on a fleet of two workers on this machine, for real.

    .venv/bin/python benchmarks/fleet_nights.py [--commits 6] [--slow N] [--ways alone,after,together]

A repository of a small package with native code (that of the tests) has so many commits after the first one, of which
the --slow one makes a function about three times as slow (default: none). Each way is repo_driver.py --regression over
all of them, with a work directory and a build cache of its own: "alone" without a fleet, "after" with --fleet local:2
and --same_host, which begins nothing ahead, and "together" with --fleet local:2.

Prints a Markdown table: seconds, runs, how many were measured ahead, cases by verdict, and the culprits' subjects.
Both workers and the driver, which builds, share the processors of this machine, so that a fleet gains little here.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "native_toy")]

from tiny_package import CODE, NATIVE, PROJECT, Tiny  # noqa: E402

WAYS = {"alone": (), "after": ("--fleet", "local:2", "--same_host"), "together": ("--fleet", "local:2")}
NAMES = ("answer", "other")
SPEC = {
    "framework": "python",
    "tests": [{"operator": f"tinysum.{name}", "inputs": {"times": 1}} for name in NAMES],
}
OTHER = "\n\ndef other(times):\n    return sum(range(2000))\n"


def make_repository(folder: Path, commits: int, slow: int | None) -> Tiny:
    """The package's commits, named by their number."""
    tiny = Tiny(folder)
    code = CODE.replace("FACTOR", "2").replace("answer()", "answer(times)")
    code = code.replace("return total", "sum(range(1000))\n    return total") + OTHER
    native = NATIVE.replace("FACTOR", "10")
    tiny.add("0", {"pyproject.toml": PROJECT, "src/tinysum/__init__.py": code, "src/tinysum/_native.c": native})
    for number in range(1, commits + 1):
        text = code.replace("range(1000)", "range(3000)") if slow and number >= slow else code
        tiny.add(str(number), {"src/tinysum/__init__.py": f"{text}\nANY = {number}\n"})
    return tiny


def drive(folder: Path, tiny: Tiny, options: tuple[str, ...]) -> tuple[float, str]:
    """Seconds, and what the driver logged."""
    folder.mkdir()
    (folder / "spec.json").write_text(json.dumps(SPEC))
    (folder / "last").write_text(tiny.commits["0"])
    command = [sys.executable, str(ROOT / "repo_driver.py"), "--ab_testing", "--regression", "--threshold", "20%"]
    command += ["-b", str(folder / "spec.json"), "--busy_host", "report", "--remote_repository", str(tiny.folder)]
    command += ["--base_commit", tiny.commits["0"], "--exact_base", "--commit_file", str(folder / "last")]
    command += ["--work_dir", str(folder / "work"), "--exec_dir", str(folder / "cache")]
    command += ["--local_reporter", str(folder / "reports"), *options]
    began = time.monotonic()
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if ended.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(command)}: exit code {ended.returncode}\n{ended.stderr}")
    return time.monotonic() - began, ended.stdout + ended.stderr


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--commits", type=int, default=6, metavar="N", help="that are due (default: 6)")
    parser.add_argument("--slow", type=int, metavar="N", help="the commit that makes it slower (default: none)")
    parser.add_argument("--ways", default=",".join(WAYS), metavar="NAMES", help="default: all of them")
    options = parser.parse_args()
    print(f"| way | time, s | runs | measured ahead | verdicts | culprits |\n|{'---|' * 6}")
    with tempfile.TemporaryDirectory(prefix="opduel-nights-") as name:
        tiny = make_repository(Path(name), options.commits, options.slow)
        for way in options.ways.split(","):
            folder = Path(name) / way
            took, text = drive(folder, tiny, WAYS[way])
            reports = [json.loads(path.read_text()) for path in (folder / "reports").rglob("report.json")]
            verdicts = Counter(row["verdict"] for report in reports for row in report["comparisons"])
            ahead = text.count("shard of 1 measured before")
            subjects = {id[:12]: subject for subject, id in tiny.commits.items()}
            culprits = [subjects[id] for id in re.findall(r"(?m)^(?:\S+: )?first bad: (\w{12}) ", text)]
            words = ", ".join(f"{verdict} {count}" for verdict, count in sorted(verdicts.items()))
            named = ", ".join(f"commit {one}" for one in dict.fromkeys(culprits)) or "none"
            print(f"| {way} | {took:.0f} | {len(reports)} | {ahead} | {words} | {named} |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
