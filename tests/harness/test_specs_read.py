"""Files that can't be read as plain data: each error says where and how to fix it, quickly, and executes nothing."""

import time
from pathlib import Path

import pytest

from opduel.harness.specs import expand_cases, load_spec
from opduel.harness.specs.read import MAX_BYTES, read_plain
from opduel.records import UsageError

GOOD = '{"framework": "mxnet", "tests": [{"operator": "nd.exp", "inputs": {"data": [2]}}]}'


def bomb(levels: int) -> str:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("empty.json", b"", ["the file is empty", '"tests"']),
        ("blank.yaml", b"  \n\n", ["the file is empty"]),
        ("bom_only.json", b"\xef\xbb\xbf", ["the file is empty"]),
        ("latin.json", b'{"description": "\xe9"}', ["is not UTF-8 text (byte 17)"]),
        ("syntax.json", b'{\n  "framework": "mxnet",,\n}', ["line 2, column 24"]),
        ("cut.json", b'{"tests": [', ["not JSON: line 1, column 12"]),
        ("syntax.yaml", b"framework: mxnet\ntests: [1, 2\n", ["not YAML: line 3, column 1"]),
        ("two.yaml", b"a: 1\n---\nb: 1\n", ["not YAML", "document"]),
        ("tab.yaml", b"a:\n\t- b\n", ["not YAML: line 2, column 1"]),
        ("control.yaml", b"a: \x01\n", ["not YAML"]),
        ("alias.yaml", b"a: *nothing\n", ["not YAML: line 1, column 4", "undefined alias"]),
        ("twice.json", b'{"framework": "mxnet", "framework": "mxnet"}', ["framework is given twice: keep one"]),
        (
            "twice_deep.json",
            b'{"tests": [{}, {"inputs": [{"data": [1], "data": [2]}]}]}',
            ["tests[1].inputs[0].data is given twice"],
        ),
        ("twice.yaml", b"tests:\n- inputs: {data: [1], data: [2]}\n", ["tests[0].inputs.data is given twice"]),
        ("nan.json", b'{"tests": [{"threshold": NaN}]}', ["tests[0].threshold is not a finite number"]),
        ("infinite.json", b'{"timeout": -Infinity}', ["timeout is not a finite number"]),
        ("overflow.json", b'{"timeout": 1e999}', ["timeout is not a finite number"]),
        ("overflow.yaml", b"timeout: 1e999", ["timeout is not a finite number"]),
        ("wide.json", b'{"a": [0, 9223372036854775808]}', ["a[1] is beyond 64 bits"]),
        ("digits.json", b'{"a": ' + b"9" * 5000 + b"}", ["too many digits"]),
        ("digits.yaml", b"a: " + b"9" * 5000, ["not YAML", "digits"]),
        ("deep.json", b"[" * 100_000, ["nested more than 32 deep"]),
        ("deep.yaml", b"[" * 1_000, ["nested more than 32 deep"]),
        ("deeper.json", b"[" * 40 + b"]" * 40, ["nested more than 32 deep"]),
        ("bomb.yaml", bomb(9).encode(), ["more than 500000 values", "aliases"]),
        ("cycle.yaml", b"&a\nb: *a\n", ["nested more than 32 deep"]),
        ("cycle2.yaml", b"a: &a [*a]\n", ["recursive"]),
        ("key.yaml", b"1: 2\n", ["the spec has a field 1: put its name in quotes"]),
        ("list_key.yaml", b"x: 1\n[1, 2]: 2\n", ["not YAML: unhashable"]),
        ("null_key.yaml", b"~: 2\n", ["has a field None: put its name in quotes"]),
        ("escape.json", b'{"description": "\\u001b[31m"}', ["description contains control characters"]),
        ("surrogate.json", b'{"description": "\\ud800"}', ["description contains control characters"]),
        ("key_escape.json", b'{"\\u001b": 1}', ["has a field '\\x1b': remove the control characters"]),
        ("csi.json", '{"description": "\x9b31m"}'.encode(), ["description contains control characters"]),
        ("lines.json", b'{"a\\n\\u2028b": 1, "a\\n\\u2028b": 2}', ["a  b is given twice"]),
        ("long.json", b'{"' + b"x" * 10_000 + b'": 1}', ["xxx..."]),
        ("binary.yaml", b"a: !!binary aGk=\n", ["a is a bytes: use plain YAML, without tags"]),
        ("set.yaml", b"a: !!set {b}\n", ["a is a set: use plain YAML, without tags"]),
        ("no_bool.yaml", b"a: !!bool maybe\n", ["not YAML"]),
        ("no_int.yaml", b"a: !!int ''\n", ["not YAML"]),
        ("no_float.yaml", b"a: !!float x\n", ["not YAML"]),
        ("nan.yaml", b"a: !!float .nan\n", ["a is not a finite number"]),
        ("custom.yaml", b"a: !mine 1\n", ["not YAML: line 1, column 4", "the tag '!mine'"]),
    ],
)
def test_bad_files(tmp_path: Path, name: str, content: bytes, words: list[str]) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    start = time.monotonic()
    with pytest.raises(UsageError) as caught:
        load_spec(path)
    message = str(caught.value)
    assert time.monotonic() - start < 20
    assert message.startswith(f"{path}: ")
    assert all(word in message for word in words), message
    assert "\n" not in message
    assert len(message) < len(str(path)) + 410


def test_too_large(tmp_path: Path) -> None:
    path = tmp_path / "large.json"
    path.write_bytes(GOOD.encode() + b" " * MAX_BYTES)
    with pytest.raises(UsageError, match="larger than 2 MiB: split it"):
        load_spec(path)
    path.write_bytes(GOOD.encode().ljust(MAX_BYTES))
    assert len(expand_cases(load_spec(path))) == 1


def test_endless_device() -> None:
    with pytest.raises(UsageError, match="is not a regular file"):
        load_spec(Path("/dev/zero"))


def test_unreadable(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"absent\.json: cannot be read: No such file"):
        load_spec(tmp_path / "absent.json")
    with pytest.raises(UsageError, match="cannot be read: is a folder"):
        load_spec(tmp_path)


@pytest.mark.parametrize(
    "payload",
    [
        "!!python/object/apply:os.system ['touch {marker}']",
        "!!python/object/new:os.system ['touch {marker}']",
        "!!python/name:os.system",
        "!!python/module:os",
        "!!python/object/apply:subprocess.check_output [['touch', '{marker}']]",
    ],
)
def test_yaml_executes_nothing(tmp_path: Path, payload: str) -> None:
    marker = tmp_path / "executed"
    path = tmp_path / "evil.yaml"
    path.write_text(f"framework: mxnet\ndescription: {payload.replace('{marker}', str(marker))}\n")
    with pytest.raises(UsageError, match=r"not YAML: line 2, column 14: .* the tag '\S*python/"):
        load_spec(path)
    assert not marker.exists()


def test_yaml_means_what_json_means(tmp_path: Path) -> None:
    path = tmp_path / "plain.yaml"
    path.write_text(
        "octal: 010\nyes: yes\noff: off\ndate: 2020-01-01\nsexagesimal: 1:30\nunder: 1_000\nhex: 0x10\n"
        "small: 1e-05\nhalf: 0.5\nminus: -3\nempty:\ntilde: ~\ntrue_: true\nnan: .nan\n<<: {a: 1}\n"
        "anchor: &x [1, 2]\nalias: *x\n"
    )
    assert read_plain(path) == {
        "octal": "010",
        "yes": "yes",
        "off": "off",
        "date": "2020-01-01",
        "sexagesimal": "1:30",
        "under": "1_000",
        "hex": "0x10",
        "small": 1e-05,
        "half": 0.5,
        "minus": -3,
        "empty": None,
        "tilde": None,
        "true_": True,
        "nan": ".nan",
        "<<": {"a": 1},
        "anchor": [1, 2],
        "alias": [1, 2],
    }


def test_byte_order_mark_and_line_ends_are_taken(tmp_path: Path) -> None:
    for name in ("a.json", "a.yaml"):
        path = tmp_path / name
        path.write_bytes(b"\xef\xbb\xbf" + GOOD.replace(",", ",\r\n").encode())
        assert len(expand_cases(load_spec(path))) == 1
