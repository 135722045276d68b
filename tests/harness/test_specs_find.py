"""Where specs are found, and where they are not."""

import re
from pathlib import Path

import pytest

from opduel.harness.specs import find_spec, list_specs
from opduel.records import UsageError

SHIPPED = Path(__file__).resolve().parents[2] / "specifications"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout" / "specifications"
    (folder / "frameworks" / "mxnet").mkdir(parents=True)
    (folder / "nets").mkdir()
    for name in ("conv.json", "plain.yaml", "short.yml", "nets/lstm.json", "spec.schema.json", "notes.txt"):
        (folder / name).write_text("{}")
    (folder / "frameworks" / "mxnet" / "releases.json").write_text("{}")
    (tmp_path / "checkout" / "secret.json").write_text("{}")
    (folder / "link.json").symlink_to(tmp_path / "checkout" / "secret.json")
    return folder


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("conv", "conv.json"),
        ("conv.json", "conv.json"),
        ("specs/conv.json", "conv.json"),
        ("specs/conv", "conv.json"),
        ("./specs/conv.json", "conv.json"),
        ("specifications/conv.json", "conv.json"),
        ("plain", "plain.yaml"),
        ("short", "short.yml"),
        ("nets/lstm", "nets/lstm.json"),
        ("specs/nets/lstm.json", "nets/lstm.json"),
    ],
)
def test_names(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, want: str) -> None:
    monkeypatch.chdir(tmp_path)  # nowhere near the checkout
    assert find_spec(name, root=root) == root / want


def test_a_file_wins_over_a_name(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "conv.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    assert find_spec("specs/conv.json", root=root) == tmp_path / "specs" / "conv.json"
    assert find_spec("conv.json", root=root) == root / "conv.json"
    assert find_spec(str(tmp_path / "specs" / "conv.json"), root=root) == tmp_path / "specs" / "conv.json"


def test_a_file_that_happens_to_be_called_like_a_spec_is_not_meant(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("conv", "mine"):
        (tmp_path / name).write_text("{}")
    monkeypatch.chdir(tmp_path)
    assert find_spec("conv", root=root) == root / "conv.json"
    assert find_spec("./conv", root=root) == tmp_path / "conv"
    assert find_spec("mine", root=root) == tmp_path / "mine"


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "conf",
        "specs",
        "specs/",
        "specs/../../secret",
        "../secret.json",
        "nets/../conv",
        "nets",
        "link",  # a symbolic link that leads out of specifications/
        "frameworks/mxnet/releases",
        "specs/frameworks/mxnet/releases.json",
        "spec.schema.json",
        "spec.schema",
        "notes.txt",
        "/conv",
        "/specs/conv.json",
        "conv.yaml",
        "x" * 5000,
        "nul\0",
    ],
)
def test_what_is_no_spec(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as caught:
        find_spec(name, root=root)
    all_there_are = "use a path, or a spec's name (conv, plain, short; opduel list shows all)"
    assert str(caught.value).endswith((all_there_are, "similar: conv", "similar: nets/lstm", "similar: plain"))
    assert len(str(caught.value)) < 300
    assert caught.value.exit_code == 2


def test_what_is_there_instead_of_a_file_is_said(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "dangling.json").symlink_to("gone.json")
    for name, what in (
        ("folder", "spec 'folder' is not a file: use a path"),
        ("dangling.json", "spec 'dangling.json' is not a file: "),
        ("convv", "spec 'convv' is neither a file nor a spec's name: use a path, or a spec's name; similar: conv"),
        ("lstn", "similar: nets/lstm"),
    ):
        with pytest.raises(UsageError, match=re.escape(what)):
            find_spec(name, root=root)


def test_the_shipped_ones_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert {"conv.json", "smoke.json"} <= set(list_specs())
    for folder in (tmp_path, SHIPPED.parent):
        monkeypatch.chdir(folder)
        assert find_spec("specs/conv.json") == SHIPPED / "conv.json"
        assert find_spec("smoke") == SHIPPED / "smoke.json"
