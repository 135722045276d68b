"""Real runs, plain and on a fleet, and what the results server's page of hosts says of the machines that measured."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from results_server import REPORTS, RunningServer, running_server

ROOT = Path(__file__).resolve().parent.parent.parent
FUNCTIONS = ("exp", "sqrt", "sin", "cos", "log1p", "tanh", "square", "cbrt", "sinh", "arctan", "expm1", "absolute")
FUNCTIONS += (
    "exp2",
    "floor",
    "ceil",
    "rint",
    "trunc",
    "sign",
    "negative",
    "cosh",
    "arcsinh",
    "isnan",
    "isfinite",
    "fabs",
)


def measure(folder: Path, server: RunningServer, name: str, *words: str) -> None:
    """A run of Python's environment against itself, sent to the server."""
    tests = [{"operator": f"numpy.{name}", "inputs": {"args": [[64]]}} for name in FUNCTIONS]
    spec, token = folder / "spec.json", folder / "token"
    spec.write_text(json.dumps({"framework": "python", "tests": tests}), encoding="utf-8")
    token.write_text(server.write_token, encoding="utf-8")
    token.chmod(0o600)
    own = str(Path(sys.executable).parent.parent)
    command = [sys.executable, str(ROOT / "harness.py"), "-b", str(spec), "--control", own, "--treatment", own]
    command += ["--max_rounds", "4", "--sentinels", "2", "--busy_host", "report", "--explain", "none"]
    command += ["--remote_reporter", f"{server.url}{REPORTS}|nightly", "--remote_access_token_file", str(token)]
    environment = {**os.environ, "OPDUEL_HOST_NAME": name, "XDG_STATE_HOME": str(folder / "state")}
    process = subprocess.run(
        [*command, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert process.returncode in (0, 1), process.stderr


def hosts(server: RunningServer) -> dict[str, Any]:
    with server.client("read") as client:
        return {host["host"]: host for host in client.get("/api/v1/hosts").json()["hosts"]}


@pytest.mark.nightly
def test_a_plain_run_and_one_on_a_fleet_have_their_hosts(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        for _ in range(2):
            measure(tmp_path, server, "bench")
        assert set(hosts(server)) == {"bench"}
        measure(tmp_path, server, "bench", "--fleet", "local:2")
        hosts_by_name = hosts(server)
        assert set(hosts_by_name) == {"bench", "local-1", "local-2"}
        assert hosts_by_name["bench"]["runs"] == 2
        assert len({host["kind"] for host in hosts_by_name.values()}) == 1
        with server.client("read") as client:
            parts = [client.get(f"/api/v1/hosts/{host}").json()["runs"][0] for host in hosts_by_name]
            for host in hosts_by_name:
                assert client.get(f"/hosts/{host}").status_code == 200
        plain, *of_fleet = sorted(parts, key=lambda part: -part["cases"])
        assert plain["cases"] == len(FUNCTIONS) == sum(part["cases"] for part in of_fleet)
        assert plain["aa_checks"] == 2
        for part in parts:
            assert part["rounds"] > 0
            assert part["aa_checks"] >= 1
            assert part["noise_cases"] >= 8
            assert 0 < part["spread"] < 1
            assert 0.02 < part["noise"] < 50
