"""What an A/B of the catalogue costs beside running opperf itself once on each side, over the operators of opperf.

    .venv/bin/python benchmarks/catalogue_cost.py --repository CLONE_OF_MXNET

Three things, one after the other on one machine: opperf (of release 1.9.1, as it comes: 25 warm-up calls, 100 runs,
MXNet's profiler) on the control's build; opperf on the treatment's; `harness.py` on both builds, with the catalogue's
cases of those operators of `nd` that opperf measures.  The ratio of wall times is what matters, and what each of them
covers.  ``--warmup`` and ``--runs`` are opperf's own options; ``harness.py``'s others follow after ``--``.  With
``--opperf_took``, which is what the first line said of the control, opperf is not run, and the ratio is to that alone:
more than it would be to both.
"""

import argparse
import io
import json
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from opduel.driver.builds import BuildCache, resolve_build  # noqa: E402
from opduel.driver.catalogue.registry import ask_registry  # noqa: E402
from opduel.frameworks import get_framework, worker_environment  # noqa: E402
from opduel.harness.specs import expand_cases, find_spec, load_spec  # noqa: E402
from opduel.records import Build  # noqa: E402
from opduel.reporters import read_report  # noqa: E402

MXNET = get_framework("mxnet")
TAG = "1.9.1"  # whose opperf is run


def main() -> int:
    """Run all three and print seconds, cases and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repository", type=Path, required=True, help="a clone of MXNet with tag 1.9.1; only read")
    parser.add_argument("--control", default="mxnet==1.8.0.post0")
    parser.add_argument("--treatment", default="mxnet==1.9.1")
    parser.add_argument("--warmup", default="25")
    parser.add_argument("--runs", default="100")
    parser.add_argument(
        "--opperf_took", type=float, metavar="SECONDS", help="on the control, before; it is not run now"
    )
    parser.add_argument("more", nargs="*", help="further options of harness.py, after --")
    options = parser.parse_args()
    builds = [resolve_build(build, MXNET, BuildCache()) for build in (options.control, options.treatment)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        peer_s = options.opperf_took or time_opperf(builds, folder, options)
        seconds, counts = run_ours(builds, folder, options)
    cases = sum(counts.values())
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    print(f"opduel on both: {seconds:.0f} s, {cases} cases: {verdicts}")
    whose = "opperf's on the control alone" if options.opperf_took else "opperf's on both"
    print(f"ratio of wall times to {whose}: {seconds / peer_s:.2f}; {seconds / cases:.2f} s a case and pair of builds")
    return 0


def time_opperf(builds: list[Build], folder: Path, options: argparse.Namespace) -> float:
    """Seconds that opperf took on all the builds."""
    source = extract_opperf(options.repository, folder)
    taken = 0.0
    for build in builds:
        seconds, cases = run_opperf(build, source, folder / f"{build.digest}.json", options)
        print(f"opperf on {build.requested}: {seconds:.0f} s, {cases} cases", flush=True)
        taken += seconds
    return taken


def extract_opperf(repository: Path, folder: Path) -> Path:
    """The folder that holds opperf's ``benchmark/``."""
    command = ["git", "-C", str(repository), "archive", TAG, "benchmark"]
    archive = subprocess.run(command, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(folder, filter="data")
    return folder


def run_opperf(build: Build, source: Path, output: Path, options: argparse.Namespace) -> tuple[float, int]:
    """Seconds that opperf took, and how many cases it wrote."""
    script = source / "benchmark" / "opperf" / "opperf.py"
    command = [build.interpreter, str(script), "-o", str(output), "-w", options.warmup, "-r", options.runs]
    environment = {**worker_environment(), **MXNET.environment(1), **build.environment, "PYTHONPATH": str(source)}
    began = time.monotonic()
    # In a folder of its own: MXNet's profiler leaves a profile.json where it runs.
    finished = subprocess.run(command, env=environment, cwd=output.parent, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - began
    if not output.exists():
        raise SystemExit(f"opperf failed on {build.requested}: {finished.stderr[-2000:]}")
    return seconds, sum(map(len, json.loads(output.read_text()).values()))


def same_operators(build: Build) -> list[str]:
    """The names of the catalogue's operators that are opperf's, whatever their alias."""
    registry = ask_registry(build, MXNET)
    peer = json.loads((MXNET.specifications / "opperf.json").read_text())
    own = {registry.own_name(name) for name in peer}
    cases = expand_cases(load_spec(find_spec("all")))
    return sorted(
        {
            case.operator
            for case in cases
            if case.operator.startswith("nd.")
            and (
                case.operator.removeprefix("nd.") in peer
                or ((found := registry.functions.get(case.operator)) and found.registered in own - {None})
            )
        }
    )


def run_ours(builds: list[Build], folder: Path, options: argparse.Namespace) -> tuple[float, Counter[str]]:
    """Seconds that harness.py took from command to exit, and its verdicts."""
    command = [sys.executable, str(ROOT / "harness.py"), "-b", "all", "--control", builds[0].requested]
    command += ["--treatment", builds[1].requested, "--simple_local_reporter", str(folder), *options.more]
    command += [word for name in same_operators(builds[1]) for word in ("--operators", name)]
    began = time.monotonic()
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - began
    if not (folder / "report.json").exists():
        raise SystemExit(f"harness.py failed: {finished.stderr[-2000:]}")
    report = read_report(folder / "report.json")
    return seconds, Counter(one.verdict for one in report.comparisons)


if __name__ == "__main__":
    sys.exit(main())
