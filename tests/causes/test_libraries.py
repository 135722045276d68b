"""What differs around the cases: libraries and packages of either side, in one line."""

import mmap
import os
import signal
import struct
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from worker_module import module

from opduel.causes.collectors.libraries import describe_differences, describe_loaded, other_compilers
from opduel.causes.collectors.process_pairs import Answers
from opduel.causes.collectors.resources import TIME, resource_observations, unit_of
from opduel.records import Build
from opduel.records.measurement import SIDES, Side


def library(name: str, build_id: str = "a", says: str = "") -> dict[str, Any]:
    return {"name": name, "build_id": build_id, "size": 1, "says": says}


def package(name: str, version: str) -> dict[str, Any]:
    return {"name": name, "version": version}


def test_versions_come_from_what_a_library_says_or_from_its_name() -> None:
    control = [
        package("numpy", "1.26.4"),
        library("libopenblas64_p-r0-0cf96a72.3.23.dev.so", "a", "OpenBLAS 0.3.23.dev  USE64BITINT Haswell"),
        library("libgomp-a34b3233.so.1.0.0"),
        library("libquadmath-96973f99.so.0.0.0"),
    ]
    treatment = [
        package("numpy", "2.0.0"),
        library("libscipy_openblas64_-11223344.so", "b", "OpenBLAS 0.3.27  USE64BITINT Haswell"),
        library("libgomp-98765432-0352e75f.so.1.0.0"),
        library("libquadmath-96973f99.so.0.0.0", "other"),
    ]
    assert describe_loaded(control, treatment) == (
        "OpenBLAS 0.3.23 -> 0.3.27; numpy 1.26.4 -> 2.0.0; same name, other contents: libquadmath"
    )
    assert describe_loaded(control, control) == ""


def test_what_one_side_alone_has_is_named_and_extension_modules_are_counted() -> None:
    extensions = [library(f"_e{number}.cpython-311-x86_64-linux-gnu.so") for number in range(6)]
    treatment = [*extensions, library("libiomp5.so"), package("extra", "1")]
    assert describe_loaded([library("libgomp.so.1")], treatment) == (
        "only control: libgomp; only treatment: extra, libiomp5, 6 extension modules"
    )
    rebuilt = [library(extension["name"], "b") for extension in extensions[:1]]
    assert describe_loaded(extensions, [*rebuilt, *extensions[1:]]) == "same name, other contents: 1 extension module"
    many = [library(f"lib{letter}.so") for letter in "fedcba"]
    assert describe_loaded([], many) == "only treatment: liba, libb, libc, libd, 2 more"


def test_how_a_package_was_built_is_compared_by_topic() -> None:
    def built(**topics: str) -> list[dict[str, Any]]:
        return [dict(package("numpy", "2.2.6"), built={name.replace("_", " "): text for name, text in topics.items()})]

    before = built(
        SIMD_found="SSE3 SSE41 AVX2 FMA3", Compilers_cython_version="3.0.8", BLAS_lib_directory="/a", same="1"
    )
    after = built(
        SIMD_found="SSE3 SSE41 AVX2 AVX512F", Compilers_cython_version="3.1.0", BLAS_lib_directory="/b", same="1"
    )
    assert describe_loaded(before, after) == (
        "numpy built: Compilers cython version 3.0.8 -> 3.1.0, SIMD found + AVX512F - FMA3"
    )
    assert describe_loaded(before, before) == describe_loaded(before, [package("numpy", "2.2.6")]) == ""
    text = "ORT Build Info: git-branch=HEAD, git-commit-id={}, flags: -O3 {} -DNDEBUG"
    info = [
        [dict(package("o", "1"), built={"": text.format(*topic_text)})]
        for topic_text in (("a1", "-Wno-restrict"), ("b2", "-g"))
    ]
    assert describe_loaded(*info) == "o built: + -g - -Wno-restrict"
    many = built(flags=" ".join(map(str, range(12)))), built(flags=" ".join(map(str, range(4))))
    assert describe_loaded(*many) == "numpy built: flags - 4 5 6 7 8 9 and 2 more"


def test_another_compiler_is_said_of_the_libraries_that_a_package_brought() -> None:
    build = Build("numpy", "numpy==2.2.6", "release", "/bin/python", "2.2.6", "3.11.7", "d", {"numpy": "2.2.6"})
    builds: dict[Side, Build] = {
        "control": replace(build, details={"compiler of numpy": "GCC 10.2.1", "compiler of b": "GCC 4.8.5"}),
        "treatment": replace(build, details={"compiler of numpy": "GCC 14.2.1", "compiler of b": "GCC 4.8.5"}),
    }
    loaded = [
        dict(library("_umath.cpython-311-x86_64-linux-gnu.so"), package="numpy"),
        dict(library("libb.so"), package="b"),
        dict(library("libc.so.6"), package=""),
        dict(library("_C.so"), package="numpy"),
        dict(library("_C.so"), package="b"),
    ]
    answers = Answers({"libraries": [{"control": {"libraries": loaded}, "treatment": {"libraries": loaded}}]})
    words = "GCC 14.2.1, before GCC 10.2.1"
    assert other_compilers(answers, builds) == {"_umath.cpython-311-x86_64-linux-gnu.so": words, "": words}
    assert describe_differences(answers, builds) == "compiler of numpy GCC 10.2.1 -> GCC 14.2.1"
    same: dict[Side, Build] = dict.fromkeys(SIDES, builds["control"])
    assert (other_compilers(answers, same), describe_differences(answers, same)) == ({}, "")


def test_what_a_package_says_of_its_build_and_whose_a_library_is() -> None:
    worker = module("libraries")
    config = {"Compilers": {"c": {"name": "gcc"}}, "SIMD": {"found": ["A", "B"]}, "n": 1}
    assert worker.built("numpy", SimpleNamespace(__config__=SimpleNamespace(CONFIG=config))) == {
        "Compilers c name": "gcc",
        "SIMD found": "A B",
        "n": "1",
    }
    assert worker.built("onnxruntime", SimpleNamespace(get_build_info=lambda: "-O3")) == {"": "-O3"}
    assert worker.built("numpy", SimpleNamespace()) == worker.built("unknown", sys) == {}
    site = "/x/lib/python3.11/site-packages/"
    assert worker.package_of(site + "numpy/core/_m.so") == worker.package_of(site + "numpy.py/_m.so") == "numpy"
    assert worker.package_of("/usr/lib/libc.so.6") == worker.package_of(site + "numpy.libs/libo.so") == ""
    features = SimpleNamespace(runtime=SimpleNamespace(feature_list=lambda: ["✔ CUDA", "✖ CUDNN"]))
    assert worker.built("any other", features) == {"": "✔_CUDA ✖_CUDNN"}


def test_libraries_are_read_from_the_maps_of_a_process() -> None:
    lines = [
        "7f00-7f01 r-xp 00000000 08:01 1 /usr/lib/libc.so.6\n",
        "7f01-7f02 r--p 00001000 08:01 1 /usr/lib/libc.so.6\n",
        "7f02-7f03 r--p 00000000 08:01 2 /opt/a b/_x.cpython-311.so\n",
        "7f03-7f04 r--p 00000000 08:01 3 /usr/share/locale.mo\n",
        "7f04-7f05 rw-p 00000000 00:00 0 [heap]\n",
        "7f05-7f06 rw-p 00000000 00:00 0\n",
    ]
    assert module("libraries").mapped(lines) == ["/usr/lib/libc.so.6", "/opt/a b/_x.cpython-311.so"]


def elf(notes: bytes) -> bytes:
    """The least that has a segment of notes."""
    head = b"\x7fELF\x02\x01".ljust(32, b"\0") + struct.pack("<Q", 64)
    head = head.ljust(54, b"\0") + struct.pack("<HH", 56, 1)
    entry = struct.pack("<IIQQQQQQ", 4, 4, 120, 0, 0, len(notes), len(notes), 4)
    return head.ljust(64, b"\0") + entry + notes


def test_a_build_id_is_read_from_the_notes(tmp_path: Path) -> None:
    read = module("libraries").build_id
    other = struct.pack("<III", 4, 2, 1) + b"GNU\0" + b"xx\0\0"
    path = tmp_path / "lib.so"
    path.write_bytes(elf(other + struct.pack("<III", 4, 3, 3) + b"GNU\0" + b"\x01\xab\xff\0"))
    assert read(str(path)) == "01abff"
    path.write_bytes(elf(other))
    assert read(str(path)) == ""
    path.write_bytes(b"no library")
    assert read(str(path)) == read(str(tmp_path / "gone.so")) == ""


def test_packages_and_libraries_of_this_process() -> None:
    import numpy

    entries = {entry["name"]: entry for entry in module("libraries").libraries()}
    assert entries["numpy"]["version"] == numpy.__version__
    assert "gcc" in entries["numpy"]["built"]["Compilers c name"]
    assert next(entry for name, entry in entries.items() if name.startswith("_multiarray_umath"))["package"] == "numpy"
    assert entries["Python"]["version"] == sys.version.split()[0]
    assert "ctypes" not in entries
    assert any("OpenBLAS" in entry.get("says", "") for entry in entries.values())


def test_page_faults_and_waiting_are_counted_and_the_times_add_up() -> None:
    worker = module("resources")
    pages = 64

    def touches() -> None:
        with mmap.mmap(-1, pages * mmap.PAGESIZE) as memory:
            for page in range(pages):
                memory[page * mmap.PAGESIZE] = 1

    measurement = worker.resources(touches, 16, None, lambda: None, None, False)
    assert pages <= measurement["counts"]["minor page faults"] < 2 * pages
    assert measurement["calls"] == 16
    measurement = worker.resources(lambda: time.sleep(0.002), 8, None, touches, None, False)
    assert measurement["counts"]["minor page faults"] < pages / 2  # what comes before isn't counted
    assert measurement["counts"]["voluntary context switches"] >= 1
    assert measurement["time"]["waiting"] > 1_500_000
    assert worker.parted(3.0, 1.0, 2.0, 2.5) == {"user code": 1.5e9, "kernel": 0.5e9, "waiting": 0.5e9}
    assert worker.parted(3.0, 1.0, 4.0, 2.5)["waiting"] == 0


def test_what_others_have_of_the_processor_is_not_waiting() -> None:
    """A busy process on the same processor takes about half of it: the call doesn't wait for anything."""
    worker, cpu = module("resources"), min(os.sched_getaffinity(0))
    before, other = os.sched_getaffinity(0), os.fork()
    if other == 0:
        os.sched_setaffinity(0, {cpu})
        while True:
            pass
    try:
        os.sched_setaffinity(0, {cpu})
        answer = worker.resources(lambda: sum(range(2_000_000)), 10, 1, lambda: None, None, False)
    finally:
        os.sched_setaffinity(0, before)
        os.kill(other, signal.SIGKILL)
        os.waitpid(other, 0)
    assert answer["time"]["waiting"] < 0.1 * answer["time"]["user code"]


def test_each_count_is_an_observation_of_its_own_and_those_that_never_happen_are_left_out() -> None:
    def answer(faults: float) -> dict[str, Any]:
        return {"counts": {"minor page faults": faults, "major page faults": 0.0}, "time": {"user code": 5.0}}

    observations = resource_observations(Answers({"resources": [{"control": answer(0.0), "treatment": answer(3.0)}]}))
    assert list(observations) == [TIME, "minor page faults"]
    (pair,) = observations["minor page faults"]
    assert {side: {name: part.amount for name, part in parts.items()} for side, parts in pair.items()} == {
        "control": {"minor page faults": 0.0},
        "treatment": {"minor page faults": 3.0},
    }
    assert (unit_of(TIME), unit_of("minor page faults")) == ("ns", "count")


def test_of_several_libraries_that_say_one_name_all_are_compared() -> None:
    old, new = (library(f"libopenblas-{n}.so", str(n), f"OpenBLAS 0.3.{n} Haswell") for n in (7, 13))
    other = library("libscipy_openblas-1.so", "c", "OpenBLAS 0.3.30 Haswell")
    assert describe_loaded([old, other], [new, other, other]) == "OpenBLAS 0.3.30 and 0.3.7 -> 0.3.13 and 0.3.30"
    assert describe_loaded([old, other], [other, old]) == ""


def test_a_version_that_one_side_does_not_tell() -> None:
    assert describe_loaded([package("x", "")], [package("x", "2")]) == "x unversioned -> 2"
    assert describe_loaded([package("x", "2")], [package("x", "")]) == "x 2 -> unversioned"
