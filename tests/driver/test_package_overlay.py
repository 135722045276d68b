"""What an overlay takes of the build that it is laid over; without environments, packages or compilers."""

from pathlib import Path

import pytest

from opduel.driver.builds.package_build import Donor, lay_over, overlay
from opduel.records import Commit, RunError

SITE = "lib/python3.11/site-packages"
OWN = ("bin/python", "bin/python3.11", "bin/activate", "bin/activate.fish", "bin/activate_this.py", "pyvenv.cfg")
PREFIX = {"lib/libtbb.so": "tbb", "share/toy/a.dat": "a", "etc/toy.conf": "b", "include/toy.h": "c", "bin/tool": "d"}


def environment_with(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "lib64").symlink_to("lib")
    return folder


@pytest.fixture
def donor(tmp_path: Path) -> Path:
    of_the_build = ("manifest.json", ".used", "requirements.txt", "share/__pycache__/a.pyc", *OWN)
    packages = {f"{SITE}/toy/__init__.py": "theirs", f"{SITE}/toy/gone.py": "", f"{SITE}/toy/_native.so": "native"}
    return environment_with(tmp_path / "donor", {**dict.fromkeys(of_the_build, "donor"), **packages, **PREFIX})


@pytest.fixture
def fresh(tmp_path: Path) -> Path:
    """As it is made, perhaps by another version of what made the donor's."""
    return environment_with(tmp_path / ".making-new", {**dict.fromkeys(OWN[:3], "fresh"), f"{SITE}/_own.pth": ""})


def laid(directory: Path) -> dict[str, str]:
    files = (item for item in directory.rglob("*") if item.is_file() and "lib64" not in item.parts)
    return {str(item.relative_to(directory)): item.read_text() for item in files}


def test_what_wheels_put_beside_site_packages_is_laid_too(donor: Path, fresh: Path) -> None:
    before = laid(fresh)
    lay_over(Donor(donor, {"toy/__init__.py": b"ours", "toy/gone.py": None}), fresh)
    packages = {f"{SITE}/toy/__init__.py": "ours", f"{SITE}/toy/_native.so": "native"}
    assert laid(fresh) == {**before, **packages, **PREFIX}
    assert (fresh / "lib/libtbb.so").samefile(donor / "lib/libtbb.so")
    assert (fresh / "lib64").is_symlink()
    assert (donor / SITE / "toy/__init__.py").read_text() == "theirs"


def test_a_donor_that_is_pruned_meanwhile_is_said(donor: Path, fresh: Path) -> None:
    (donor / "manifest.json").unlink()
    commit = Commit("1" * 40, 0, "Ada <ada@toy.example>", "A commit")
    with pytest.raises(
        RunError, match=r"^.*donor: was removed from the build cache while 1+ was being laid .* \(.*\): try again$"
    ):
        overlay(commit, Donor(donor, {}), fresh)
