"""The releases' data file: what it says, and how a bad one is refused."""

from pathlib import Path

import pytest
from toy_framework import RELEASES, Toy, write_releases

from opduel.driver.builds import load_releases, recipe_of
from opduel.frameworks import get_framework
from opduel.records import UsageError


def test_mxnet_data_say_what_the_issue_asks_for() -> None:
    releases = load_releases(get_framework("mxnet"))
    assert releases.default_control == "mxnet==1.8.0.post0"
    assert releases.default_treatment == "mxnet==1.9.1"
    for version in ("1.5.1.post0", "1.6.0", "1.7.0.post2", "1.8.0.post0", "1.9.1"):
        recipe = releases.recipe("mxnet", version)
        assert (recipe.python, recipe.pins["numpy"]) == ("3.11", "1.23.5")
    for package in ("mxnet", "mxnet-mkl"):
        assert releases.recipe(package, "1.5.0").python == "3.7"
        old = releases.recipe(package, "1.4.1")
        assert (old.python, old.pins["numpy"]) == ("3.7", "1.14.6")
    assert releases.recipe("mxnet-native", "1.8.0.post0").python == "3.11"


def test_every_release_pins_all_that_it_imports() -> None:
    needed = {"numpy", "graphviz", "requests", "certifi", "charset-normalizer", "idna", "urllib3"}
    for recipe in load_releases(get_framework("mxnet")).recipes.values():
        assert set(recipe.pins) == needed


def test_a_recipe_lists_exact_versions_and_its_key_follows_the_content(tmp_path: Path) -> None:
    releases = load_releases(write_releases(tmp_path))
    recipe = releases.recipe("toy", "1.0")
    assert recipe.pins == {"toydep": "0.5"}
    assert recipe.key.startswith("toy-1.0-py")
    repinned = load_releases(write_releases(tmp_path, RELEASES.replace('"0.5"', '"0.6"'))).recipe("toy", "1.0")
    assert repinned.key != recipe.key


def test_names_are_compared_as_installers_do(tmp_path: Path) -> None:
    releases = load_releases(get_framework("mxnet"))
    assert releases.recipe("MXNet_MKL", "1.5.0") is releases.recipe("mxnet-mkl", "1.5.0")


def test_an_unknown_version_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"toy==9\.9 is not known: use one of toy==1\.0, toy==2\.0, toy==3\.0"):
        load_releases(write_releases(tmp_path)).recipe("toy", "9.9")


def test_an_unknown_package_lists_the_known_releases(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"tox==\S+ is not known: use one of toy==1\.0, toy==2\.0"):
        load_releases(write_releases(tmp_path)).recipe("tox", "1.0")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("toy==2.0}", "toy==7}", r"defaults\.treatment: 'toy==7' is not listed"),
        ('python: "3.99"', "python: 3.99", r"environments\.ancient\.python is 3\.99: use a string, in quotes"),
        ('python: "3.99"', 'python: "three"', r"environments\.ancient\.python is 'three': correct its form"),
        ("pins: {}", "pin: {}", r"environments\.ancient\.pins is missing: add it"),
        ('["0.1"]', "[0.1]", r"packages\.toy\.ancient\[0\] is 0\.1: use a string, in quotes"),
        ("ancient: [", "medieval: [", r"packages\.toy\.medieval: there is no such environment: use one of plain"),
        ("packages:", "more: 1\npackages:", r"more is unknown: remove it"),
        ("packages:", "packages: [", r"line \d+: not YAML"),
        (RELEASES, "", r"the whole file "),
    ],
)
def test_a_bad_file_is_refused_in_one_line(tmp_path: Path, old: str, new: str, says: str) -> None:
    assert old in RELEASES
    with pytest.raises(UsageError, match=says) as caught:
        load_releases(write_releases(tmp_path, RELEASES.replace(old, new)))
    assert str(tmp_path / "releases.yaml") in str(caught.value)
    assert "\n" not in str(caught.value)


def test_without_a_file_there_are_no_releases_and_builds_are_paths(tmp_path: Path) -> None:
    releases = load_releases(Toy(tmp_path))
    assert (releases.default_control, releases.default_treatment, releases.recipes) == (None, None, {})
    missing = rf"toy has no releases \({tmp_path}/releases\.yaml is missing\): give the path of a build"
    with pytest.raises(UsageError, match=rf"^toy==1\.0: {missing}$"):
        recipe_of("toy==1.0", Toy(tmp_path))
    with pytest.raises(UsageError, match=rf"^'mine' is not a path, and {missing}$"):
        recipe_of("mine", Toy(tmp_path))
    assert recipe_of(str(tmp_path), Toy(tmp_path)) is None


def test_a_file_of_environments_alone_is_enough_for_commits(tmp_path: Path) -> None:
    environments = "environments:\n  plain: {python: '3.11', pins: {}}\n"
    releases = load_releases(write_releases(tmp_path, environments))
    assert (releases.default_control, releases.recipes) == (None, {})
    assert releases.environments["plain"].python == "3.11"
    with pytest.raises(UsageError, match=r"releases\.yaml lists none\): give the path of a build"):
        releases.recipe("toy", "1.0")
