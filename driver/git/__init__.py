"""Commits: a repository of our own that the user's is never written for, and which of its commits are measured."""

from opduel.driver.git.command import GitFailed, RemoteGone
from opduel.driver.git.commit_selection import Choice, History, Pending, control_of, pending
from opduel.driver.git.history import NotAncestor
from opduel.driver.git.refs import Fetched, Moved, UnknownCommit
from opduel.driver.git.repository import Repository, open_repository

__all__ = [
    "Choice",
    "Fetched",
    "GitFailed",
    "History",
    "Moved",
    "NotAncestor",
    "Pending",
    "RemoteGone",
    "Repository",
    "UnknownCommit",
    "control_of",
    "open_repository",
    "pending",
]
