"""The shipped spec of NumPy's functions on two releases from the package index."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from opduel.driver.builds.cache import BuildCache
from opduel.driver.builds.environment_build import release_build
from opduel.driver.builds.probe import probe
from opduel.driver.builds.recipes import LockedRecipe
from opduel.driver.builds.resolve import resolve_build
from opduel.frameworks import get_framework
from opduel.harness.other_runs.smoke_check import smoke_check
from opduel.harness.specs import expand_cases, find_spec, load_spec
from opduel.records import Build, RunError
from opduel.records.build import differing_packages

pytestmark = pytest.mark.wheels
PYTHON = get_framework("python")


@pytest.fixture(scope="module")
def builds() -> tuple[Build, Build]:
    control, treatment = (resolve_build(f"numpy=={version}", PYTHON, BuildCache()) for version in ("1.26.4", "2.2.6"))
    return control, treatment


def test_every_case_runs_on_both(builds: tuple[Build, Build]) -> None:
    cases = expand_cases(load_spec(find_spec("numpy")))
    assert len({case.operator for case in cases}) >= 20
    for build in builds:
        assert [attempt.reason for attempt in smoke_check(build, PYTHON, cases) if attempt.failure] == []


def test_a_build_is_pinned_with_hashes(builds: tuple[Build, Build]) -> None:
    control, treatment = builds
    manifest = json.loads((Path(str(control.directory)) / "manifest.json").read_text())
    assert "numpy==1.26.4 \\\n    --hash=sha256:" in manifest["recipe"]["locked"]
    assert control.packages == {"numpy": "1.26.4"}
    assert (control.version, control.label, control.requested) == ("numpy 1.26.4", "numpy 1.26.4", "numpy==1.26.4")
    assert control.digest != treatment.digest
    sides = [replace(build, details={}) for build in builds]
    assert differing_packages(*sides) == {}  # but for what was asked for


def test_the_blas_of_a_build_is_known(builds: tuple[Build, Build]) -> None:
    details = [probe(Path(build.interpreter), PYTHON).details for build in builds]
    assert [build_details["BLAS of numpy"] for build_details in details] == ["OpenBLAS 0.3.23.dev", "OpenBLAS 0.3.29"]


def test_the_compiler_of_a_build_is_known(builds: tuple[Build, Build]) -> None:
    for build in builds:
        library = next(Path(str(build.directory)).rglob("_multiarray_umath*.so"))
        assert b"GCC: (GNU) 10.2.1 20210130 (Red Hat 10.2.1-11)" in library.read_bytes()
        assert probe(Path(build.interpreter), PYTHON).details["compiler of numpy"] == "GCC 10.2.1"


def test_an_environment_is_a_build(builds: tuple[Build, Build]) -> None:
    build = resolve_build(str(builds[0].directory), PYTHON, BuildCache())
    assert (build.strategy, build.packages) == ("environment", {"numpy": "1.26.4"})
    sides = [replace(side, details={}) for side in (build, builds[1])]
    assert differing_packages(*sides) == {"numpy": ("1.26.4", "2.2.6")}


def test_a_file_with_another_hash_is_not_installed(builds: tuple[Build, Build], tmp_path: Path) -> None:
    manifest = json.loads((Path(str(builds[0].directory)) / "manifest.json").read_text())
    locked = re.sub(r"sha256:[0-9a-f]{8}", "sha256:00000000", manifest["recipe"]["locked"])
    recipe = LockedRecipe(("numpy==1.26.4",), manifest["recipe"]["python"], locked)
    with pytest.raises(RunError, match=r"numpy==1.26.4 could not be installed: .*[Hh]ash"):
        release_build("numpy==1.26.4", recipe, PYTHON, BuildCache(tmp_path))
    assert not list(BuildCache(tmp_path).folder("python").glob("[!.]*"))
