"""The two builds: environments with a copy of the package for each cause, which the treatment alone has."""

import json
import re
import subprocess
import venv
from collections.abc import Mapping
from pathlib import Path

from benchmarks.injected_causes.cause import FILES, Cause, edited

HERE = Path(__file__).resolve().parent
FLAGS = ("-O2", "-ftree-vectorize", "-g", "-shared", "-fPIC", "-w")
MODULE = "smallnum"
# Other names for the same functions; whole words.
RENAMED = {
    "total_contiguous": "sum_in_order", "total_strided": "sum_at_stride", "scale_row": "scale_line",
    "running_sums": "prefix_sums", "window_means": "means_of_windows", "all_finite": "is_all_finite",
    "dot_kernel": "inner_product", "reverse_into": "flip_into", "insertion_sort": "sort_by_insertion",
    "sort_range": "sort_part", "hash_value": "digest", "insert": "put_if_new", "weight_of": "weigh_one",
    "find_range": "range_of", "block_maximum": "largest_of_block", "add_columns": "sum_columns",
    "weighted_window": "weighted_span", "stir": "whirl", "fold": "crease", "_vector": "_as_vector",
    "_address": "_data_of", "_mapped": "_made_by", "_factors": "_prime_factors", "_records": "_doubled",
    "_checked": "_without_sign", "_spin": "_turn_around", "_weights": "_weights_of", "_labels": "_labels_of",
}  # fmt: skip


def module_of(number: int) -> str:
    """The copy of the package for the cause with this number; its name says nothing of the cause."""
    return f"{MODULE}_{number:02d}"


def renamed(text: str) -> str:
    """The text with other names for its functions."""
    return re.sub(r"\b(?:" + "|".join(RENAMED) + r")\b", lambda found: RENAMED[found[0]], text)


def write_package(folder: Path, module: str, sources: Mapping[str, str]) -> None:
    """The package as ``module`` in ``folder``, of these texts by file.

    Raises:
        subprocess.CalledProcessError: it doesn't compile.
    """
    place = folder / module
    place.mkdir(parents=True)
    (place / "__init__.py").write_text(sources[FILES["Python"]])
    source = place / FILES["C"]  # beside the library, so that its debug information has a path in each build
    source.write_text(sources[FILES["C"]])
    command: list[str | Path] = ["gcc", *FLAGS, "-o", place / f"lib{MODULE}.so", source, "-lm", "-lpthread"]
    subprocess.run(command, check=True)


def make_environment(folder: Path, packages: Path) -> Path:
    """An environment in ``folder`` of this interpreter, which also has what ``packages`` (a site-packages) has."""
    venv.create(folder, symlinks=True, with_pip=False)
    site = next(folder.glob("lib/python*/site-packages"))
    (site / "numpy_of_the_build.pth").write_text(f"{packages}\n")
    return site


def write_builds(folder: Path, packages: Path, causes: Mapping[int, Cause]) -> dict[str, Path]:
    """The environments "control" and "treatment", and two that the control is compared with: "same" is another copy of
    it, and in "renamed" its functions have other names.

    Raises:
        ValueError: an edit doesn't fit.
        subprocess.CalledProcessError: something doesn't compile.
    """
    texts = {file: (HERE / file).read_text() for file in FILES.values()}
    places = {name: folder / name for name in ("control", "treatment", "same", "renamed")}
    for name, place in places.items():
        site = make_environment(place, packages)
        for number, cause in causes.items():
            sources = dict(texts)
            if name == "treatment":
                sources[FILES[cause.language]] = edited(texts[FILES[cause.language]], cause.edits)
            elif name == "renamed":
                sources = {file: renamed(text) for file, text in texts.items()}
            write_package(site, module_of(number), sources)
    return places


def write_spec(path: Path, causes: Mapping[int, Cause]) -> None:
    """The spec of these causes' cases; a case is called as its copy of the package."""
    tests = []
    for number, cause in causes.items():
        module = module_of(number)
        inputs = json.loads(json.dumps(cause.inputs).replace(f"{MODULE}.", f"{module}."))
        tests.append({"identifier": module, "operator": f"{module}.{cause.operator}", "inputs": inputs})
    path.write_text(json.dumps({"framework": "python", "tests": tests}, indent=1))
