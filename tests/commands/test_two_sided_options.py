"""Options that a spec for two frameworks has no use for: one line that names the option or the spec, and the fix."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import Outcome

SIDES = ("--control", "numpy==2.2.6", "--treatment", "onnxruntime==1.22.0")
TWO = "the spec compares two frameworks, one on each side"
METRIC = f"{TWO}: use time, process_memory or error, or give a spec of one of them"
OPTION = f"{TWO}: leave it out, or give a spec of one of them"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        *(
            (("--metric", f"time,{metric}"), f"--metric {metric}: {METRIC}")
            for metric in ("memory", "instructions", "value")
        ),
        (("--breakdown",), f"--breakdown: {OPTION}"),
        (("--profile_output", "profiles"), f"--profile_output: {OPTION}"),
        (("--fuzz", "1"), f"--fuzz: {OPTION}"),
    ],
)
def test_an_option_for_one_framework_is_refused(
    run: Callable[..., Outcome], home: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(home)
    outcome = run("-b", "cross/numpy-onnxruntime", *SIDES, *arguments)
    lines = [
        line for line in outcome.err.splitlines() if ": installing " not in line
    ]  # on a machine without the builds
    assert (outcome.code, lines) == (2, [f"harness.py: error: {message}"])


def test_a_metric_that_the_spec_names_is_refused_by_the_spec_s_name(run: Callable[..., Outcome], home: Path) -> None:
    operators = {"control": "numpy.add", "treatment": "numpy.multiply"}
    test = {side: {"framework": "python", "operator": name} for side, name in operators.items()}
    spec = home / "two.json"
    inputs = {"inputs": {"args": [[8], [8]]}, "metric": ["time", "memory"]}
    spec.write_text(json.dumps({"framework": "cross", "tests": [{**test, **inputs}]}), encoding="utf-8")
    outcome = run("-b", str(spec), *SIDES)
    assert (outcome.code, outcome.err) == (2, f"harness.py: error: {spec}: metric memory: {METRIC}\n")


def test_a_build_alone_has_no_two_frameworks(run: Callable[..., Outcome]) -> None:
    outcome = run("-b", "cross/numpy-onnxruntime", "--single", *SIDES[2:])
    assert (outcome.code, outcome.err) == (2, f"harness.py: error: --single: {OPTION}\n")
