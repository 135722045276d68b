"""Networks in specs: which files they take, where relative locations count from, and what is refused."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from opduel.harness.specs import expand_cases, load_spec
from opduel.harness.specs.schema import SCHEMA_FILE
from opduel.records import ModelFile, UsageError

SHA = "ab" * 32
MD5 = "cd" * 16


def written(folder: Path, files: Any, operator: str = "saved.my_net") -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "spec.json"
    test = {"operator": operator, "inputs": {"data": [1, 3, 8, 8]}, **({} if files is None else {"files": files})}
    path.write_text(json.dumps({"framework": "mxnet", "tests": [test]}))
    return path


def test_locations_count_from_the_specs_own_folder(tmp_path: Path) -> None:
    files = {
        "symbol": {"location": "nets/a.json", "sha256": SHA},
        "params": {"location": "https://example.org/a.tar.gz", "md5": MD5, "member": "a.params", "filename": "a.tgz"},
    }
    path = written(tmp_path / "member", files)
    jsonschema.validate(json.loads(path.read_text()), json.loads(SCHEMA_FILE.read_text()))
    bundle = tmp_path / "bundle.json"
    bundle.write_text(json.dumps({"framework": "mxnet", "specs": ["member/spec.json"]}))
    for spec in (path, bundle):
        (case,) = expand_cases(load_spec(spec))
        assert case.id == "my_net_0/forward"
        assert case.files == {
            "symbol": ModelFile(str(tmp_path / "member" / "nets" / "a.json"), sha256=SHA),
            "params": ModelFile("https://example.org/a.tar.gz", MD5, None, "a.tgz", "a.params"),
        }


@pytest.mark.parametrize(
    ("files", "words"),
    [
        (None, "tests[0].files.symbol is missing"),
        ({"params": {"location": "a", "md5": MD5}}, "tests[0].files.symbol is missing"),
        ({"symbol": {"location": "a"}}, "tests[0].files.symbol.sha256 is missing: add it, or md5"),
        ({"symbol": {"location": "a", "md5": "12"}}, "tests[0].files.symbol.md5 is '12': use the 32 digits"),
        ({"symbol": {"location": "a", "sha256": MD5}}, "use the 64 digits"),
        ({"symbol": {"location": "ftp://a/b", "md5": MD5}}, "begins with 'ftp://': use a path, file://"),
        ({"symbol": {"location": "", "md5": MD5}}, "tests[0].files.symbol.location is ''"),
        ({"symbol": {"location": "a", "md5": MD5, "filename": "../b"}}, "filename is '../b': use a name"),
        ({"symbol": {"location": "a", "md5": MD5, "sha1": "1"}}, "tests[0].files.symbol.sha1 is not a field"),
        ({"module": {"location": "a.py", "md5": MD5}}, "files.module is not a file of saved.my_net"),
        ({"symbol": {"location": "a", "md5": MD5}, "weights": {"location": "a", "md5": MD5}}, "use symbol, params"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, files: Any, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_spec(written(tmp_path, files))
    assert words in str(caught.value)


def test_who_takes_no_files(tmp_path: Path) -> None:
    files = {"symbol": {"location": "a", "md5": MD5}}
    for operator in ("nd.exp", "model_zoo.resnet18_v1"):
        with pytest.raises(UsageError, match=f"files.symbol is not a file of {operator}: {operator} needs none"):
            load_spec(written(tmp_path, files, operator))


@pytest.mark.parametrize("operator", ["model_zoo.alexnet", "model_zoo.vision.alexnet"])
def test_networks_of_the_zoo_have_two_spellings(tmp_path: Path, operator: str) -> None:
    (case,) = expand_cases(load_spec(written(tmp_path, None, operator)))
    assert (case.id, case.operator, case.files) == ("alexnet_0/forward", operator, {})


@pytest.mark.parametrize("operator", ["saved", "saved.", "saved..net", "saved.a.b", "model_zoo..x", "model_zoo.text.x"])
def test_what_is_no_network(tmp_path: Path, operator: str) -> None:
    with pytest.raises(UsageError, match=r"tests\[0\]\.(operator is|files.symbol is missing)"):
        load_spec(written(tmp_path, None, operator))


def test_code_is_never_fetched(tmp_path: Path) -> None:
    here = written(tmp_path, {"module": {"location": "net.py", "sha256": SHA}}, "block.Net")
    (case,) = expand_cases(load_spec(here))
    assert case.files["module"].location == str(tmp_path / "net.py")
    there = written(tmp_path, {"module": {"location": "https://example.org/net.py", "sha256": SHA}}, "block.Net")
    with pytest.raises(UsageError, match=r"files\.module\.location is a URL, and the file is code: use a path"):
        load_spec(there)
