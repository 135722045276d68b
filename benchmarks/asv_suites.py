#!/usr/bin/env python3
"""Try real asv suites, each on the release that it belongs to, beside asv itself, and print the table of what runs.

    .venv/bin/python benchmarks/asv_suites.py RESULTS [--only NAME ...] [--clones FOLDER] [--sample 50] [--limit 60]

Each suite is one ``python -m opduel.commands.suite_coverage --beside_asv``, whose JSON RESULTS keeps; those that are
there aren't tried again. FOLDER has clones of the repositories, under the last part of their names.
"""

import argparse
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from opduel.commands.suite_coverage import group  # noqa: E402

# suite: its repository, commit and folder, the build, and what is installed beside it where its configuration asks for
# what PyPI hasn't
SUITES = {
    "NumPy": ("numpy/numpy", "v2.4.5", "benchmarks", "numpy==2.4.5", None),
    "SciPy": ("scipy/scipy", "v1.17.1", "benchmarks", "scipy==1.17.1", None),
    "scikit-image": ("scikit-image/scikit-image", "v0.26.0", ".", "scikit-image==0.26.0", None),
    "xarray": (
        "pydata/xarray",
        "v2026.04.0",
        "asv_bench",
        "xarray==2026.4.0",
        "pandas pyarrow netcdf4 scipy bottleneck dask distributed flox sparse cftime",
    ),
    "shapely": ("shapely/shapely", "2.1.2", ".", "shapely==2.1.2", "none"),
    "geopandas": ("geopandas/geopandas", "v1.1.3", ".", "geopandas==1.1.3", "matplotlib pyarrow"),
    "SymPy": ("sympy/sympy_benchmarks", "84973d0", ".", "sympy==1.14.0", "numpy"),
    "dask": ("dask/dask-benchmarks", "9956e67", "dask", "dask[complete]==2025.12.0", "scipy tables s3fs"),
    "pvlib": ("pvlib/pvlib-python", "v0.15.2", "benchmarks", "pvlib==0.15.2", "packaging h5py ephem numba"),
    "networkx": ("networkx/networkx", "networkx-3.5", "benchmarks", "networkx==3.5", "numpy scipy pandas"),
    "bottleneck": ("pydata/bottleneck", "v1.6.0", "asv_bench", "bottleneck==1.6.0", "none"),
    "MDAnalysis": (
        "MDAnalysis/mdanalysis",
        "release-2.7.0",
        "benchmarks",
        "MDAnalysis==2.7.0",
        "MDAnalysisTests==2.7.0",
    ),
    "Qiskit": ("Qiskit/qiskit", "2.5.2", ".", "qiskit==2.5.2", None),
    "Kedro": ("kedro-org/kedro", "1.5.0", "kedro_benchmarks", "kedro==1.5.0", "kedro-datasets[pandas-csvdataset]"),
}
SDISTS = {"MDAnalysis"}  # need a package that has no wheels
GROUPS = ("ran", "skipped", "failed")
HEAD = "| suite | benchmarks: asv, opduel | cases: asv, opduel | sample | asv: ran, skipped, failed | opduel | differ |"


def try_suite(name: str, answer: Path, clones: Path | None, options: Sequence[str]) -> None:
    """Run one suite; ``answer`` gets its JSON."""
    repository, commit, folder, build, packages = SUITES[name]
    place = str(clones / repository.rpartition("/")[2]) if clones else f"https://github.com/{repository}"
    command = [sys.executable, "-m", "opduel.commands.suite_coverage", f"{place}@{commit}:{folder}", build]
    command += ["--beside_asv", "--json", str(answer), *options]
    command += ["--suite_packages", packages] if packages else []
    command += ["--allow_sdist"] if name in SDISTS else []
    print(name, *command[3:5], file=sys.stderr)
    subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=False)


def table(answers: Mapping[str, Any]) -> Iterator[str]:
    """Yield a row for each suite, as Markdown."""
    yield HEAD
    yield "|---" * (HEAD.count("|") - 1) + "|"
    for facts in answers.values():
        asv, ours = facts["asv"], facts["benchmarks_of_suite"]
        theirs, outcomes = asv["outcomes"], facts["outcomes"]
        counts = [Counter(map(group, side.values())) for side in (theirs, outcomes)]
        cells = [", ".join(str(count[kind]) for kind in GROUPS) for count in counts]
        differing = sum(group(outcomes[case]) != group(theirs[case]) for case in outcomes)
        stops = "0; " if asv["problem"] else ""  # asv itself, where a module can't be imported
        finds = f"{stops}{len(asv['benchmarks']):,}, {len(ours):,}"
        cases = f"{stops}{sum(asv['benchmarks'].values()):,}, {sum(ours.values()):,}"
        build = facts["build"].replace("==", " ")
        yield f"| {build} | {finds} | {cases} | {len(outcomes)} | {cells[0]} | {cells[1]} | {differing} |"


def reasons(answers: Mapping[str, Any]) -> Iterator[str]:
    """Yield why cases of opduel's were skipped or failed, and each difference from asv, as Markdown."""
    for name, facts in answers.items():
        theirs, outcomes = facts["asv"]["outcomes"], facts["outcomes"]
        for problem in facts["problems"]:
            yield f"- {name}: {problem}"
        for reason, count in Counter(outcome for outcome in outcomes.values() if outcome != "ran").most_common():
            yield f"- {name}: {count} x {reason}"
        for case, outcome in outcomes.items():
            if group(outcome) != group(theirs[case]):
                yield f"- {name}: **{case}**: {outcome}; asv: {theirs[case]}"


def main() -> None:
    """Try the suites that have no results yet, and print the table and the reasons."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--only", nargs="+", choices=[*SUITES], default=[*SUITES], metavar="NAME")
    parser.add_argument("--clones", type=Path)
    parser.add_argument("--sample", default="50")
    parser.add_argument("--limit", default="60", help="seconds of a case; more on a busy machine")
    settings = parser.parse_args()
    settings.results.mkdir(parents=True, exist_ok=True)
    files = {name: settings.results / f"{name}.json" for name in settings.only}
    for name, answer in files.items():
        if not answer.exists():
            try_suite(
                name, answer.absolute(), settings.clones, ["--sample", settings.sample, "--limit", settings.limit]
            )
    answers = {name: json.loads(file.read_text(encoding="utf-8")) for name, file in files.items() if file.exists()}
    print("\n".join([*table(answers), "", *reasons(answers)]))


if __name__ == "__main__":
    main()
