#!/usr/bin/env python3
"""The front door: asks on its first use for what is missing, keeps the answers, and calls harness.py."""

from commands import bootstrap

if __name__ == "__main__":
    bootstrap.run("commands.run_bench")
