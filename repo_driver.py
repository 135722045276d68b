#!/usr/bin/env python3
"""Commits of a framework's repository, pulled, built and measured against each other. See --help."""

from commands import bootstrap

if __name__ == "__main__":
    bootstrap.run("commands.repo_driver")
