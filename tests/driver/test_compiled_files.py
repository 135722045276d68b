"""Compiled files that do the same, although debug information and ids differ: compiled here."""

import shutil
import subprocess
from pathlib import Path

import pytest

from opduel.driver.code_difference import compare_installed
from opduel.driver.compiled_files import is_loaded_alike

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")

SOURCE = """
static int table[] = {1, 2, 3};
int last;
int triple(int number) { return table[2] * number; }
"""
FLAGS = ("-g", "-O2", "-shared", "-fPIC", "-Wl,--build-id=sha1")


def compile_in(folder: Path, source: str = SOURCE, *flags: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "triple.c").write_text(source)
    subprocess.run(["cc", *FLAGS, *flags, "-o", "triple.so", folder / "triple.c"], cwd=folder, check=True)
    return folder / "triple.so"


@pytest.fixture
def library(tmp_path: Path) -> Path:
    return compile_in(tmp_path / "control")


def test_another_folder_and_other_lines_are_no_difference(library: Path, tmp_path: Path) -> None:
    other = compile_in(tmp_path / "another" / "treatment", f"/* New. */\n\n{SOURCE}")
    assert library.read_bytes() != other.read_bytes()
    assert is_loaded_alike(library, other)
    stripped = compile_in(tmp_path / "stripped", SOURCE, "-s")
    assert is_loaded_alike(library, stripped)


def test_builds_that_differ_in_debug_information_reach_nothing(tmp_path: Path) -> None:
    for side, source in (("control", SOURCE), ("treatment", f"\n{SOURCE}"), ("other", SOURCE.replace("* n", "- n"))):
        library = compile_in(tmp_path / side, source)
        library.with_suffix(".c").unlink()
        library.rename(library.with_suffix(".abi3.so"))
    assert compare_installed(tmp_path / "control", tmp_path / "treatment").parts == []
    assert compare_installed(tmp_path / "control", tmp_path / "other").parts == ["triple.abi3.so"]


@pytest.mark.parametrize(
    "source",
    [
        SOURCE.replace("* number", "+ number"),
        SOURCE.replace("2, 3", "2, 4"),
        SOURCE.replace("int last;", "int last[9];"),
        SOURCE.replace("triple", "thrice"),
        SOURCE.replace("return ", "return (__FILE__)[0] + __LINE__ + "),
    ],
    ids=["code", "data", "size", "name", "line"],
)
def test_what_is_loaded_counts(library: Path, tmp_path: Path, source: str) -> None:
    assert not is_loaded_alike(library, compile_in(tmp_path / "treatment", source))


def test_a_folder_s_name_in_the_data_counts(tmp_path: Path) -> None:
    source = f"{SOURCE}\nconst char *where(void) {{ return __FILE__; }}\n"
    ours, theirs = (compile_in(tmp_path / name, source) for name in ("a", "b"))
    assert not is_loaded_alike(ours, theirs)


def test_what_can_t_be_read_differs(library: Path, tmp_path: Path) -> None:
    content, damaged = library.read_bytes(), tmp_path / "damaged.so"
    sections = content[:40] + bytes(8) + content[48:60] + bytes(4) + content[64:]  # none (ELF, "ELF Header")
    for text in (b"", b"native", content[:200], content[: len(content) // 2], sections):
        damaged.write_bytes(text)
        assert not is_loaded_alike(library, damaged)
        assert not is_loaded_alike(damaged, damaged)
