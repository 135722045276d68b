"""A worktree of our repository, moved from commit to commit by touching only what differs."""

import logging
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from opduel.driver.git.command import Git
from opduel.driver.git.files import Trees
from opduel.driver.version_control import CommandFailed
from opduel.records import Commit, RunError

# Compares files whose times alone changed, which a reset would write once more. Exit code 1: some differ.
_REFRESH = ("update-index", "-q", "--refresh")

log = logging.getLogger(__name__)


def checkout(git: Git, commit: Commit, folder: Path, patterns: Sequence[str], submodules: Sequence[str]) -> None:
    """Make ``folder`` the commit's files: those that the patterns choose (gitignore's form; none: all), nothing else.

    A file that is equal keeps its time of modification, so that a build of it stays valid. Whatever else is in the
    folder and was not there before: changed, untracked and ignored files are discarded. The submodules (by path) are
    at the commit's revision; those that the commit doesn't have are passed over, those that are not named are
    emptied.

    Raises:
        RemoteGone: a submodule can't be had.
        RunError: the folder holds files, but is no worktree of ours.
        CommandFailed: anything else, such as a full disk or a missing object.
    """
    folder = folder.absolute()
    admin = _admin(git, folder) or _add(git, commit, folder)
    for lock in admin.rglob("*.lock"):
        lock.unlink(missing_ok=True)
    entries = Trees(git).list_entries(commit.id, recursive=True)
    modules = [entry.path for entry in entries if entry.kind == "commit"]
    chosen = [path for path in submodules if path in modules]
    _choose(git, folder, admin, patterns, chosen)
    git.run(*_REFRESH, folder=folder, fine=(0, 1))
    git.run("reset", "--quiet", "--hard", commit.id, folder=folder)
    git.run("clean", "--quiet", "-ffdx", folder=folder)
    for path in modules:
        if path not in chosen and any((folder / path).glob("*")):
            git.run("submodule", "--quiet", "deinit", "--force", "--", path, folder=folder)
    if chosen:
        _update(git, commit, folder, chosen)


def _admin(git: Git, folder: Path) -> Path | None:
    """Return the worktree's own folder in the repository; None where there is none yet, after clearing what a kill
    left. RunError: the folder holds files that are not ours to remove."""
    if not folder.exists():
        return None
    link = folder / ".git"
    target = link.read_text(encoding="utf-8", errors="surrogateescape") if link.is_file() else ""
    admin = Path(target.removeprefix("gitdir:").strip())
    if target and admin.parent.resolve() == (git.directory / "worktrees").resolve() and (admin / "gitdir").is_file():
        if git.text("rev-parse", "--quiet", "--verify", "HEAD", folder=folder, fine=(0, 1, 128)):
            return admin
    elif admin.parts[-3:-1] != (git.directory.name, "worktrees") and not _is_empty(folder):
        raise RunError(
            f"{folder}: holds files, but is no worktree of {git.directory}: remove it, or name another folder"
        )
    log.info("%s: an incomplete worktree: recreated", folder)
    shutil.rmtree(folder)
    return None


def _is_empty(folder: Path) -> bool:
    return all(path.name == ".git" and not path.is_dir() for path in folder.iterdir())


def _add(git: Git, commit: Commit, folder: Path) -> Path:
    """Add a worktree without files, and return its own folder in the repository."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    git.run("worktree", "prune", "--expire=now")
    git.run("worktree", "add", "--quiet", "--force", "--detach", "--no-checkout", str(folder), commit.id)
    return Path(git.text("rev-parse", "--absolute-git-dir", folder=folder))


def _choose(git: Git, folder: Path, admin: Path, patterns: Sequence[str], submodules: Sequence[str]) -> None:
    """Set what is checked out (git-sparse-checkout, "full pattern set"); it takes effect at the next reset."""
    chosen = admin / "info" / "sparse-checkout"
    if not patterns and not chosen.exists():
        return
    # Once chosen from, all is chosen by a pattern too: a reset brings nothing back when sparseness is switched off.
    lines = [*patterns, *(["/.gitmodules"] if submodules else []), *(f"/{path}" for path in submodules)]
    chosen.parent.mkdir(exist_ok=True)
    chosen.write_text("".join(f"{line}\n" for line in (lines if patterns else ["/*"])), encoding="utf-8")
    git.run("config", "--worktree", "core.sparseCheckout", "true", folder=folder)
    git.run("config", "--worktree", "core.sparseCheckoutCone", "false", folder=folder)


def _update(git: Git, commit: Commit, folder: Path, submodules: Sequence[str]) -> None:
    """Check out the submodules (by path), which may need the network."""
    names = _module_names(git, commit)

    def clear() -> None:
        for path in submodules:
            _drop_half_made(git, folder, path, names.get(path, path))

    clear()
    for path in submodules:
        if (folder / path / ".git").exists():
            git.run(*_REFRESH, folder=folder / path, fine=(0, 1))
    git.run("submodule", "--quiet", "sync", "--", *submodules, folder=folder)
    command = ("submodule", "--quiet", "update", "--init", "--force", "--checkout", "--", *submodules)

    git.retry(f"submodules of {commit.short}", lambda: git.run(*command, folder=folder, network=True), clear, False)
    for path in submodules:
        git.run("clean", "--quiet", "-ffdx", folder=folder / path)


def _module_names(git: Git, commit: Commit) -> dict[str, str]:
    blob = f"--blob={commit.id}:.gitmodules"
    listing = os.fsdecode(git.run("config", blob, "--null", "--get-regexp", r"^submodule\..*\.path$", fine=(0, 1, 128)))
    pairs = (entry.partition("\n") for entry in listing.split("\0") if entry)
    return {path: key.removeprefix("submodule.").removesuffix(".path") for key, _, path in pairs}


def _drop_half_made(git: Git, folder: Path, path: str, name: str) -> None:
    """Remove a submodule whose clone was cut short (its HEAD is no commit), with what is checked out of it."""
    admin = Path(git.text("rev-parse", "--absolute-git-dir", folder=folder))
    module = admin / "modules" / name
    if not module.exists():
        return
    for lock in module.rglob("*.lock"):
        lock.unlink(missing_ok=True)
    try:
        git.run(f"--git-dir={module}", "rev-parse", "--quiet", "--verify", "HEAD^{commit}", folder=admin)
    except CommandFailed:
        log.info("%s: a submodule with an incomplete clone: removed", path)
        shutil.rmtree(module)
        shutil.rmtree(folder / path, ignore_errors=True)
        (folder / path).mkdir(parents=True)
