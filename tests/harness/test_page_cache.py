"""Programs as they lie in the page cache."""

import ctypes
import mmap
import os
from dataclasses import replace
from pathlib import Path

import pytest
from toy_bench import toy_build

from opduel.frameworks import worker_environment
from opduel.harness.machine.page_cache import lay_programs_afresh
from opduel.records import Build
from opduel.records.build import PROGRAM_VARIABLE
from opduel.records.measurement import Side

SIZE = 8 << 20


def resident_share(path: Path) -> float:
    """Which share of a file's pages lies in the page cache (man 2 mincore)."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), SIZE, mmap.MAP_PRIVATE) as area:
        resident = (ctypes.c_ubyte * (SIZE // mmap.PAGESIZE))()
        address = ctypes.addressof(ctypes.c_char.from_buffer(area))
        assert ctypes.CDLL(None).mincore(ctypes.c_void_p(address), ctypes.c_size_t(SIZE), resident) == 0
    return sum(page & 1 for page in resident) / len(resident)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """Files of which only the first page lies in the page cache."""
    paths = {name: tmp_path / name / "file" for name in ("control", "treatment", "both")}
    for path in paths.values():
        path.parent.mkdir()
        path.write_bytes(bytes(SIZE))
        with open(path, "rb", buffering=0) as file:
            os.fdatasync(file)
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
            file.read(1)
    if resident_share(paths["both"]) > 0.5:
        pytest.skip("this file system keeps all pages")
    return paths


def program(side: Side, path: Path) -> Build:
    return replace(toy_build(side), environment={PROGRAM_VARIABLE: str(path)})


def test_both_programs_are_read_whole(files: dict[str, Path]) -> None:
    lay_programs_afresh(
        {"control": program("control", files["control"]), "treatment": program("treatment", files["treatment"])},
        worker_environment(),
    )
    shares = [resident_share(files[name]) for name in ("control", "treatment")]
    assert shares == pytest.approx([1, 1], abs=0.01), "the kernel may take a page back at any time"


def test_what_belongs_to_a_build_of_the_cache_is_read_and_what_both_have_is_not(files: dict[str, Path]) -> None:
    builds: dict[Side, Build] = {
        "control": replace(program("control", files["both"]), directory=str(files["control"].parent)),
        "treatment": program("treatment", files["both"]),
    }
    lay_programs_afresh(builds, worker_environment())
    assert resident_share(files["control"]) == 1
    assert resident_share(files["both"]) < 0.5


def test_other_builds_are_left_alone(files: dict[str, Path]) -> None:
    build = replace(toy_build("control"), directory=str(files["control"].parent))
    lay_programs_afresh({"control": build, "treatment": toy_build("treatment")}, worker_environment())
    assert resident_share(files["control"]) < 0.5
