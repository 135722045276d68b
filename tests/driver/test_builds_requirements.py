"""Builds from requirements: what is a requirement, how it is locked and kept, and what the recipe says of it."""

from pathlib import Path

import pytest

from opduel.driver.builds import requirements, uv
from opduel.driver.builds.cache import BuildCache
from opduel.driver.builds.requirements import LockedRecipe, lock, requirements_of, with_packages
from opduel.driver.builds.resolve import resolve_build
from opduel.frameworks import get_framework
from opduel.records import UsageError

LOCKED = "numpy==1.26.4 \\\n    --hash=sha256:00\nscipy==1.14.1 \\\n    --hash=sha256:11\n"


def test_requirements_are_words_or_the_lines_of_a_file(tmp_path: Path) -> None:
    assert requirements_of("scipy==1.14.1 numpy>=1.26,<2 pandas") == ("scipy==1.14.1", "numpy>=1.26,<2", "pandas")
    path = tmp_path / "needed.txt"
    path.write_text("# a comment\nnumpy==1.26.4  # why\n\nscipy==1.14.1 \\\n    --hash=sha256:11\n")
    assert requirements_of(str(path)) == ("numpy==1.26.4", "scipy==1.14.1 --hash=sha256:11")
    assert requirements_of(str(tmp_path)) is None
    assert requirements_of("~/environment") is None
    assert requirements_of("./numpy") is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"bad.txt: has no requirements: name a package on each line"),
        ("-r other.txt\n", r"bad.txt: '-r other.txt': options are not supported"),
        ("numpy = 1\n", r"bad.txt': 'numpy = 1' is neither a requirement nor a path"),
        (None, r"bad.txt: No such file or directory: give requirements"),
    ],
)
def test_files_that_can_not_be_meant(tmp_path: Path, content: str | None, message: str) -> None:
    path = tmp_path / "bad.txt"
    if content is not None:
        path.write_text(content)
    with pytest.raises(UsageError, match=message):
        requirements_of(str(path))


def test_words_that_can_not_be_meant() -> None:
    with pytest.raises(UsageError, match=r"'numpy == 1': '==' is neither .* without spaces within"):
        requirements_of("numpy == 1")
    with pytest.raises(UsageError, match=r"' ' has no requirements: name a package"):
        requirements_of(" ")


def test_requirements_for_other_pythons_alone_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements.uv, "resolve", lambda *_: "")
    with pytest.raises(UsageError, match=r"^numpy; python_version<'3': none of these packages is for Python 3\.\d+ on"):
        lock(("numpy; python_version<'3'",), tmp_path)


def test_what_was_resolved_once_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def resolve(request: str, path: Path, interpreter: Path) -> str:
        asked.append(path.read_text())
        return LOCKED

    monkeypatch.setattr(requirements.uv, "resolve", resolve)
    recipes = [lock(("scipy", "numpy<2"), tmp_path / "builds") for _ in range(2)]
    assert asked == ["scipy\nnumpy<2\n"]
    assert recipes[0] == recipes[1]
    assert recipes[0].pins == {"numpy": "1.26.4", "scipy": "1.14.1"}
    assert recipes[0].version == "scipy 1.14.1, numpy 1.26.4"
    assert recipes[0].key.startswith("scipy-1.14.1-py3.")
    lock(("scipy", "numpy<3"), tmp_path / "builds")
    assert len(asked) == 2


def test_the_key_has_all_that_was_resolved() -> None:
    first = LockedRecipe(("numpy",), "3.11", LOCKED)
    assert first.key != LockedRecipe(("numpy",), "3.11", LOCKED.replace("sha256:11", "sha256:12")).key
    assert first.key != LockedRecipe(("numpy",), "3.12", LOCKED).key


@pytest.mark.wheels
def test_requirements_that_conflict_are_refused_in_uvs_words(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"Because scipy==1.14.1 depends on numpy>=1.23.5,<2.3 .* unsatisfiable") as it:
        resolve_build("scipy==1.14.1 numpy==1.20.0", get_framework("python"), BuildCache(tmp_path))
    assert "\n" not in str(it.value)
    with pytest.raises(UsageError, match=r"numpy==0.0.1 can't be resolved: .*numpy==0.0.1.*correct the requirements"):
        resolve_build("numpy==0.0.1", get_framework("python"), BuildCache(tmp_path))


def test_what_an_adaptor_needs_is_added_where_it_is_not_named() -> None:
    assert with_packages(("torch==2.13.0",), ("numpy",)) == ("torch==2.13.0", "numpy")
    assert with_packages(("torch==2.13.0", "NumPy==2.2.6"), ("numpy",)) == ("torch==2.13.0", "NumPy==2.2.6")


def test_uv_looks_where_pip_is_told_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PIP_FIND_LINKS is pip's own variable, with spaces between places; uv's has commas, and comes first."""
    program = tmp_path / "uv"
    program.write_text("#!/bin/sh\necho uv $UV_FIND_LINKS\n")
    program.chmod(0o755)
    monkeypatch.setattr(uv, "_executable", lambda: str(program))
    monkeypatch.delenv("UV_FIND_LINKS", raising=False)
    monkeypatch.setenv("PIP_FIND_LINKS", "/one /two")
    assert uv.version() == "/one,/two"
    monkeypatch.setenv("UV_FIND_LINKS", "/three")
    assert uv.version() == "/three"
    monkeypatch.delenv("UV_FIND_LINKS")
    monkeypatch.delenv("PIP_FIND_LINKS")
    assert uv.version() == "unknown"
