"""Kinds of hosts for real: workers of different kinds on this machine, each of which measures all cases.

A worker in a mount namespace has a /proc/cpuinfo without AVX-512, as a virtual machine that hides it would, so that
what asks for it there takes another code path.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from made_fleet import FUNCTIONS, LONG_S, ROOT, Fleet, command, report
from tiny_package import CODE, NATIVE, PROJECT, Tiny

from opduel.fleet.kinds import host_kind

HIDDEN = "newer-than-avx2"
# A function that takes the longer way where the processor lacks AVX-512.
BY_PROCESSOR = "\n\nSLOW = ' avx512f ' not in open('/proc/cpuinfo').read()\n"
NEEDS_NAMESPACES = pytest.mark.skipif(
    shutil.which("unshare") is None
    or subprocess.run(["unshare", "-rm", "true"], check=False, capture_output=True).returncode != 0
    or " avx512f " not in Path("/proc/cpuinfo").read_text(),
    reason="needs mount namespaces, and a processor with AVX-512 to hide",
)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with ExitStack() as stack:
        own_fleet = Fleet(tmp_path_factory.mktemp("fleet"), stack)
        own_fleet.worker("one", "--tag", "a")
        yield own_fleet


def older_processor(fleet: Fleet, stack: ExitStack, folder: Path, name: str) -> subprocess.Popen[bytes]:
    """A worker that does not see the newer instructions."""
    hidden = folder / "cpuinfo"
    features = ("avx512f", "avx512_vnni", "avx512_bf16", "amx_tile")
    text = Path("/proc/cpuinfo").read_text()
    for feature in features:
        text = text.replace(f" {feature} ", f" {HIDDEN} ")
    hidden.write_text(text)
    log = fleet.folder / f"{name}.log"
    place = ["--certificates", str(fleet.certificates), "--name", name, "--folder", str(fleet.folder / name)]
    started = [sys.executable, "-m", "opduel", "fleet", "worker", fleet.address, *place]
    mounted = f'mount --bind "{hidden}" /proc/cpuinfo && exec "$@"'
    with log.open("wb") as errors:
        process = subprocess.Popen(
            ["unshare", "-rm", "sh", "-c", mounted, "sh", *started], cwd=ROOT, stderr=errors, start_new_session=True
        )
    stack.callback(process.wait, LONG_S)
    stack.callback(process.terminate)
    fleet.wait_for(lambda: f"{name} measures for" in log.read_text())
    return process


def rows(document: dict[str, Any]) -> dict[str, str]:
    return {row["case"]: row["verdict"] for row in document["comparisons"]}


@pytest.mark.nightly
def test_a_platform_without_a_host_leaves_the_others(fleet: Fleet, tmp_path: Path) -> None:
    words = ["--platforms", "a,none", "--fleet_timeout", "1"]
    process = subprocess.run(command(tmp_path, fleet, *words), capture_output=True, text=True, check=False)
    assert process.returncode == 3, process.stderr
    assert "not completed: none: --fleet" in process.stderr
    assert "no worker is a host of the kind none within 1 s (workers there: one)" in process.stderr
    document = report(tmp_path)
    of_a = [row for row in document["comparisons"] if row["kind"] == "a"]
    assert [(row["case"], row["host"]) for row in of_a] == [(f"{name}(64, float64)@a", "one") for name in FUNCTIONS]
    assert all(row["rounds"] for row in of_a)
    assert {row["note"] for row in document["comparisons"] if row["kind"] == "none"} == {
        "not measured on a host of the kind none"
    }


@pytest.mark.nightly
@pytest.mark.wheels
@NEEDS_NAMESPACES
def test_the_commit_that_is_slower_on_one_kind_is_found_there(tmp_path: Path) -> None:
    """Eight commits, of which the fifth takes three times as long where there is no AVX-512."""
    tiny = Tiny(tmp_path)
    code = CODE.replace("FACTOR", "2").replace("answer()", "answer(times)") + BY_PROCESSOR
    code = code.replace("return total", "sum(range(1000))\n    return total")
    code += "\n\ndef other(times):\n    return sum(range(2000))\n"
    native = NATIVE.replace("FACTOR", "10")
    tiny.add("0", {"pyproject.toml": PROJECT, "src/tinysum/__init__.py": code, "src/tinysum/_native.c": native})
    for number in range(1, 8):
        text = code if number < 5 else code.replace("range(1000)", "range(3000 if SLOW else 1000)")
        tiny.add(str(number), {"src/tinysum/__init__.py": f"{text}\nANY = {number}\n"})
    tiny.open()
    spec = tmp_path / "spec.json"
    tests = [{"operator": f"tinysum.{name}", "inputs": {"times": 1}} for name in ("answer", "other")]
    spec.write_text(json.dumps({"framework": "python", "tests": tests}))
    with ExitStack() as stack:
        fleet = Fleet(tmp_path, stack)
        fleet.worker("new")
        older_processor(fleet, stack, tmp_path, "old")
        command = [sys.executable, str(ROOT / "repo_driver.py"), "--ab_testing", "-b", str(spec), "--regression"]
        command += ["--remote_repository", str(tiny.folder), "--base_commit", tiny.commits["0"], "--exact_base"]
        command += ["--commit", tiny.commits["7"], "--threshold", "20%", "--busy_host", "report"]
        command += ["--work_dir", str(tmp_path / "work"), "--exec_dir", str(tmp_path / "cache")]
        command += ["--local_reporter", str(tmp_path / "reports"), "--screen_reporter", "--across", "hosts"]
        command += ["--fleet", fleet.address, "--fleet_certificates", str(fleet.certificates)]
        process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert process.returncode == 1, process.stderr
    old = host_kind().rpartition("+")[0] + "+avx2"
    assert f"first bad: {tiny.commits['5'][:12]} " in process.stdout
    assert "1 case differs by kind of host: answer(times=1)" in process.stdout
    documents = [json.loads(path.read_text()) for path in (tmp_path / "reports").rglob("report.json")]
    benchmark = next(document for document in documents if document["run"]["configuration"]["run_type"] == "benchmark")
    assert rows(benchmark) == {
        f"answer(times=1)@{host_kind()}": "unchanged",
        f"other(times=1)@{host_kind()}": "unchanged",
        f"answer(times=1)@{old}": "regressed",
        f"other(times=1)@{old}": "unchanged",
    }
    later_documents = [
        document for document in documents if document["run"]["configuration"]["run_type"] != "benchmark"
    ]
    assert len(later_documents) >= 2
    assert all(
        set(rows(document)) == {f"answer(times=1)@{old}"} for document in later_documents
    )  # on the kind where it regressed


@pytest.mark.nightly
def test_killed_it_goes_on_with_its_kinds_and_measures_nothing_twice(tmp_path: Path) -> None:
    with ExitStack() as stack:
        fleet = Fleet(tmp_path, stack)
        first, _ = fleet.worker("one", "--tag", "a"), fleet.worker("two", "--tag", "b")
        log = tmp_path / "rounds"
        words = command(tmp_path, fleet, "--round_log", str(log), "--max_rounds", "6", "--platforms", "a,b")
        run = subprocess.Popen(words, stderr=subprocess.DEVNULL)
        fleet.wait_for(lambda: log.exists() and log.read_text().count('"event": "round"') >= 4)
        run.kill()
        run.wait()
        os.killpg(first.pid, signal.SIGKILL)
        without = subprocess.run([*words, "--fleet_timeout", "2"], capture_output=True, text=True, check=False)
        assert without.returncode == 3, without.stderr
        assert {row["kind"] for row in report(tmp_path)["comparisons"] if row["rounds"]} == {"b"}
        assert log.exists()
        fleet.worker("one", "--tag", "a")
        process = subprocess.run(words, capture_output=True, text=True, check=False, timeout=LONG_S)
        assert process.returncode in (0, 1), process.stderr
        comparisons = report(tmp_path)["comparisons"]
        assert len(comparisons) == 2 * len(FUNCTIONS)
        assert {(row["kind"], row["host"]) for row in comparisons} == {("a", "one"), ("b", "two")}
        for row in comparisons:
            numbers = [(sample["stage"], sample["round"]) for sample in row["samples"]]
            assert len(numbers) == len(set(numbers)) > 0
        assert not log.exists()
