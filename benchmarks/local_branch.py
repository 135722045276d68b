"""Does repo_driver.py name the culprit of a real repository, and none where there is none?

    .venv/bin/python benchmarks/local_branch.py --repository CLONE_OF_MXNET [--commits 12] [--work DIR]

Makes, in a clone of its own that shares the objects of the one given, two branches of a dozen commits on top of
release 1.9.1: on the one, a commit drawn by ``--seed`` makes nd.add check its shapes in Python; on the other, none
does.  Then runs `repo_driver.py --ab_testing --regression` on each and prints the commit that it named.  Ends in 0 if
it named that commit alone, and on the other branch none.  Needs a clone that has tag 1.9.1, and PyPI for the wheel.
"""

import argparse
import io
import json
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import git

ROOT = Path(__file__).resolve().parent.parent
BASE = "1.9.1"
NDARRAY = "python/mxnet/ndarray/ndarray.py"
# Files that commits of no consequence add a line to, in turn.
PLACES = ("README.md", NDARRAY, "NEWS.md", "python/mxnet/util.py", "docs/README.md", "python/mxnet/gluon/block.py")
SLOW_FROM = """    # pylint: disable= no-member, protected-access
    return _ufunc_helper(
        lhs,
        rhs,
        op.broadcast_add,"""
SLOW_TO = """    # pylint: disable= no-member, protected-access
    if isinstance(lhs, NDArray) and isinstance(rhs, NDArray):
        for left, right in zip(reversed(lhs.shape), reversed(rhs.shape)):
            if left != right and 1 not in (left, right):
                raise ValueError('shapes %s and %s do not broadcast' % (lhs.shape, rhs.shape))
    return _ufunc_helper(
        lhs,
        rhs,
        op.broadcast_add,"""


def main() -> int:
    """Returns 0 if the right commit was named, and only where there is one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repository", type=Path, required=True, help="a clone of MXNet, which is only read")
    parser.add_argument("--work", type=Path, required=True, help="a folder for clone, journal and reports")
    parser.add_argument("--commits", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1, help="draws the culprit")
    parser.add_argument("driver", nargs="*", help="further options of repo_driver.py, after --")
    options = parser.parse_args()
    repository = _clone(options.repository, options.work / "mxnet")
    guilty = random.Random(options.seed).randrange(options.commits)
    good = True
    for branch, slow in (("slowed", guilty), ("plain", None)):
        commits = list(_commits(repository, branch, options.commits, slow))
        expected = [] if slow is None else [commits[slow]]
        began = time.monotonic()
        code, named = _drive(options.work, branch, options.driver)
        print(
            f"{branch}: {options.commits} commits, guilty {[one[:12] for one in expected]}, named "
            f"{[one[:12] for one in named]}, exit code {code}, {time.monotonic() - began:.0f} s"
        )
        good = good and named == expected and code == (1 if expected else 0)
    return 0 if good else 1


def _clone(source: Path, place: Path) -> git.Repo:
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        git.Repo.clone_from(str(source), str(place), shared=True, bare=True)
    return git.Repo(place)


def _commits(repository: git.Repo, branch: str, count: int, slow: int | None) -> Iterator[str]:
    """Make the branch; yields the ids of its commits. Nothing is checked out."""
    parent = repository.commit(BASE)
    index = git.IndexFile.from_tree(repository, parent)
    contents: dict[str, str] = {}
    for number in range(count):
        if number == slow:
            path, subject = NDARRAY, "nd.add tells early which shapes don't broadcast"
            text = _text(repository, parent, path, contents)
            assert SLOW_FROM in text, f"{path} of {BASE} is another than expected"
            contents[path] = text.replace(SLOW_FROM, SLOW_TO)
        else:
            path, subject = PLACES[number % len(PLACES)], f"A note in {PLACES[number % len(PLACES)]}"
            contents[path] = _text(repository, parent, path, contents) + f"\n# note {number}\n"
        _put(repository, index, path, contents[path])
        author = git.Actor(f"Author {number}", f"author{number}@example.org")
        date = f"2022-05-{2 + number // 4:02d} {9 + 3 * (number % 4):02d}:00:00 +0000"
        parent = git.Commit.create_from_tree(
            repository, index.write_tree(), subject, [parent], author=author, committer=author, author_date=date,
            commit_date=date,
        )  # fmt: skip
        yield parent.hexsha
    repository.create_head(branch, parent, force=True)


def _text(repository: git.Repo, commit: git.Commit, path: str, contents: dict[str, str]) -> str:
    if path not in contents:
        contents[path] = (commit.tree / path).data_stream.read().decode()
    return contents[path]


def _put(repository: git.Repo, index: git.IndexFile, path: str, text: str) -> None:
    data = text.encode()
    blob = repository.odb.store(git.db.IStream("blob", len(data), io.BytesIO(data)))
    index.add([git.Blob(repository, blob.binsha, git.Blob.file_mode, path)], write=False)


def _drive(work: Path, branch: str, further: list[str]) -> tuple[int, list[str]]:
    """Run the driver on a branch; its exit code, and the commits that it named."""
    place = work / branch
    command = [
        sys.executable, str(ROOT / "repo_driver.py"), "--ab_testing", "--regression", "-b", "frontend",
        "--remote_repository", str(work / "mxnet"), "--work_dir", str(place), "--commit", branch,
        "--base_commit", BASE, "--exact_base", "--local_reporter", str(place / "reports"), *further,
    ]  # fmt: skip
    shutil.rmtree(place / "culprits", ignore_errors=True)  # of an earlier call, with other changes
    code = subprocess.run(command, check=False).returncode
    named = []
    for document in (place / "culprits").glob("*.json"):
        for culprit in json.loads(document.read_text())["culprits"]:
            named += [one["commit"] for one in culprit["bad"]]
    return code, named


if __name__ == "__main__":
    raise SystemExit(main())
