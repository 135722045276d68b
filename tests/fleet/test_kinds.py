"""What kind a host is of, by what it says of itself; and the cases on each kind."""

from pathlib import Path

import pytest
from made_samples import a_case

from opduel.fleet.across import rows_of
from opduel.fleet.job import KIND_RESOURCE, SLOT, tag_resource
from opduel.fleet.kinds import host_kind, kind_of
from opduel.records.case import KIND_NAME

X86 = "processor : 0\nmodel name\t: {}\nflags\t\t: fpu sse {}\n\nprocessor : 1\nmodel name\t: another\n"
ARM = "processor\t: 0\nFeatures\t: fp asimd sve\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n"
UP_TO_VNNI = "avx avx2 avx512f avx512_vnni"


def proc(folder: Path, cpuinfo: str, *gpus: str) -> Path:
    (folder / "cpuinfo").write_text(cpuinfo)
    for number, gpu in enumerate(gpus):
        place = folder / "driver/nvidia/gpus" / f"0000:{number:02d}:00.0"
        place.mkdir(parents=True)
        (place / "information").write_text(f"Model: \t\t {gpu}\nIRQ: 1\n")
    return folder


@pytest.mark.parametrize(
    ("cpuinfo", "gpus", "kind"),
    [
        (
            X86.format("Intel(R) Xeon(R) Platinum 8375C CPU @ 2.90GHz", UP_TO_VNNI),
            (),
            "intel-xeon-platinum-8375c-2.90ghz+avx512_vnni",
        ),
        (X86.format("AMD EPYC 7763 64-Core Processor", "avx avx2"), (), "amd-epyc-7763-64-core+avx2"),
        (
            X86.format("AMD EPYC 7763 64-Core Processor", "avx avx2"),
            ("NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-40GB"),
            "amd-epyc-7763-64-core+avx2+nvidia-a100-sxm4-40gb",
        ),
        # a virtual machine that hides what comes before
        (X86.format("Xeon", "avx avx512f amx_tile"), (), "xeon+avx+avx512f+amx_tile"),
        (X86.format("Xeon", ""), (), "xeon"),
    ],
)
def test_a_kind_is_named_after_processor_instructions_and_gpu(
    tmp_path: Path, cpuinfo: str, gpus: tuple[str, ...], kind: str
) -> None:
    assert host_kind(proc(tmp_path, cpuinfo, *gpus)) == kind


def test_a_processor_without_a_name_has_its_numbers(tmp_path: Path) -> None:
    assert host_kind(proc(tmp_path, ARM)).endswith("-0x41-0xd40+sve")


def test_long_names_differ_and_stay_names(tmp_path: Path) -> None:
    first = host_kind(proc(tmp_path, X86.format("Long " * 30, "avx")))
    second = host_kind(proc(tmp_path, X86.format("Long " * 30, "avx avx2")))
    assert first != second
    assert all(KIND_NAME.fullmatch(name) for name in (first, second, host_kind()))


def test_a_host_is_of_the_last_of_the_platforms_that_it_has() -> None:
    new = dict.fromkeys([SLOT, KIND_RESOURCE + "xeon", *map(tag_resource, ("avx2", "avx512f"))], 1.0)
    old = dict.fromkeys([SLOT, KIND_RESOURCE + "epyc", tag_resource("avx2")], 1.0)
    assert [kind_of(host, ()) for host in (new, old)] == ["xeon", "epyc"]
    assert [kind_of(host, ("avx2", "avx512f")) for host in (new, old)] == ["avx512f", "avx2"]
    assert [kind_of(host, ("avx512f", "avx2")) for host in (new, old)] == ["avx2", "avx2"]
    assert kind_of(old, ("a", "b")) is None
    assert kind_of({SLOT: 1.0, KIND_RESOURCE + "no name": 1.0}, ()) is None


def test_each_case_on_each_kind_but_one_that_has_a_kind_on_that() -> None:
    other = a_case("b").of_kind("old")
    rows = rows_of([a_case("a"), other], ["new", "old"])
    assert [(row.id, row.kind) for row in rows] == [("a@new", "new"), ("a@old", "old"), ("b@old", "old")]
