"""What differs between two environments, and in which order packages can be exchanged."""

from dataclasses import replace
from pathlib import Path

import pytest
from made_environments import PYTHON, a_pair, environment, install

from opduel.driver.packages import EnvironmentPair, read_packages
from opduel.records import UsageError


def test_packages_differ_by_version_by_files_and_by_being_there(tmp_path: Path) -> None:
    pair = a_pair(tmp_path, {"a": "1.0", "b": "1.0", "c": "1.0"}, {"a": "2.0", "b": "1.0", "d": "0.1"})
    assert pair.differing == ("a", "c", "d")
    assert [pair.change(name) for name in pair.differing] == ["a 1.0 -> 2.0", "c 1.0 -> none", "d none -> 0.1"]
    (tmp_path / "new" / "b.py").write_text("# edited in place\n")
    packages = read_packages([tmp_path / "new"], PYTHON)
    edited = EnvironmentPair(pair.control, replace(pair.treatment, packages=packages))
    assert "b 1.0 -> 1.0 (other files)" in map(edited.change, edited.differing)


def test_a_mixture_has_what_was_exchanged_of_the_treatment(tmp_path: Path) -> None:
    pair = a_pair(tmp_path, {"a": "1.0", "b": "1.0", "c": "1.0"}, {"a": "2.0", "b": "2.0", "d": "2.0"})
    mixture = pair.mixture({"b", "c"})
    assert {name: package.version for name, package in mixture.packages.items()} == {"a": "1.0", "b": "2.0"}
    assert pair.mixture(set(pair.differing)).packages == pair.treatment.packages
    assert pair.title({"b"}) == "old with b 2.0"
    assert pair.title(set(pair.differing)) == "new"


def test_what_others_wait_for_is_exchanged_last(tmp_path: Path) -> None:
    """A new NumPy goes only with the new packages, which go with the old one, too."""
    old_needs = {"scipy": ["numpy<2"], "pandas": ["numpy<2"]}
    new_needs = {"scipy": ["numpy>=1.25"], "pandas": ["numpy>=1.25", "tzdata"]}
    old = {"numpy": "1.26.4", "scipy": "1.11.0", "pandas": "1.5.3"}
    new = {"numpy": "2.2.6", "scipy": "1.15.3", "pandas": "2.2.3", "tzdata": "2025.2"}
    pair = a_pair(tmp_path, old, new, old_needs, new_needs)
    assert pair.completed({"numpy"}) == {"numpy", "scipy", "pandas", "tzdata"}
    assert pair.completed({"pandas"}) == {"pandas", "tzdata"}
    assert pair.line() == [
        frozenset(),
        {"scipy"},
        {"scipy", "tzdata"},
        {"scipy", "tzdata", "pandas"},
        {"scipy", "tzdata", "pandas", "numpy"},
    ]


def test_packages_that_require_each_other_are_exchanged_together(tmp_path: Path) -> None:
    needs = {"a": ["b==1.0"]}, {"a": ["b==2.0"], "c": ["gone; extra == 'more'", "gone; python_version < '3'"]}
    pair = a_pair(tmp_path, {"a": "1", "b": "1.0", "c": "1"}, {"a": "2", "b": "2.0", "c": "2"}, *needs)
    assert pair.line() == [frozenset(), {"c"}, {"a", "b", "c"}]


def test_what_an_environment_does_not_meet_itself_keeps_nothing_apart(tmp_path: Path) -> None:
    pair = a_pair(tmp_path, {"a": "1", "b": "1"}, {"a": "2", "b": "2"}, {"a": ["missing"]}, {"a": ["b<1"]})
    assert pair.line() == [frozenset(), {"a"}, {"a", "b"}]


def test_another_python_comes_last_and_alone(tmp_path: Path) -> None:
    pair = a_pair(tmp_path, {"z": "1"}, {"z": "2"})
    other = replace(pair.treatment, interpreter=Path("/usr/bin/python3.12"), python="3.12.3")
    for changed in (EnvironmentPair(pair.control, other), EnvironmentPair(pair.control, pair.treatment, other)):
        assert changed.line() == [frozenset(), {"z"}, {"z", "python"}]
        assert changed.change("python") == "python 3.11.7 -> 3.12.3"
        assert changed.mixture({"z", "python"}).interpreter == other.interpreter
    assert changed.completed({"python"}) == {"z", "python"}


@pytest.mark.parametrize(
    ("lines", "repository"),
    [
        (
            ["Project-URL: Docs, https://numpy.org", "Project-URL: Source, https://github.com/numpy/numpy"],
            "numpy/numpy",
        ),
        (["Home-page: https://github.com/dateutil/dateutil.git"], "dateutil/dateutil"),
        (["Project-URL: Bugs, https://github.com/a/a/issues", "Project-URL: Code, https://github.com/b/b"], "b/b"),
        (["Home-page: https://example.org"], None),
    ],
)
def test_the_repository_is_in_the_metadata(tmp_path: Path, lines: list[str], repository: str | None) -> None:
    install(tmp_path, "a", "1.0", metadata=lines)
    expected = repository and f"https://github.com/{repository}"
    assert read_packages([tmp_path], PYTHON)["a"].repository == expected


def test_a_package_that_does_not_list_its_files_is_refused(tmp_path: Path) -> None:
    environment(tmp_path, {"a": "1.0"})
    (tmp_path / "a-1.0.dist-info" / "RECORD").unlink()
    with pytest.raises(UsageError, match=r"a has no list of its files \(RECORD\): install it by pip or uv"):
        read_packages([tmp_path], PYTHON)
