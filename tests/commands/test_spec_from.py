"""run_bench.py --spec_from: what it takes, and the spec that it writes."""

import re
import shlex
from pathlib import Path

import pytest
from command_line import run_bench_main

from opduel.commands.case_selection import choose_cases
from opduel.commands.options import read_options
from opduel.commands.run_bench import run_bench_parser
from opduel.commands.subcommand_parsers import shape, spec_from_parser
from opduel.harness.specs import expand_cases, load_spec

ASK = ["--spec_from", "squeezenet1.0", "--build", "mxnet==1.9.1"]


def test_shapes_may_have_a_dtype() -> None:
    assert shape("data=1,3,224,224") == ("data", [1, 3, 224, 224], "float32")
    assert shape("words=8,20:int32") == ("words", [8, 20], "int32")


@pytest.mark.mxnet
def test_the_spec_is_written_where_it_is_asked_for(
    home: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "net.json"
    caplog.set_level("INFO")
    assert run_bench_main([*ASK, "--shape", "data=1,3,224,224", "--output", str(path)]) == 0
    cases = expand_cases(load_spec(path))
    assert "nd.Convolution" in {case.operator for case in cases}
    assert f"{len(cases)} cases" in caplog.text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--spec_from", "x", "--shape", "data"], "'data': write NAME=SIZES"),
        (["--spec_from", "x", "--shape", "data=1,-3"], "'data=1,-3': write NAME=SIZES"),
        (["--spec_from", "x", "--shape", "data=1:string"], "'data=1:string': write NAME=SIZES"),
        (["--spec_from", "x", "--shape", "data=0"], "sizes are from 1 to 2147483647"),
        (["--spec_from", "x", "--shape", "data=1," + "9" * 5000], "sizes are from 1 to 2147483647"),
        (["--spec_from", "x", "--shape", "a=1", "--shape", "a=2"], "--shape: one input is given twice"),
        (["--spec_from", "x", "--output", "net.txt"], "must end in .json"),
        (["--spec_from", "x", "--calibrate"], "--spec_from: does nothing else: leave --calibrate out"),
        (["--spec_from", "x", "-b", "smoke"], "unrecognized arguments: -b ***"),
    ],
)
def test_bad_usage(home: Path, caplog: pytest.LogCaptureFixture, arguments: list[str], words: str) -> None:
    assert run_bench_main(arguments) == 2
    assert words in caplog.text
    assert "\n" not in caplog.text.strip()


@pytest.mark.mxnet
def test_a_file_that_is_no_network_ends_in_2(home: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "net-symbol.json"
    path.write_text('{"nodes": []}', encoding="utf-8")
    assert run_bench_main(["--spec_from", str(path), *ASK[2:]]) == 2
    assert f"{path}: not a symbol that this build can load: " in caplog.text


DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "how-to" / "picking.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^    python3 (harness|run_bench)\.py (.*)$", DOCUMENT, flags=re.MULTILINE)


@pytest.mark.parametrize(("command", "line"), EXAMPLES)
def test_examples_are_good_usage(command: str, line: str) -> None:
    own, other_words = run_bench_parser().parse_known_args(shlex.split(line))
    if own.spec_from is not None:
        assert spec_from_parser().parse_args([own.spec_from, *other_words]).shape
    elif "resnet18.json" not in other_words:  # which the example before it writes
        assert choose_cases(read_options(other_words), 0).cases
