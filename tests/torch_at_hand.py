"""PyTorch for tests: a wheel that lies in a folder that the package installer looks in, and is never downloaded."""

import os
import re
import sys
from pathlib import Path

import pytest

from opduel.driver.builds import BuildCache, resolve_build
from opduel.frameworks import get_framework
from opduel.records import Build

WHY_NOT = "no wheel of a CPU-only PyTorch is in a folder of PIP_FIND_LINKS or UV_FIND_LINKS"


def torch_request() -> str | None:
    """``torch==2.13.0`` for the newest CPU-only wheel that is at hand; None without one."""
    places = os.environ.get("UV_FIND_LINKS", "").split(",") + os.environ.get("PIP_FIND_LINKS", "").split()
    tag = "-cp{}{}-".format(*sys.version_info)
    names = [path.name for place in places if place for path in Path(place).glob("torch-*+cpu-*.whl")]
    versions = [match[1] for name in names if tag in name and (match := re.match(r"torch-([0-9.]+)\+cpu", name))]
    newest = max(versions, key=lambda version: [int(part) for part in version.split(".")], default=None)
    return newest and f"torch=={newest}"


def torch_build() -> Build:
    """Its build, made in the build cache on first use; the test is skipped, and says why, without a wheel."""
    request = torch_request()
    if request is None:
        pytest.skip(WHY_NOT)
    return resolve_build(request, get_framework("torch"), BuildCache(None))
