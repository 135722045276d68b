"""Builds with a copy of the package for each cause, which the treatment alone has."""

import json
import re
import subprocess
import venv
from collections.abc import Mapping
from pathlib import Path

from benchmarks.injected_causes.cause import FILES, HERE, Cause

FLAGS = ("-O2", "-ftree-vectorize", "-g", "-shared", "-fPIC", "-w")
MODULE = "smallnum"
# Function -> its name in the build "renamed".
NEW_NAMES = {
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
    """Return the name of the package's copy for a cause, which reveals nothing of it."""
    return f"{MODULE}_{number:02d}"


def rename_functions(text: str) -> str:
    """Return the text with other names for its functions."""
    return re.sub(r"\b(?:" + "|".join(NEW_NAMES) + r")\b", lambda match: NEW_NAMES[match[0]], text)


def write_builds(folder: Path, packages: Path, causes: Mapping[int, Cause]) -> None:
    """Write the environments "control" and "treatment", and two that the control is compared with: "same" is a copy of
    it, and in "renamed" its functions have other names. All import what ``packages``, a site-packages folder, has.

    Raises:
        ValueError: an edit doesn't fit.
        subprocess.CalledProcessError: a copy doesn't compile.
    """
    texts = {file: (HERE / file).read_text() for file in FILES.values()}
    for name in ("control", "treatment", "same", "renamed"):
        site_packages = _make_environment(folder / name, packages)
        for number, cause in causes.items():
            sources = dict(texts)
            if name == "treatment":
                sources[FILES[cause.language]] = cause.apply(texts[FILES[cause.language]])
            elif name == "renamed":
                sources = {file: rename_functions(text) for file, text in texts.items()}
            _write_package(site_packages / module_of(number), sources)


def _make_environment(folder: Path, packages: Path) -> Path:
    venv.create(folder, symlinks=True, with_pip=False)
    site_packages = next(folder.glob("lib/python*/site-packages"))
    (site_packages / "numpy_of_the_build.pth").write_text(f"{packages}\n")
    return site_packages


def _write_package(folder: Path, sources: Mapping[str, str]) -> None:
    """Write and compile a copy of the package. ``sources``: file -> text."""
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(sources[FILES["Python"]])
    source = folder / FILES["C"]  # beside the library, so that its debug information has a path in each build
    source.write_text(sources[FILES["C"]])
    command: list[str | Path] = ["gcc", *FLAGS, "-o", folder / f"lib{MODULE}.so", source, "-lm", "-lpthread"]
    subprocess.run(command, check=True)


def write_spec(path: Path, causes: Mapping[int, Cause]) -> None:
    """Write the spec of the causes' cases; each is named for its copy of the package."""
    tests = []
    for number, cause in causes.items():
        module = module_of(number)
        inputs = json.loads(json.dumps(cause.inputs).replace(f"{MODULE}.", f"{module}."))
        tests.append({"identifier": module, "operator": f"{module}.{cause.operator}", "inputs": inputs})
    path.write_text(json.dumps({"framework": "python", "tests": tests}, indent=1))
