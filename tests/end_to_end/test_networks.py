"""Networks through the real command: fetched from a server, measured on two releases, broken down by operator."""

import contextlib
import functools
import hashlib
import http.server
import io
import json
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import opduel.harness.rounds.pair
from opduel.commands.launch import run_harness
from opduel.records import Build, Report, UsageError
from opduel.reporters import read_report

pytestmark = [pytest.mark.mxnet, pytest.mark.nightly]  # and in the CI; see tests/driver/test_network.py
SAVE = """
import os, sys, mxnet as mx
net = mx.gluon.nn.HybridSequential()
net.add(mx.gluon.nn.Conv2D(4, 3), mx.gluon.nn.BatchNorm(), mx.gluon.nn.Dense(5))
net.initialize(mx.init.Xavier())
net.hybridize()
net(mx.nd.ones((1, 3, 16, 16)))
net.export(sys.argv[1])
os._exit(0)
"""


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def run(folder: Path, spec: object, *options: str) -> str:
    """What harness.py prints on standard output."""
    (folder / "spec.json").write_text(json.dumps(spec))
    releases = ("--control", "mxnet==1.8.0.post0", "--treatment", "mxnet==1.9.1")
    cache = ("--model_cache", str(folder / "cache"), "--simple_local_reporter", str(folder / "reports"))
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        patch.setattr(opduel.harness.rounds.pair, "MOST_FORKS", 1)
        run_harness("harness.py", ["-b", str(folder / "spec.json"), *releases, *cache, *options])
    return printed.getvalue()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, mxnet_1_9: Build) -> Path:
    """Where the network was saved."""
    saved = tmp_path_factory.mktemp("networks")
    environment = {**os.environ, **mxnet_1_9.environment, "OMP_NUM_THREADS": "1"}
    subprocess.run([mxnet_1_9.interpreter, "-c", SAVE, str(saved / "net")], env=environment, timeout=120, check=True)
    return saved


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[str]:
    """The folder behind a web server: its address."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as serving:
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{serving.server_address[1]}"
        serving.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def finished(folder: Path, server: str) -> tuple[Report, str]:
    """A run of a saved network and of one of the zoo's, and what it printed."""
    files = {
        "symbol": {"location": "net-symbol.json", "sha256": sha256(folder / "net-symbol.json")},
        "params": {
            "location": server + "/net-0000.params",
            "md5": hashlib.md5((folder / "net-0000.params").read_bytes(), usedforsecurity=False).hexdigest(),
        },
    }
    zoo = {"data": [1, 3, 32, 32], "classes": 5}
    tests = [
        {"operator": "saved.net", "identifier": "saved", "files": files, "inputs": {"data": [1, 3, 16, 16]}},
        {"operator": "model_zoo.mobilenet0_25", "identifier": "zoo", "inputs": zoo, "directions": ["both"]},
    ]
    spec = {"framework": "mxnet", "defaults": {"threshold": "50%"}, "tests": tests}
    options = ("--max_rounds", "2", "--breakdown", "--screen_reporter", "--sentinels", "0", "--busy_host", "report")
    printed = run(folder, spec, *options)
    return read_report(folder / "reports" / "report.json"), printed


def test_each_network_was_measured_on_both_sides(finished: tuple[Report, str]) -> None:
    assert [comparison.case for comparison in finished[0].comparisons] == ["saved/forward", "zoo/both"]
    for comparison in finished[0].comparisons:
        assert comparison.failure is None
        assert comparison.control
        assert comparison.treatment


def test_each_operator_was_seen_on_both_sides(finished: tuple[Report, str]) -> None:
    counts = {"saved/forward": (1, 0), "zoo/both": (27, 27)}
    for comparison in finished[0].comparisons:
        assert comparison.breakdown is not None
        assert comparison.breakdown.note == ""
        for side in (comparison.breakdown.control, comparison.breakdown.treatment):
            runs = {row.name: row.count for row in side}
            assert (runs.get("Convolution", 0), runs.get("_backward_Convolution", 0)) == counts[comparison.case]
            assert sum(row.share for row in side) == pytest.approx(1)
            assert not any("Bulk" in name or "," in name for name in runs), "none hidden among others"


def test_the_screen_shows_them(finished: tuple[Report, str]) -> None:
    for comparison in finished[0].comparisons:
        assert f"operators of {comparison.case}" in finished[1]


def test_a_wrong_checksum_is_said(folder: Path) -> None:
    files = {"symbol": {"location": "net-symbol.json", "sha256": "0" * 64}}
    test = {"operator": "saved.net", "files": files, "inputs": {"data": [1, 3, 16, 16]}}
    with pytest.raises(UsageError) as caught:
        run(folder, {"framework": "mxnet", "tests": [test]})
    assert "spec.json: net_0/forward: files.symbol: " in str(caught.value)
    assert f"has sha256 {sha256(folder / 'net-symbol.json')}, not {'0' * 64}: correct the checksum" in str(caught.value)
