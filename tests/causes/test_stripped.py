"""Code without symbols: what a stripped library that is compiled here still says of its functions."""

import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from opduel.causes.collectors import stripped
from opduel.causes.collectors.callgrind_file import NAMELESS, CallgrindProfile, FunctionCost, FunctionId, read_callgrind
from opduel.causes.collectors.code_names import demangled, lambda_function, short_function
from opduel.causes.collectors.native_parts import parts_of, without_symbols
from opduel.causes.collectors.stripped import Library, class_name, described, locate
from opduel.records.cause import CODE_OF

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64" or not all(map(shutil.which, ("g++", "strip"))), reason="needs g++ on x86-64"
)
FLAGS = ("-O1", "-shared", "-fPIC", "-fvisibility=hidden", "-fno-ipa-cp", "-fno-inline")
SOURCE = r"""
#include <cstdio>
#include <cstdlib>
#define CHECK(x) if (!(x)) { fprintf(stderr, "%s:%d", __FILE__, __LINE__); abort(); }
#include <functional>
#include <stdexcept>
#define REQUIRE(x) if (!(x)) throw std::runtime_error(__PRETTY_FUNCTION__);
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
namespace kernels {
template <class T> struct Mean {
  __attribute__((noinline)) T run(const T *from, long n) const {
    REQUIRE(n > 0)
    T sum = 0;
    for (long i = 0; i < n; i++) sum += from[i] > 0 ? from[i] : -from[i] * 3;
    return sum / n;
  }
};
__attribute__((noinline)) long each(long n, const std::function<long(long)> &work) { return work(n) + work(n + 1); }
template <class F> __attribute__((noinline)) long batches(long n, F &&work) {
  return each(n, [&work](long k) { return work(k) + 1; });
}
struct Max { __attribute__((noinline)) long apply(long n) const { return batches(n, [](long k) { return k * k; }); } };
typedef long (*Step)(long);
__attribute__((noinline)) long twice(Step step, long n) { return step(n) + step(n + 1); }
__attribute__((noinline)) long step(long k) { return k ^ 5; }
struct Stepped : Kernel { long compute(long n) const override { return twice(step, n); } };
}
extern "C" __attribute__((visibility("default"))) kernels::Kernel *first(long n) {
  return n ? static_cast<kernels::Kernel *>(new kernels::First<float>) : new kernels::First<double>;
}
extern "C" __attribute__((visibility("default"))) float mean(long n) {
  float numbers[2] = {1, 2};
  return kernels::Mean<float>().run(numbers, n % 3);
}
extern "C" __attribute__((visibility("default"))) long largest(long n) { return kernels::Max().apply(n); }
extern "C" __attribute__((visibility("default"))) kernels::Kernel *steps() { return new kernels::Stepped; }
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
    rows = (line.split(" ", 2) for line in symbols.splitlines() if line[:1] == "0")
    return path, {name.partition("(")[0]: int(address, 16) for address, _, name in rows}


def test_functions_begin_where_they_did_before_it_was_stripped(library: tuple[Path, dict[str, int]]) -> None:
    path, addresses = library
    found = Library(str(path))
    for name in ("kernels::turned", "kernels::checked", "kernels::Sum<float>::compute", "exported"):
        start = addresses[name]
        assert found.function_at(start) == found.function_at(start + 3) == start
    assert found.function_at(0) is None
    assert found.function_at(1 << 40) is None


def test_code_says_its_source_file_and_a_vtable_its_class(library: tuple[Path, dict[str, int]]) -> None:
    path, addresses = library
    found = Library(str(path))
    assert found.sources(addresses["kernels::checked"]) == ["src/src/sum.cc"]
    assert found.sources(addresses["kernels::turned"]) == []
    assert found.class_of(addresses["kernels::Sum<float>::compute"]) == "kernels::Sum<float>"
    assert found.class_of(addresses["kernels::Shared::compute"]) == "kernels::First"
    assert found.class_of(addresses["kernels::turned"]) == ""


def test_functions_have_the_names_that_checks_and_lambdas_give_them(library: tuple[Path, dict[str, int]]) -> None:
    path, addresses = library
    found = Library(str(path))
    names = {name: found.name_of(address) for name, address in addresses.items()}
    assert names["kernels::Mean<float>::run"] == "kernels::Mean<float>::run", "the check is in a part of its own"
    assert {names[one] for one in ("kernels::turned", "kernels::each", "exported", "largest")} == {""}
    # The lambda that ``batches`` makes is a template's, whose argument is the lambda in ``apply``.
    (invoke,) = [address for name, address in addresses.items() if name.startswith("std::_Function_handler<long ")]
    assert found.name_of(invoke) == "kernels::Max::apply"
    assert names["kernels::step"] == "kernels::Stepped", "who takes its address, not who calls it"


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("void lib::run(int) [with T = float]", "lib::run"),
        ("lib::Status lib::Sum<T>::run(lib::Context*) const [with T = long int]", "lib::Sum<long int>::run"),
        ("static std::unique_ptr<lib::T> lib::make(const lib::A&, std::function<void(int)>)", "lib::make"),
        ("lib::Table<K, V>::Table(const lib::Info&) [with K = int; V = float]", "lib::Table<int, float>::Table"),
    ],
)
def test_names_of_checks_are_shortened(name: str, short: str) -> None:
    assert short_function(name) == short


def test_a_lambda_s_type_says_which_function_it_is_in() -> None:
    if not demangled("i"):
        pytest.skip("no libstdc++.so.6 to demangle with")
    assert lambda_function("ZNK3lib3MaxIfE3runEPNS_7ContextEEUllE_") == "lib::Max<float>::run"
    given = "ZN3lib4Pool3allIZNKS_3Max3runEPNS_7ContextEEUllE_EEvlOT_EUllE_"
    assert lambda_function(given) == "lib::Max::run"
    assert lambda_function("N3lib3MaxE") == lambda_function("Znonsense") == ""


@pytest.mark.parametrize(
    ("mangled", "name"),
    [
        ("N11onnxruntime6CumSumIfEE", "onnxruntime::CumSum"),
        ("6Kernel", "Kernel"),
        ("*N5mxnet2op12_GLOBAL__N_14PlanE", "mxnet::op::(anonymous namespace)::Plan"),
        ("St9exception", "std::exception"),
    ],
)
def test_class_names(mangled: str, name: str) -> None:
    assert class_name(mangled) == name


def test_functions_count_for_the_nearest_that_is_known(library: tuple[Path, dict[str, int]]) -> None:
    path, addresses = library
    lib, turned = str(path), FunctionId(NAMELESS, str(path), addresses["kernels::turned"])
    compute = FunctionId(NAMELESS, lib, addresses["kernels::Sum<float>::compute"])
    python, omp = FunctionId("cfunction_call", "/usr/lib/libpython3.11.so"), FunctionId("GOMP_parallel", "libgomp.so")
    known = FunctionId("long exported(long)", lib)

    def owner(callers: dict[FunctionId, int], **more: FunctionCost) -> set[str]:
        functions = {turned: FunctionCost(10, 1, callers=callers), known: FunctionCost(1, 1, callers={python: 12})}
        functions |= {compute: FunctionCost(2, 1, callers={python: 12}), omp: FunctionCost(1, callers={known: 11})}
        found = described(CallgrindProfile(functions, 14))
        assert sum(cost.self_cost for cost in found.functions.values()) == 14
        assert found.total == 14
        return {one.name for one in found.functions if not one.address} - {known.name, omp.name}

    assert owner({compute: 10}) == {CODE_OF + "kernels::Sum<float>"}
    assert owner({known: 10}) == {CODE_OF + "exported", CODE_OF + "kernels::Sum<float>"}
    assert owner({omp: 10}) == {CODE_OF + "exported", CODE_OF + "kernels::Sum<float>"}, "through another library"
    assert owner({python: 10}) == {NAMELESS, CODE_OF + "kernels::Sum<float>"}


def test_what_is_no_such_library_is_not_described(tmp_path: Path) -> None:
    text, short = tmp_path / "text", tmp_path / "short"
    text.write_text("no library" * 20)
    short.write_bytes(b"\x7fELF\x02\x01" + bytes(20))
    for path in (text, short, tmp_path / "none"):
        assert locate(str(path), 0x1000) is None
        function = FunctionId(NAMELESS, str(path), 0x1000)
        found = described(CallgrindProfile({function: FunctionCost(5)}, 5))
        assert list(found.functions) == [FunctionId(NAMELESS, str(path))]


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
    assert {one.address for one in profile.functions if one.library == str(path) and one.name == NAMELESS} >= {
        addresses[name] for name in ("kernels::turned", "kernels::checked", "kernels::Sum<float>::compute")
    }
    found = described(profile)
    parts = parts_of(found, 1, set())
    assert parts[CODE_OF + "src/src/sum.cc"].where == path.name
    # ``turned`` has one caller for most, whose class it counts for
    amounts = {name.removeprefix(CODE_OF): part.amount for name, part in parts.items() if name.startswith(CODE_OF)}
    assert amounts["kernels::Sum<float>"] > 20 * amounts["src/src/sum.cc"]
    assert "libkernels.so" in without_symbols({"control": [found], "treatment": [found]})


def test_a_library_is_read_once(library: tuple[Path, dict[str, int]]) -> None:
    assert stripped.library_at(str(library[0])) is stripped.library_at(str(library[0]))
