"""The catalogue on real MXNet: what is committed is what 1.9.1 and the rules give, and it runs."""

import json
from pathlib import Path

import pytest

import opduel.commands.catalogue
from opduel.commands.catalogue import main
from opduel.commands.own_benchmarks import own_benchmarks_parser
from opduel.driver.builds import BuildCache, load_releases, resolve_build
from opduel.driver.catalogue.apply import apply_rules
from opduel.driver.catalogue.registry import Registry, ask_registry
from opduel.driver.catalogue.rules import load_rules
from opduel.driver.catalogue.write import spec_files
from opduel.frameworks import framework_names, get_framework
from opduel.frameworks.base import SPECIFICATIONS
from opduel.harness.other_runs.smoke_check import smoke_check
from opduel.harness.specs import find_spec, load_cases
from opduel.records import Build, Case

FRAMEWORK = get_framework("mxnet")


@pytest.fixture(scope="module")
def catalogue() -> list[Case]:
    """The cases of ``-b all``, but for those that are there to crash."""
    return [case for case in load_cases(find_spec("all")) if not case.id.startswith("hostile.")]


@pytest.fixture(scope="module")
def registry(mxnet_1_9: Build) -> Registry:
    return ask_registry(mxnet_1_9, FRAMEWORK)


@pytest.mark.nightly
@pytest.mark.wheels
def test_the_specs_of_onnxruntime_are_what_its_newest_release_and_the_rules_give() -> None:
    framework = get_framework("onnxruntime")
    newest = list(load_releases(framework).recipes)[-1]
    rules = load_rules(framework)
    registry = ask_registry(resolve_build(newest, framework, BuildCache()), framework)
    catalogue = apply_rules(rules, registry)
    files = spec_files(catalogue, rules, framework.name)
    assert set(files) == {
        str(path.relative_to(SPECIFICATIONS)) for path in SPECIFICATIONS.glob("onnxruntime/*.json")
    } | {"onnxruntime.json"}
    for name, text in files.items():
        assert (SPECIFICATIONS / name).read_text(encoding="utf-8") == text, f"{name}: write the specs again"
    assert not [name for name, reason in catalogue.left_out.items() if "no rule" in reason]


def test_the_help_of_own_benchmarks_leaves_frameworks_to_the_registry() -> None:
    helps = [str(action.help) for action in own_benchmarks_parser()._actions if action.dest != "framework"]
    assert not [text for text in helps if any(name in text for name in framework_names())]


@pytest.mark.mxnet
def test_the_write_command_writes_what_is_committed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, home: Path
) -> None:
    monkeypatch.setattr(opduel.commands.catalogue, "SPECIFICATIONS", tmp_path)
    assert main(["write", "mxnet==1.9.1"]) == 0
    committed = {path.relative_to(SPECIFICATIONS) for path in SPECIFICATIONS.glob("operators/*.json")}
    names = {path.relative_to(tmp_path) for path in tmp_path.rglob("*.json")}
    assert names == committed | {Path("all.json")}
    for name in names:
        assert (SPECIFICATIONS / name).read_bytes() == (tmp_path / name).read_bytes(), f"{name}: write the specs again"


@pytest.mark.mxnet
def test_nothing_that_the_build_registers_is_dropped_without_a_reason(
    registry: Registry, catalogue: list[Case]
) -> None:
    left_out = apply_rules(load_rules(FRAMEWORK), registry).left_out
    assert not [name for name, reason in left_out.items() if reason == "no rule yet" or "no rule for" in reason]
    named = {registry.functions[case.operator].registered for case in catalogue}
    assert set(registry.registered) - named == {name for name in left_out if "." not in name}
    assert len(named) >= 300


@pytest.mark.mxnet
def test_arguments_are_those_that_functions_take(registry: Registry) -> None:
    """NumPy's front end documents signatures that some of its functions don't have."""
    functions = registry.functions
    assert next(iter(functions["np.trace"].arguments)) == "data"
    assert list(functions["np.matmul"].arguments)[:2] == ["x1", "x2"]
    assert functions["nd.Convolution"].arguments["kernel"] == "required"
    assert functions["nd.concat"].arguments["data"] == "tensors"
    assert functions["nd.linalg.gemm2"].registered == "_linalg_gemm2"
    assert functions["gluon.nn.Conv2D"].arguments["data"] == "tensor"
    assert functions["gluon.nn.Conv2D"].arguments["kernel_size"] == "required"
    assert "weight" not in functions["gluon.nn.Conv2D"].arguments
    assert functions["gluon.nn.AvgPool2D"].arguments["pool_type"] == "optional", "the class says it"
    assert list(functions["gluon.loss.TripletLoss"].arguments)[:3] == ["pred", "positive", "negative"]
    assert functions["gluon.rnn.LSTMCell"].arguments["unroll"] == "optional"
    assert (functions["gluon.rnn.LSTMCell"].hybrid, functions["gluon.nn.Lambda"].hybrid) == (True, False)
    blocks = {name.rpartition(".")[0] for name, function in functions.items() if function.hybrid is not None}
    assert blocks == set(FRAMEWORK.cases.block_namespaces)
    assert "broadcast_plus" in registry.registered["broadcast_add"]


@pytest.mark.mxnet
def test_every_operator_that_opperf_measures_is_in_the_catalogue(registry: Registry, catalogue: list[Case]) -> None:
    # What opperf calls without measuring -> whether it goes backward.
    peer = json.loads((FRAMEWORK.specifications / "opperf.json").read_text())
    own_names = {alias: name for name, aliases in registry.registered.items() for alias in aliases}
    cases = [case for case in catalogue if case.operator.startswith("nd.")]
    assert len(peer) >= 233
    for direction in ("forward", "backward"):
        ours = {registry.functions[case.operator].registered for case in cases if case.direction == direction}
        theirs = [name for name, backward in peer.items() if backward or direction == "forward"]
        assert not [name for name in theirs if own_names.get(name) not in ours], direction


@pytest.mark.mxnet
@pytest.mark.parametrize(
    ("release", "step"),
    [
        pytest.param("mxnet_1_8", 1, marks=pytest.mark.nightly),
        pytest.param("mxnet_1_9", 1, marks=pytest.mark.nightly),
        ("mxnet_1_9", 24),
    ],
)
def test_the_smallest_case_of_every_operator_runs(
    release: str, step: int, catalogue: list[Case], request: pytest.FixtureRequest
) -> None:
    """One case of each operator and direction, or every 24th of these. Hybridized blocks are in
    tests/frameworks/test_mxnet_blocks.py."""
    build: Build = request.getfixturevalue(release)
    first: dict[tuple[str, str], Case] = {}
    for case in catalogue:
        first.setdefault((case.operator, case.direction), case)
    tried = [*first.values()][::step]
    failed = {check.case.operator: check.reason for check in smoke_check(build, FRAMEWORK, tried) if check.reason}
    quantized = "nd.contrib.quantized_rnn" in {case.operator for case in tried}
    if quantized and ("avx512_vnni" in Path("/proc/cpuinfo").read_text() or release == "mxnet_1_8"):
        assert failed.pop("nd.contrib.quantized_rnn")  # oneDNN can't pack its weights there, and 1.8 hasn't got it
    expected = (
        {"nd.amp_cast", "gluon.nn.Conv3DTranspose"} if release == "mxnet_1_8" else set()
    )  # docs/reference/coverage.md
    assert set(failed) == expected, failed


@pytest.mark.nightly
@pytest.mark.mxnet
def test_operators_that_crash_or_hang_cost_nothing_but_themselves(mxnet_1_9: Build) -> None:
    exp = Case("exp", "nd.exp", "forward", {"data": [3]}, "float32", "cpu", threshold=0.02, timeout_s=5)
    hostile = load_cases(find_spec("hostile"))
    *attempts, last = smoke_check(mxnet_1_9, FRAMEWORK, [*hostile, exp], limit_s=3)
    reasons = " ".join(str(check.reason) for check in attempts)
    assert all(check.reason for check in attempts)
    assert all(words in reasons for words in ("Segmentation fault", "SIGFPE", "no answer within"))
    assert last.reason is None
