"""The scripts of docs/examples in bash, on the native toy, with the files and variables of a step of GitHub Actions."""

import json
import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from toy_driver import LAUNCH, LONG_S, QUICK, Shared, ToyDriver, toy_driver

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
MUL = "mul/float64/forward"


def script(name: str, step: str) -> str:
    """The script of a recipe's step."""
    document = yaml.safe_load((EXAMPLES / name).read_text(encoding="utf-8"))
    jobs = [document["runs"]] if "runs" in document else document["jobs"].values()
    (text,) = (entry["run"] for job in jobs for entry in job["steps"] if entry.get("name") == step)
    return str(text)


class Workspace:
    """Where steps run: ``python3 .../harness.py`` and its like are the commands with the toy among their frameworks."""

    def __init__(self, folder: Path, driver: ToyDriver) -> None:
        self.folder = folder
        self.driver = driver
        self.number = 0
        (folder / "bin").mkdir(parents=True)
        shim = folder / "bin" / "python3"
        launch = shlex.join([sys.executable, str(LAUNCH), str(driver.specifications)])
        quick = shlex.join([*QUICK[:-2], "--operators", "mul", "--exec_dir"])
        work = shlex.join(["--work_dir", str(driver.work), "--min_free"])
        shim.write_text(
            "#!/bin/sh\n"
            'case "$1" in\n'
            f'*/repo_driver.py) shift; exec {launch} repo_driver "$@" {quick} "$CACHE" {work} "$MIN_FREE";;\n'
            f'*/harness.py) shift; exec {launch} harness "$@" {quick} "$CACHE";;\n'
            f'*) exec {shlex.quote(sys.executable)} "$@";;\n'
            "esac\n"
        )
        shim.chmod(0o755)

    def run(self, text: str, **variables: str) -> "StepOutcome":
        """Run a step's script as the runner does: ``bash -e`` on a file, with files of its own."""
        self.number += 1
        step = self.folder / f"step-{self.number}"
        step.mkdir()
        for name in ("script", "summary", "output"):
            (step / name).touch()
        (step / "script").write_text(text)
        environment = {
            **self.driver.variables(),
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            "GITHUB_ACTIONS": "true",
            "GITHUB_STEP_SUMMARY": str(step / "summary"),
            "GITHUB_OUTPUT": str(step / "output"),
            "GITHUB_ACTION_PATH": str(EXAMPLES),
            "SPEC": str(self.driver.specifications / "toy.json"),
            "TIME_BUDGET": "600",
            "CACHE": str(self.driver.cache),
            "MIN_FREE": "0",
            **variables,
        }
        process = subprocess.run(
            ["bash", "-e", str(step / "script")],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LONG_S,
            check=False,
        )
        return StepOutcome(process.returncode, process.stdout, process.stderr, step)


class StepOutcome:
    """How a step ended."""

    def __init__(self, code: int, out: str, err: str, step: Path) -> None:
        self.code, self.out, self.err = code, out, err
        self.summary = (step / "summary").read_text()
        self.outputs = (step / "output").read_text()


class Hook:
    """Where a webhook would be; it listens from ``open`` on."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body: Any = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.texts.append(body["text"])
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler, bind_and_activate=False)
        self._server.server_bind()
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/services/secret"

    def open(self) -> None:
        self._server.server_activate()
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        if self._thread:
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


@pytest.fixture
def hook() -> Iterator[Hook]:
    webhook = Hook()
    yield webhook
    webhook.close()


@pytest.fixture
def workspace(shared: Shared, tmp_path: Path) -> Workspace:
    """With a clone of the toy in which the slow commit is checked out."""
    driver = toy_driver(tmp_path, shared.project, shared.caches)
    workspace = Workspace(tmp_path / "workspace", driver)
    clone = workspace.folder / "framework"
    subprocess.run(["git", "clone", "--quiet", str(shared.project.folder), str(clone)], check=True)
    subprocess.run(["git", "-C", str(clone), "checkout", "--quiet", "--detach", shared.slow], check=True)
    return workspace


@pytest.mark.nightly  # and in the CI
def test_a_slow_pull_request_is_measured_traced_shown_and_notified_of_once(
    workspace: Workspace, shared: Shared, hook: Hook
) -> None:
    pull_request = script("opduel.github.yml", "Measure the pull request")
    first = workspace.run(pull_request, OPDUEL_NOTIFY_WEBHOOK=hook.url)  # nobody listens
    assert first.code == 1, first.err
    culprit = f"first bad: {shared.slow[:12]} 2024-01-08 Ada Toymaker: Check every product twice"
    assert culprit in first.out
    assert culprit in first.summary
    assert f"::error title={MUL} regressed +" in first.out
    assert "verdict<<" in first.outputs
    assert "\nregressed\n" in first.outputs
    assert f"\n{MUL}\n" in first.outputs
    assert "--notify_webhook failed: 127.0.0.1: no connection" in first.err
    assert "secret" not in first.err + first.out

    hook.open()
    second = workspace.run(pull_request, OPDUEL_NOTIFY_WEBHOOK=hook.url)  # answered from the journal
    assert second.code == 1, second.err
    (text,) = hook.texts
    assert f"since {shared.slow[:12]} 2024-01-08 Ada Toymaker: Check every product twice\n  {MUL}  +" in text
    assert "/report.json\n" in text

    reports = [json.loads(path.read_text()) for path in workspace.folder.joinpath("reports").rglob("report.json")]
    assert {report["run"]["run_type"] for report in reports} == {"benchmark", "verify"}
    compare = workspace.run(
        script("action.yml", "Measure"),
        CONTROL=reports[0]["control"]["interpreter"],
        TREATMENT=reports[0]["treatment"]["interpreter"],
        OPTIONS="--seed 7 --max_rounds 10",
    )
    assert compare.code == 1, compare.err
    assert f"\n{workspace.folder / 'opduel-report' / 'report.json'}\n" in compare.outputs
    assert json.loads((workspace.folder / "opduel-report" / "report.json").read_text())["run"]["seed"] == 7


def test_a_run_that_cannot_be_completed_is_a_warning(workspace: Workspace, tmp_path: Path) -> None:
    pull_request = script("opduel.github.yml", "Measure the pull request")
    outcome = workspace.run(pull_request, MIN_FREE="1e9", CACHE=str(tmp_path / "another cache"))
    assert outcome.code == 0, outcome.err
    assert "must stay: free some space" in outcome.err
    assert outcome.out.splitlines()[-1].startswith("::warning title=opduel::not completed")
    assert outcome.outputs == ""
