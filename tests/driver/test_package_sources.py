"""What of a Python package's commit decides its build."""

import zipfile
from pathlib import Path

import pytest

from opduel.driver.builds import package_build
from opduel.driver.builds.package_builder import DATA
from opduel.driver.builds.package_sources import (
    LEGACY_BACKEND,
    NotInstalledError,
    Rules,
    blob_id,
    installed_as,
    installed_path,
    load_rules,
    read_project,
    sources_of,
)
from opduel.frameworks import FRAMEWORKS_DIR
from opduel.records import UsageError
from opduel.support.project_file import name_in_setup_cfg

RULES = load_rules(FRAMEWORKS_DIR / DATA, "any")
FILES = {
    "pyproject.toml": "100644 blob 01",
    "README.md": "100644 blob 02",
    "src/toy/__init__.py": "100644 blob 03",
    "src/toy/_native.c": "100644 blob 04",
    "src/toy/tests/test_toy.py": "100644 blob 05",
    "docs/README.md": "100644 blob 11",
    "src/toy/conftest.py": "100644 blob 12",
    "src/toy/tests/fast.pyx": "100644 blob 13",
    "src/toy/tests/meson.build": "100644 blob 14",
    "src/toy/descr/data.rst": "100644 blob 15",
    "src/toy/__init__.pyi": "100644 blob 16",
    "tools/generate_c.py": "100644 blob 06",
    "vendored/library": "160000 commit 07",
}
ANOTHER = {name: entry[:-2] + "99" for name, entry in FILES.items()}


@pytest.mark.parametrize(
    ("changed", "native", "code"),
    [
        ("README.md", False, False),
        ("docs/README.md", False, False),
        ("src/toy/tests/test_toy.py", False, True),
        ("src/toy/conftest.py", False, True),
        ("src/toy/tests/fast.pyx", True, False),
        ("src/toy/tests/meson.build", True, False),
        ("src/toy/descr/data.rst", True, False),
        ("src/toy/__init__.pyi", True, False),
        ("src/toy/__init__.py", False, True),
        ("src/toy/_native.c", True, False),
        ("pyproject.toml", True, False),
        ("tools/generate_c.py", True, False),
        ("vendored/library", True, False),
    ],
)
def test_what_a_change_touches(changed: str, native: bool, code: bool) -> None:
    before, after = sources_of(FILES, RULES), sources_of({**FILES, changed: ANOTHER[changed]}, RULES)
    assert (before.native != after.native, before.code != after.code) == (native, code)
    assert before.differing(after) == ([changed] if code else [])


def test_a_new_file_of_python_code_is_for_the_backend() -> None:
    before = sources_of(FILES, RULES)
    assert sources_of({**FILES, "src/toy/more.py": "100644 blob 08"}, RULES).native != before.native
    after = sources_of({**FILES, "src/toy/tests/test_more.py": "100644 blob 08"}, RULES)
    assert (after.native, after.code != before.code) == (before.native, True)  # but a test needs no compile
    assert after.differing(before) == before.differing(after) == ["src/toy/tests/test_more.py"]


def test_type_stubs_of_packages_that_read_none_are_ignored() -> None:
    for name in ("numpy", "scipy", "pandas"):
        assert load_rules(FRAMEWORKS_DIR / DATA, name).is_ignored("numpy/core/multiarray.pyi")


def test_where_tests_are_laid(tmp_path: Path) -> None:
    """An installed test is replaced, a new one lies beside it; one that is not installed does not matter."""
    (tmp_path / "toy" / "tests").mkdir(parents=True)
    (tmp_path / "toy" / "tests" / "test_toy.py").write_bytes(content := b"ONE = 1\n")
    (tmp_path / "toy" / "tests" / "test_made.py").write_bytes(b"changed while it was built\n")
    blob = f"100644 blob {blob_id(b'another', '0' * 40)}"
    listed = f"100644 blob {blob_id(content, '0' * 40)}"
    tests = {"src/toy/tests/test_toy.py": listed, "src/toy/tests/test_made.py": blob, "other/tests/test_no.py": blob}
    theirs = sources_of({"src/toy/fast.py": blob, **tests}, RULES)
    assert installed_path("src/toy/tests/test_toy.py", theirs, tmp_path) == "toy/tests/test_toy.py"
    assert installed_path("src/toy/tests/test_new.py", theirs, tmp_path) == "toy/tests/test_new.py"
    assert installed_path("other/tests/test_no.py", theirs, tmp_path) is None
    assert installed_path("other/tests/test_new.py", theirs, tmp_path) is None
    for path in ("src/toy/tests/test_made.py", "src/toy/fast.py"):
        with pytest.raises(NotInstalledError):
            installed_path(path, theirs, tmp_path)


@pytest.mark.parametrize(
    ("project", "path"),
    [
        ("numpy", "numpy/distutils/core.py"),
        ("numpy", "numpy/core/setup_common.py"),
        ("any", "src/toy/_build.py"),
        ("any", "toy/_fast_build.py"),
        ("any", "toy/build_fast.py"),
        ("any", "toy/core/setup_common.py"),
    ],
)
def test_installed_python_that_also_builds_is_native(project: str, path: str) -> None:
    rules = load_rules(FRAMEWORKS_DIR / DATA, project)
    before, after = (sources_of({**FILES, path: f"100644 blob {blob}"}, rules) for blob in ("08", "09"))
    assert (before.native != after.native, before.code != after.code) == (True, False)


def test_the_project_file_is_read() -> None:
    text = b"""[build-system]
requires = ["meson-python>=0.18"]
build-backend = "mesonpy"
[project]
name = "Scikit_Learn"
requires-python = ">=3.11"
"""
    project = read_project(text, "repository")
    assert (project.name, project.backend) == ("scikit-learn", "mesonpy")
    assert project.requires == ("meson-python>=0.18",)
    assert [project.allows(python) for python in ("3.10", "3.11", "3.13")] == [False, True, True]


def test_a_commit_without_a_project_file_is_built_by_setuptools() -> None:
    project = read_project(None, "repository")
    assert (project.name, project.backend, project.requires) == ("repository", LEGACY_BACKEND, ("setuptools", "wheel"))
    assert project.allows("3.7")


def test_a_project_file_that_is_none_is_refused() -> None:
    with pytest.raises(
        UsageError, match=r"^pyproject.toml: can't be read \(.*\): correct it, or build another commit$"
    ):
        read_project(b"[build-system\n", "repository")


def test_where_a_file_is_installed(tmp_path: Path) -> None:
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "fast.py").write_bytes(b"FAST = 1\n")
    blob = "f8b1ff2a8e1a4e4b3a0b6a6f2d8a6c2c2e0e2b0c"
    assert installed_as("src/toy/fast.py", blob, tmp_path) is None  # another content
    blob = blob_id(b"FAST = 1\n", blob)
    assert installed_as("src/toy/fast.py", blob, tmp_path) == "toy/fast.py"
    assert installed_as("other/fast.py", blob, tmp_path) is None
    (tmp_path / "toy" / "fast.cpython-311-x86_64-linux-gnu.so").touch()  # compiled by mypyc, or by Cython
    assert installed_as("src/toy/fast.py", blob, tmp_path) is None


def test_git_hashes_are_gits() -> None:
    assert blob_id(b"hello\n", "0" * 40) == "ce013625030ba8dba906f756967f9e9ca394464a"


def test_well_known_packages_have_rules_of_their_own() -> None:
    for name in ("numpy", "scipy", "pandas", "scikit-learn"):
        rules = load_rules(FRAMEWORKS_DIR / DATA, name)
        assert isinstance(rules, Rules)
        assert len(rules.ignored) > len(RULES.ignored)


def test_a_project_s_name_may_be_setuptools_own() -> None:
    assert name_in_setup_cfg(b"[metadata]\nname = yarl\nversion = attr: yarl.__version__\n") == "yarl"
    for content in (
        None,
        b"",
        b"[metadata]\nversion = 1\n",
        b"no section\n",
        b"[metadata]\nname = a\nname = b\n",
        b"\xff[metadata]\n",
    ):
        assert name_in_setup_cfg(content) is None


def test_extras_of_its_own_that_an_extra_names_are_the_commit_s(tmp_path: Path) -> None:
    needs = ["numpy", 'x[fast,more]; extra == "test"', 'six; extra == "fast"', 'attrs; extra == "more"']
    needs += [
        'x[test]; extra == "more"',
        'old; extra == "fast" and python_full_version < "3.12"',
        'no; extra == "docs"',
    ]
    lines = ["Metadata-Version: 2.1", "Name: X", "Version: 1.0", *(f"Requires-Dist: {line}" for line in needs)]
    wheel = tmp_path / "x-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("x-1.0.dist-info/METADATA", "\n".join(lines) + "\n")
    assert package_build._metadata(wheel, ["test"], "3.12") == ("X", ["numpy", "six", "attrs"])
    assert package_build._metadata(wheel, ["test"], "3.11") == ("X", ["numpy", "six", "old", "attrs"])
    assert package_build._metadata(wheel, [], "3.12") == ("X", ["numpy"])
