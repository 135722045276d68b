"""--network: a network of the command line as a spec, with its files' checksums and its operator calls."""

import hashlib
import json
from pathlib import Path

import pytest

from opduel.commands.case_selection import Choice, choose_cases, fetch_case_files
from opduel.commands.options import read_options
from opduel.frameworks import get_framework
from opduel.harness.other_runs.smoke_check import smoke_check
from opduel.harness.specs import load_spec
from opduel.records import Build, Case, UsageError

BLOCK = """
from mxnet.gluon import nn

class Net(nn.HybridSequential):
    def __init__(self, hidden):
        super().__init__()
        self.add(nn.Conv2D(hidden, 3), nn.BatchNorm(), nn.Dense(4))
"""
DATA = ["--inputs", '{"data": [1, 3, 8, 8]}']


def chosen(*arguments: str) -> Choice:
    return choose_cases(read_options(arguments), 0)


def only(choice: Choice) -> Case:
    (case,) = choice.cases
    return case


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def block(tmp_path: Path) -> Path:
    path = tmp_path / "my.py"
    path.write_text(BLOCK, encoding="utf-8")
    return path


def test_a_model_of_the_zoo() -> None:
    choice = chosen("--network", "resnet18_v1", *DATA, "--directions", "both")
    assert (choice.path, choice.name, choice.file_name) == (None, "resnet18_v1", "resnet18_v1")
    case = only(choice)
    assert (case.id, case.operator, case.files) == ("resnet18_v1/both", "model_zoo.resnet18_v1", {})


def test_a_model_is_named_by_its_function_or_as_the_zoo_lists_it() -> None:
    assert only(chosen("--network", "squeezenet1.0", *DATA)).operator == "model_zoo.squeezenet1_0"


def test_a_saved_network_has_its_latest_parameters_and_all_checksums(tmp_path: Path) -> None:
    symbol = tmp_path / "my-net-symbol.json"
    symbol.write_text("{}", encoding="utf-8")
    for name in ("my-net-0001.params", "my-net-0012.params", "my-net-best.params", "other-0020.params"):
        (tmp_path / name).write_text(name, encoding="utf-8")
    case = only(chosen("--network", str(symbol), *DATA))
    assert (case.id, case.operator) == ("my_net/forward", "saved.my_net")
    assert {name: (Path(file.location), file.sha256) for name, file in case.files.items()} == {
        "symbol": (symbol, sha256(symbol)),
        "params": (tmp_path / "my-net-0012.params", sha256(tmp_path / "my-net-0012.params")),
    }


def test_without_parameters_it_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    symbol = tmp_path / "7[net]-symbol.json"
    symbol.write_text("{}", encoding="utf-8")
    case = only(chosen("--network", str(symbol), *DATA))
    assert (case.operator, set(case.files)) == ("saved.network_7_net", {"symbol"})
    assert "weights are drawn from the seed" in caplog.text


@pytest.mark.parametrize("written", ["{}.py:Net", "{}:Net"])
def test_a_block_of_a_python_file(block: Path, written: str) -> None:
    case = only(chosen("--network", written.format(block.with_suffix("")), *DATA))
    assert (case.id, case.operator) == ("Net/forward", "block.Net")
    assert case.files["module"].location == str(block)
    assert case.files["module"].sha256 == sha256(block)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--network", "resnet18_v1"], "--network: add --inputs once"),
        (["--network", "resnet18_v1", *DATA, *DATA], "--network: add --inputs once"),
        (["--network", "resnet18_v1", *DATA, "-b", "smoke"], "--benchmark_file: --network replaces a spec"),
        (["--network", "resnet18_v1", *DATA, "--category", "unary"], "--category: --network replaces a spec"),
        (["--with_operators", "-b", "smoke"], "--with_operators: add --network"),
        (["--network", "nowhere/a-symbol.json", *DATA], "nowhere/a-symbol.json: is no network: give FILE.py:CLASS"),
        (["--network", "nowhere.py", *DATA], "nowhere.py: is no network: give FILE.py:CLASS"),
        (["--network", "nowhere.py:Net", *DATA], "nowhere.py:Net: is no network: give FILE.py:CLASS"),
        (["--network", "{block}:no-name", *DATA], ":no-name: is no network: give FILE.py:CLASS"),
        (["--network", "resnet18_v1", "--inputs", '{"data": [1, -3]}'], "--network resnet18_v1: inputs[0].data"),
    ],
)
def test_bad_usage_is_one_line(block: Path, arguments: list[str], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        chosen(*(argument.replace("{block}", str(block)) for argument in arguments))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_symbol_that_is_given_as_a_spec_is_named(tmp_path: Path) -> None:
    path = tmp_path / "my-net-symbol.json"
    path.write_text(json.dumps({"nodes": [], "arg_nodes": [], "heads": [], "attrs": {}}), encoding="utf-8")
    with pytest.raises(UsageError, match="is a saved network, not a spec: measure it with --network"):
        load_spec(path)


@pytest.mark.mxnet
@pytest.mark.nightly
def test_a_block_and_its_operators_run_in_one_run(block: Path, mxnet_1_9: Build) -> None:
    inputs = ["--inputs", '{"data": [1, 3, 8, 8], "hidden": 2}']
    arguments = ["--network", f"{block}:Net", *inputs, "--with_operators", "--treatment", mxnet_1_9.interpreter]
    options = read_options([*arguments, "--model_cache", str(block.parent / "cache")])
    cases = fetch_case_files(choose_cases(options, 0), options)
    assert [case.operator for case in cases if case.direction == "forward"] == [
        *("block.Net", "nd.Convolution", "nd.BatchNorm", "nd.FullyConnected"),
    ]
    attempts = list(smoke_check(mxnet_1_9, get_framework("mxnet"), cases))
    assert [attempt.reason for attempt in attempts] == [None] * len(cases)
