"""Builds that are programs: found by path or name, and known by their content and the libraries that they link."""

import shutil
import subprocess
from pathlib import Path

import pytest

from opduel.driver.builds import BuildCache, recipe_of, resolve_build
from opduel.frameworks import get_framework
from opduel.records import Build, UsageError

GENERIC = get_framework("generic")


def resolved(request: Path | str, **environment: str) -> Build:
    return resolve_build(str(request), GENERIC, BuildCache(None), environment)


def script(path: Path, text: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


def test_a_program_is_found_by_its_path_or_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = script(tmp_path / "tool")
    monkeypatch.chdir(tmp_path)
    by_path = resolved(path)
    assert by_path.environment == {"OPDUEL_PROGRAM": str(path)}
    assert by_path.version.startswith("tool ")
    assert by_path.strategy == "program"
    assert by_path.description == by_path.version  # no Python
    assert resolved("tool").digest == by_path.digest
    named = resolved("sort")
    assert named.environment["OPDUEL_PROGRAM"] == shutil.which("sort")
    assert any(name.startswith("libc.so") for name in named.packages)
    assert recipe_of("a==1.0", GENERIC) is None


def test_equal_content_is_an_equal_build_but_for_scripts_at_other_places(tmp_path: Path) -> None:
    first, second = tmp_path / "a" / "sort", tmp_path / "b" / "sort"
    for path in (first, second):
        path.parent.mkdir()
        shutil.copy(str(shutil.which("sort")), path)
    assert resolved(first).digest == resolved(second).digest
    script_path, other = script(tmp_path / "a" / "run"), script(tmp_path / "b" / "run")
    assert resolved(script_path).digest != resolved(other).digest  # they may run what lies beside them
    before = resolved(script_path).digest
    script(script_path, "#!/bin/sh\nexit\n")
    assert resolved(script_path).digest != before


def test_another_library_is_another_build(tmp_path: Path) -> None:
    source = tmp_path / "main.c"
    source.write_text("int f(void); int main(void) { return f(); }")
    digests = []
    for number in (0, 1):
        (tmp_path / "f.c").write_text(f"int f(void) {{ return {number}; }}")
        folder = tmp_path / str(number)
        folder.mkdir()
        subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "libf.so", tmp_path / "f.c"], check=True)
        if number == 0:
            subprocess.run(["cc", "-o", tmp_path / "main", source, f"-L{folder}", "-lf"], check=True)
        build = resolved(tmp_path / "main", LD_LIBRARY_PATH=str(folder))
        digests.append((build.digest, build.packages["libf.so"], build.version))
    assert digests[0][0] != digests[1][0]
    assert digests[0][1] != digests[1][1]
    assert digests[0][2] == digests[1][2]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("gone", "gone: no such program: give the path of an executable file, or a command's name"),
        ("folder", "folder: is no file that you can read and execute: give a program"),
        ("plain", r"plain: is no file that you can read and execute: give a program, or chmod \+rx it"),
    ],
)
def test_what_is_no_program_is_refused(tmp_path: Path, name: str, words: str) -> None:
    (tmp_path / "folder").mkdir()
    script(tmp_path / "plain").chmod(0o644)
    with pytest.raises(UsageError, match=words):
        resolved(tmp_path / name)
