#!/usr/bin/env python3
"""One benchmark run: two builds of a framework against each other on the cases of a spec. See --help."""

from commands import bootstrap

if __name__ == "__main__":
    bootstrap.run("commands.harness")
