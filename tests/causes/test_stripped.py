"""Code without symbols: what a stripped library that is compiled here still says of its functions."""

import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from opduel.causes.collectors import stripped
from opduel.causes.collectors.callgrind_file import NAMELESS, CallgrindProfile, FunctionCost, FunctionId, read_callgrind
from opduel.causes.collectors.native_parts import describe_stripped, parts_of
from opduel.causes.collectors.stripped import StrippedLibrary, locate, with_owners
from opduel.records.cause import CODE_OF

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64" or not all(map(shutil.which, ("g++", "strip"))), reason="needs g++ on x86-64"
)
FLAGS = ("-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-fno-ipa-cp", "-fno-ipa-sra", "-fno-inline")
SOURCE = r"""
#include <cstdio>
#include <cstdlib>
#define CHECK(x) if (!(x)) { fprintf(stderr, "%s:%d", __FILE__, __LINE__); abort(); }
namespace kernels {
struct Kernel { virtual long compute(long n) const = 0; virtual ~Kernel() {} };
__attribute__((noinline)) long turned(long n) { long x = 0; for (long i = 0; i < n; i++) x ^= x * 3 + i; return x; }
struct Shared : Kernel { long compute(long n) const override { return turned(n + 3) + 9; } };
template <class T> struct First : Shared { ~First() { turned(sizeof(T)); } };
template <class T> struct Sum : Kernel { long compute(long n) const override { return turned(n) + sizeof(T); } };
__attribute__((noinline)) long checked(long n) { CHECK(n > 0) return turned(n + 1) * 2; }
}
extern "C" __attribute__((visibility("default"))) long exported(long n) { return kernels::turned(n + 2) + 1; }
extern "C" __attribute__((visibility("default"))) long checks(long n) { return kernels::checked(n) + 1; }
extern "C" __attribute__((visibility("default"))) kernels::Kernel *make() { return new kernels::Sum<float>; }
extern "C" __attribute__((visibility("default"))) long computes(long n) { return make()->compute(n) + 1; }
extern "C" __attribute__((visibility("default"))) kernels::Kernel *first(long n) {
  return n ? static_cast<kernels::Kernel *>(new kernels::First<float>) : new kernels::First<double>;
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, int]]:
    """A stripped library, and where its functions began before it was stripped, by demangled name."""
    folder = tmp_path_factory.mktemp("stripped")
    (folder / "src").mkdir()
    (folder / "src" / "sum.cc").write_text(SOURCE)
    path = folder / "libkernels.so"
    subprocess.run(["g++", *FLAGS, "-o", path.name, "src/../src/sum.cc"], cwd=folder, check=True)
    symbols = subprocess.run(["nm", "-C", path], capture_output=True, text=True, check=True).stdout
    subprocess.run(["strip", path], check=True)
    rows = (line.split(" ", 2) for line in symbols.splitlines() if line[:1] == "0" and "[clone" not in line)
    return path, {name.partition("(")[0]: int(address, 16) for address, _, name in rows}


def test_functions_begin_where_they_did_before_it_was_stripped(library: tuple[Path, dict[str, int]]) -> None:
    path, addresses = library
    stripped_library = StrippedLibrary(str(path))
    for name in ("kernels::turned", "kernels::checked", "kernels::Sum<float>::compute", "exported"):
        start = addresses[name]
        assert stripped_library.function_at(start) == stripped_library.function_at(start + 3) == start
    assert stripped_library.function_at(0) is None
    assert stripped_library.function_at(1 << 40) is None


def test_code_says_its_source_file_and_a_vtable_its_class(library: tuple[Path, dict[str, int]]) -> None:
    path, addresses = library
    stripped_library = StrippedLibrary(str(path))
    assert stripped_library.source_of(addresses["kernels::checked"]) == "src/src/sum.cc"
    assert stripped_library.source_of(addresses["kernels::turned"]) == ""
    assert stripped_library.class_of(addresses["kernels::Sum<float>::compute"]) == "kernels::Sum<float>"
    assert stripped_library.class_of(addresses["kernels::Shared::compute"]) == "kernels::First"
    assert stripped_library.class_of(addresses["kernels::turned"]) == ""


def test_functions_count_for_the_nearest_that_is_known(library: tuple[Path, dict[str, int]]) -> None:
    path, addresses = library
    lib, turned = str(path), FunctionId(NAMELESS, str(path), addresses["kernels::turned"])
    compute = FunctionId(NAMELESS, lib, addresses["kernels::Sum<float>::compute"])
    python, omp = FunctionId("cfunction_call", "/usr/lib/libpython3.11.so"), FunctionId("GOMP_parallel", "libgomp.so")
    exported = FunctionId("long exported(long)", lib)

    def owner(callers: dict[FunctionId, int], **more: FunctionCost) -> set[str]:
        functions = {turned: FunctionCost(10, 1, callers=callers), exported: FunctionCost(1, 1, callers={python: 12})}
        functions |= {compute: FunctionCost(2, 1, callers={python: 12}), omp: FunctionCost(1, callers={exported: 11})}
        joined = with_owners(CallgrindProfile(functions, 14))
        assert sum(cost.self_cost for cost in joined.functions.values()) == 14
        assert joined.total == 14
        return {function.name for function in joined.functions if not function.address} - {exported.name, omp.name}

    assert owner({compute: 10}) == {CODE_OF + "kernels::Sum<float>"}
    assert owner({exported: 10}) == {CODE_OF + "exported", CODE_OF + "kernels::Sum<float>"}
    assert owner({omp: 10}) == {CODE_OF + "exported", CODE_OF + "kernels::Sum<float>"}, "through another library"
    assert owner({python: 10}) == {NAMELESS, CODE_OF + "kernels::Sum<float>"}


def test_what_is_no_such_library_has_no_owners(tmp_path: Path) -> None:
    text, short = tmp_path / "text", tmp_path / "short"
    text.write_text("no library" * 20)
    short.write_bytes(b"\x7fELF\x02\x01" + bytes(20))
    for path in (text, short, tmp_path / "none"):
        assert locate(str(path), 0x1000) is None
        function = FunctionId(NAMELESS, str(path), 0x1000)
        joined = with_owners(CallgrindProfile({function: FunctionCost(5)}, 5))
        assert list(joined.functions) == [FunctionId(NAMELESS, str(path))]


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="needs valgrind")
def test_callgrind_s_addresses_are_those_of_functions(library: tuple[Path, dict[str, int]], tmp_path: Path) -> None:
    """A small program calls each exported function; what is counted in ``turned`` is divided among those it is for."""
    path, addresses = library
    (tmp_path / "main.c").write_text(
        "long exported(long), checks(long), computes(long);\n"
        "int main(void) { return (exported(1000) + checks(2000) + computes(4000)) == 7; }\n"
    )
    subprocess.run(["gcc", "-o", "main", "main.c", path, f"-Wl,-rpath,{path.parent}"], cwd=tmp_path, check=True)
    subprocess.run(
        ["valgrind", "--tool=callgrind", "-q", "--callgrind-out-file=out", "./main"], cwd=tmp_path, check=True
    )
    with (tmp_path / "out").open("rb") as stream:
        profile = read_callgrind(stream, locate=locate)
    assert {
        function.address
        for function in profile.functions
        if function.library == str(path) and function.name == NAMELESS
    } >= {addresses[name] for name in ("kernels::turned", "kernels::checked", "kernels::Sum<float>::compute")}
    joined = with_owners(profile)
    parts = parts_of(joined, set())
    assert parts[CODE_OF + "src/src/sum.cc"].where == path.name
    # ``turned`` has one caller for most, whose class it counts for
    amounts = {name.removeprefix(CODE_OF): part.amount for name, part in parts.items() if name.startswith(CODE_OF)}
    assert amounts["kernels::Sum<float>"] > 20 * amounts["src/src/sum.cc"]
    assert "libkernels.so" in describe_stripped({"control": [joined], "treatment": [joined]})


def test_a_library_is_read_once(library: tuple[Path, dict[str, int]]) -> None:
    assert stripped.library_at(str(library[0])) is stripped.library_at(str(library[0]))
