"""Builds that travel: packed on one host, unpacked into the cache of another."""

import os
import shutil
import tarfile
from pathlib import Path

import pytest
from toy_framework import Toy, leftovers

from opduel.driver.builds import BuildCache, resolve_build
from opduel.driver.builds.transfer import build_at, pack, unpack
from opduel.records import Build, RunError


@pytest.fixture
def build(toy: Toy, tmp_path: Path) -> Build:
    return resolve_build("toy==1.0", toy, BuildCache(tmp_path / "client"))


def test_a_build_comes_over_whole(build: Build, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    pack(build, archive)
    assert build.directory is not None
    own = Path(build.interpreter).readlink()
    shutil.rmtree(build.directory)
    there = unpack(archive, "toy", build.digest, BuildCache(tmp_path / "host"))
    assert (there.digest, there.version) == (build.digest, build.version)
    assert str(tmp_path / "host") in there.interpreter
    assert os.access(there.interpreter, os.X_OK)
    assert Path(there.interpreter).readlink() == own
    again = unpack(archive, "toy", build.digest, BuildCache(tmp_path / "host"))
    assert again == there
    assert leftovers(tmp_path / "host") == []


def test_an_environment_of_a_python_elsewhere_gets_the_one_here(build: Build, tmp_path: Path) -> None:
    """As if it had been made on a host with its Python in another folder."""
    link = Path(build.interpreter)
    for path in link.parent.iterdir():
        if path.is_symlink() and os.path.isabs(path.readlink()):
            path.unlink()
            path.symlink_to("/nowhere/bin/python3")
    pack(build, tmp_path / "archive")
    there = unpack(tmp_path / "archive", "toy", build.digest, BuildCache(tmp_path / "host"))
    assert os.access(there.interpreter, os.X_OK)
    home = (Path(there.interpreter).parents[1] / "pyvenv.cfg").read_text()
    assert f"home = {Path(there.interpreter).resolve().parent}" in home or "home = /" in home


def test_the_build_that_is_there_already_is_found_by_its_digest(build: Build, tmp_path: Path) -> None:
    local_build = build_at(build.directory, build.digest)
    assert local_build is not None
    assert local_build.interpreter == build.interpreter
    assert build_at(build.directory, "another") is None
    assert build_at(str(tmp_path), build.digest) is None
    assert build_at(None, build.digest) is None


def test_what_is_damaged_or_another_build_is_refused(build: Build, tmp_path: Path) -> None:
    archive, host = tmp_path / "archive", BuildCache(tmp_path / "host")
    pack(build, archive)
    with pytest.raises(RunError, match=r"holds the build .*, not another"):
        unpack(archive, "toy", "another", host)
    archive.write_bytes(archive.read_bytes()[:2000])
    with pytest.raises(RunError, match="is damaged"):
        unpack(archive, "toy", build.digest, host)
    with tarfile.open(archive, "w") as tar:
        tar.add(__file__, "other")
    with pytest.raises(RunError, match="is damaged"):
        unpack(archive, "toy", build.digest, host)
    assert leftovers(tmp_path / "host") == [] if (tmp_path / "host").exists() else True
