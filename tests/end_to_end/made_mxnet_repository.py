"""A small repository that stands in for MXNet's own, which a test can't fetch: its Python code is that of a wheel.

Only the history is made up.  What is built of it is real: the commits' Python code over the wheel's native library.
"""

import shutil
from pathlib import Path

import git
import yaml

from opduel.driver.builds import BuildCache, resolve_build
from opduel.frameworks import FRAMEWORKS_DIR, get_framework

RELEASE = "mxnet==1.8.0.post0"
TAG = "1.8.0"
LATER = "\n\ndef _looked_at(array):\n    return array\n"


def make_repository(folder: Path) -> str:
    """Two commits: the release, tagged, and one that changes Python code alone; returns the second one's id."""
    build = resolve_build(RELEASE, get_framework("mxnet"), BuildCache())
    (package,) = Path(str(build.directory)).glob("lib/python*/site-packages/mxnet")
    ignore = shutil.ignore_patterns("*.so*", "gen_*.py", "__pycache__", "include")
    shutil.copytree(package, folder / "python" / "mxnet", ignore=ignore)
    (folder / "src").mkdir()
    (folder / "src" / "native.cc").write_text("// the native code of the release\n")
    repository = git.Repo.init(folder, initial_branch="master")
    author = git.Actor("Jane Doe", "jane@example.org")
    repository.git.add(all=True)
    repository.index.commit("Release", author=author, committer=author, commit_date="2021-01-16 12:00:00 +0000")
    repository.create_tag(TAG)
    with (folder / "python" / "mxnet" / "util.py").open("a") as code:
        code.write(LATER)
    repository.git.add(all=True)
    second = repository.index.commit(
        "A helper", author=author, committer=author, commit_date="2021-03-02 12:00:00 +0000"
    )
    return second.hexsha


def make_frameworks_dir(folder: Path, repository: Path) -> None:
    """MXNet's data, with the made-up repository's tag as the commit of the release."""
    shutil.copytree(FRAMEWORKS_DIR, folder)
    path = folder / "mxnet" / "repository.yaml"
    data = yaml.safe_load(path.read_text())
    tagged = git.Repo(repository).commit(TAG).hexsha
    path.write_text(yaml.safe_dump({**data, "remote": str(repository), "releases": {RELEASE: tagged}}))
