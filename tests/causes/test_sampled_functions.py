"""Samples of native code: which function an address is in, and what becomes of samples."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

from opduel.causes.collectors.callgrind_file import NAMELESS, FunctionCost, FunctionId
from opduel.causes.collectors.process_pairs import Answers, UnansweredError
from opduel.causes.collectors.sampled_functions import FEWEST, profile_of, sample_observations
from opduel.causes.collectors.symbols import Symbols, demangle, symbol_at

CODE = """
namespace shop { struct Till { __attribute__((noinline)) int add(int a) { return a * 3 + 1; } }; }
static __attribute__((noinline)) int hidden(int a) { return a * 5 + 2; }
extern "C" int counted(int a) { shop::Till till; return till.add(a) + hidden(a); }
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("needs g++")
    folder = tmp_path_factory.mktemp("symbols")
    (folder / "code.cpp").write_text(CODE)
    built = folder / "libcode.so"
    command = [compiler, "-O1", "-g", "-shared", "-fPIC", "-o", str(built), str(folder / "code.cpp")]
    subprocess.run(command, check=True)
    return built


def places_of(path: Path, names: set[str]) -> dict[str, int]:
    """A place within each function, as ``nm`` has them; all of this library's code lies where it is loaded."""
    lines = subprocess.run(
        ["nm", "-S", "-C", str(path)], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    rows = [line.split(None, 3) for line in lines]
    return {row[3]: int(row[0], 16) + 1 for row in rows if len(row) == 4 and row[3] in names}


def test_a_place_is_in_the_function_that_the_symbols_say(library: Path) -> None:
    names = {"shop::Till::add(int)", "hidden(int)", "counted"}
    places = places_of(library, names)
    assert places.keys() == names
    assert {symbol_at(str(library), place) for place in places.values()} == names
    assert symbol_at(str(library), 1 << 30) == ""
    assert symbol_at("/nowhere.so", 1) == ""


@pytest.mark.parametrize("content", [b"", b"text", b"\x7fELF\x02\x01", b"\x7fELF\x02\x01" + b"\xff" * 58])
def test_what_is_no_library_has_no_symbols(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(ValueError, match=r"empty|ELF"):
        Symbols(str(tmp_path / "file"))
    assert symbol_at(str(tmp_path / "file"), 10) == ""


def test_names_of_c_plus_plus_are_as_people_write_them() -> None:
    try:
        ctypes.CDLL("libstdc++.so.6")
    except OSError:
        pytest.skip("no C++ library")
    assert demangle("_ZN4shop4Till3addEi") == "shop::Till::add(int)"
    assert demangle("N6kernel3SumIfEE") == "kernel::Sum<float>"
    assert demangle("DOUBLE_log2") == demangle("_Znonsense") == ""


def test_samples_are_shares_of_the_time_count_by_function() -> None:
    def answer(ns: float, counts: list[list[object]]) -> dict[str, object]:
        return {"calls": 10, "ns": ns, "samples": counts}

    quiet, few = ["/lib/b.so", 4, 100], ["", 0, FEWEST - 1]
    pairs = [
        {"control": answer(1000.0, [["", 0, 100], quiet]), "treatment": answer(2000.0, [["", 0, 300], quiet])},
        {"control": answer(1000.0, [few]), "treatment": answer(2000.0, [["", 0, 300]])},
    ]
    observations = sample_observations(Answers({"samples": pairs}))
    (pair,) = observations  # the other one has too few
    assert {name: part.amount for name, part in pair["control"].items()} == {
        "generated code (no symbols)": 500.0, "b.so (no symbols)": 500.0
    }  # fmt: skip
    assert {part.amount for part in pair["treatment"].values()} == {1500.0, 500.0}
    with pytest.raises(UnansweredError, match=f"fewer than {FEWEST} samples"):
        sample_observations(Answers({"samples": pairs[1:]}))
    assert profile_of(answer(1.0, [quiet, quiet])).functions == {FunctionId(NAMELESS, "/lib/b.so"): FunctionCost(200)}
