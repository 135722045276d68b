"""Commits: a repository of our own that the user's is never written for, and which of its commits are measured."""
