"""From a request to a build: releases made by uv from a local index, and paths."""

import json
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from toy_framework import PYTHON, Toy, builds, leftovers

from opduel.driver.builds import BuildCache, load_releases, resolve_build
from opduel.driver.builds.process import run
from opduel.frameworks import get_framework
from opduel.records import BrokenBuildError, RunError, UsageError


@pytest.fixture
def cache(tmp_path: Path) -> BuildCache:
    return BuildCache(tmp_path / "cache")


def test_a_release_gets_an_environment_of_its_own(toy: Toy, cache: BuildCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    monkeypatch.setenv("VIRTUAL_ENV", "/nowhere")
    build = resolve_build("toy==1.0", toy, cache)
    recipe = load_releases(toy).recipe("toy", "1.0")
    assert build.directory == str(cache.directory / "toy" / sysconfig.get_platform() / recipe.key)
    assert build.interpreter == f"{build.directory}/bin/python"
    assert (build.framework, build.requested, build.strategy) == ("toy", "toy==1.0", "release")
    assert build.version == "1.0"
    assert build.python.startswith(PYTHON + ".")
    assert build.packages == {"toy": "1.0", "toydep": "0.5"}
    ran = run([build.interpreter, "-c", "import toy; print(toy.__file__)"], timeout=60)
    assert Path(ran.stdout.split()[-1]).is_relative_to(Path(build.directory))


def test_the_manifest_tells_how_it_was_made(toy: Toy, cache: BuildCache) -> None:
    build = resolve_build("toy==1.0", toy, cache)
    manifest = json.loads((Path(str(build.directory)) / "manifest.json").read_text())
    assert manifest["manifest_version"] == 1
    assert manifest["recipe"] == {"package": "toy", "version": "1.0", "python": PYTHON, "pins": {"toydep": "0.5"}}
    assert manifest["digest"] == build.digest
    assert manifest["duration_s"] > 0


def test_a_cached_release_starts_no_process(toy: Toy, cache: BuildCache, processes_started) -> None:
    with processes_started() as first:
        made_build = resolve_build("toy==1.0", toy, cache)
    with processes_started() as second:
        cached_build = resolve_build("toy == 1.0", toy, cache)
    assert first
    assert not second
    assert cached_build.requested == "toy == 1.0"
    assert (cached_build.digest, cached_build.interpreter, cached_build.created) == (
        made_build.digest,
        made_build.interpreter,
        made_build.created,
    )


def test_digests_follow_the_content(toy: Toy, cache: BuildCache, tmp_path: Path) -> None:
    first, two = resolve_build("toy==1.0", toy, cache), resolve_build("toy==2.0", toy, cache)
    again = resolve_build("toy==1.0", toy, BuildCache(tmp_path / "another"))
    assert first.digest != two.digest
    assert first.digest == again.digest


@pytest.mark.parametrize("request_text", ["toy==9.9", "tox==1.0", "toy", "toy>=1.0", "", "toy=="])
def test_what_cannot_be_meant_is_a_usage_error(toy: Toy, cache: BuildCache, request_text: str) -> None:
    with pytest.raises(UsageError, match=r"toy==1\.0|1\.0, 2\.0"):
        resolve_build(request_text, toy, cache)
    assert not cache.directory.exists()


def _refused(toy: Toy, cache: BuildCache, request_text: str, says: str, kind: type[RunError] = RunError) -> None:
    with pytest.raises(RunError, match=says) as caught:
        resolve_build(request_text, toy, cache)
    assert type(caught.value) is kind
    assert "\n" not in str(caught.value)
    assert builds(cache.directory) == []
    assert leftovers(cache.directory) == []


def test_no_interpreter(toy: Toy, cache: BuildCache) -> None:
    _refused(toy, cache, "toy==0.1", r"no Python 3\.99 found: looked on PATH, in .*versions.*: install Python 3\.99")


def test_does_not_import(toy: Toy, cache: BuildCache) -> None:
    _refused(
        toy,
        cache,
        "toy==3.0",
        r"toy==3\.0 was installed, but can't be imported: OSError: libtoyblas\.so\.0: cannot open",
        BrokenBuildError,
    )


def test_no_such_version_in_the_index(toy: Toy, cache: BuildCache) -> None:
    _refused(toy, cache, "toy==4.0", r"the package index has no such version \(there is no version of toy==4\.0\)")


def test_no_wheel_for_this_platform(toy: Toy, cache: BuildCache) -> None:
    _refused(toy, cache, "toy==5.0", r"no wheel for this Python and platform", BrokenBuildError)


def test_an_index_that_does_not_answer(toy: Toy, cache: BuildCache, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as bound:  # bound but not listening: connections are refused
        bound.bind(("127.0.0.1", 0))
        monkeypatch.setenv("UV_DEFAULT_INDEX", f"http://127.0.0.1:{bound.getsockname()[1]}/simple")
        monkeypatch.setenv("UV_HTTP_RETRIES", "0")
        _refused(toy, cache, "toy==1.0", r"the package index can't be reached \(.*refused.*\): check the network")


def test_offline_without_the_wheel(toy: Toy, cache: BuildCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("UV_OFFLINE", "1")
    _refused(toy, cache, "toy==1.0", r"the package index can't be reached")


def test_a_cache_that_cannot_be_written(toy: Toy, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(RunError, match=r".*file/cache.*: .*Not a directory.*--exec_dir"):
        resolve_build("toy==1.0", toy, BuildCache(tmp_path / "file" / "cache"))


def test_the_default_cache_honours_xdg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert BuildCache().directory == tmp_path / "opduel" / "builds"


@pytest.fixture
def environment(toy: Toy, tmp_path: Path) -> Path:
    """An environment with the toy in it, as a user would bring one."""
    made_build = resolve_build("toy==2.0", toy, BuildCache(tmp_path / "theirs"))
    (Path(str(made_build.directory)) / "manifest.json").unlink()
    return Path(str(made_build.directory)).rename(tmp_path / "brought")


def test_a_path_to_an_environment(toy: Toy, cache: BuildCache, environment: Path) -> None:
    build = resolve_build(str(environment), toy, cache)
    assert (build.strategy, build.version, build.directory) == ("environment", "2.0", None)
    assert build.interpreter == str(environment / "bin" / "python")
    assert build.packages == {"toy": "2.0", "toydep": "0.5"}
    assert not cache.directory.exists()


def test_a_path_to_an_interpreter(
    toy: Toy, cache: BuildCache, environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(environment)
    build = resolve_build("bin/python", toy, cache)
    assert (build.strategy, build.version) == ("interpreter", "2.0")
    assert build.interpreter == str(environment / "bin" / "python")  # the link, not what it leads to
    assert build.digest == resolve_build(str(environment), toy, cache).digest


def test_a_build_at_a_path_is_asked_with_the_variables_that_it_needs(
    toy: Toy, cache: BuildCache, environment: Path, tmp_path: Path
) -> None:
    program = tmp_path / "python"
    program.write_text(
        '#!/bin/sh\ntest "$LD_LIBRARY_PATH" = /libraries || { echo "libx.so: cannot open" >&2; exit 1; }\n'
        f'exec {environment}/bin/python "$@"\n'
    )
    program.chmod(0o755)
    with pytest.raises(UsageError, match=r"does not import toy: libx\.so: cannot open"):
        resolve_build(str(program), toy, cache)
    needed = {"LD_LIBRARY_PATH": "/libraries"}
    build = resolve_build(str(program), toy, cache, needed)
    assert (build.version, build.environment) == ("2.0", needed)
    assert resolve_build("toy==2.0", toy, cache, needed).environment == {}  # a release has all that it needs


def test_a_changed_library_changes_the_digest(toy: Toy, cache: BuildCache, environment: Path) -> None:
    before = resolve_build(str(environment), toy, cache).digest
    library = next(environment.glob("lib/*/site-packages/toy/libtoy.so"))
    shutil.copy(library, library.with_suffix(".new"))
    library.with_suffix(".new").replace(library)  # same size and content, later modification time
    assert resolve_build(str(environment), toy, cache).digest != before


def test_code_outside_of_an_environment_that_it_imports_changes_the_digest(cache: BuildCache, tmp_path: Path) -> None:
    """Of what is installed as editable, whichever way, and of no more."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "env"], check=True)
    (site,) = (tmp_path / "env").glob("lib/python*/site-packages")
    framework, named, editable = get_framework("python"), tmp_path / "named", tmp_path / "editable"
    other_files, beside = (editable / ".git", editable / "env", editable / "node_modules"), Path(f"{site}-dev")
    for folder in (named, editable / "src" / "pack", *other_files, beside, site / "own-1.dist-info"):
        folder.mkdir(parents=True)
    for path in (editable / "env" / "pyvenv.cfg", editable / "src" / "pack" / "__init__.py"):
        path.touch()
    (site / "named.pth").write_text(f"import sys\n{named}\n{beside}\n/no/such/folder\n/\n")
    (site / "own-1.dist-info" / "direct_url.json").write_text(
        json.dumps({"url": editable.as_uri(), "dir_info": {"editable": True}})
    )
    (site / "lock").symlink_to("/no/such/file")
    digests = [resolve_build(str(tmp_path / "env"), framework, cache).digest]
    pack = editable / "src" / "pack"
    (pack / "data").mkdir()
    counting = [named / "a.py", editable / "src" / "b.py", pack / "table.csv", pack / "data" / "x.csv"]
    counting.append(beside / "a.py")
    not_counting = [
        editable / ignored_path
        for ignored_path in (".git/a.py", "env/a.py", "node_modules/a.py", "run.log", "src/x.csv")
    ]
    for path, counts in [
        *((ignored_path, True) for ignored_path in counting),
        *((ignored_path, False) for ignored_path in not_counting),
    ]:
        path.write_text("1")
        digests.append(resolve_build(str(tmp_path / "env"), framework, cache).digest)
        assert (digests[-1] != digests[-2]) == counts, path


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("gone", "no such file or directory"),
        ("folder", "bin/python: is no interpreter that can be executed"),
        ("text", "is no interpreter that can be executed"),
        ("broken", "does not import toy: .*Exec format error"),
        ("shim", "does not import toy: shim: python3: command not found"),
        ("silent", "does not import toy: its answer is not understood"),
        ("deep", "does not import toy: its answer is not understood"),
        ("crash", "does not import toy: died of SIGSEGV"),
        ("bare", "does not import toy: ModuleNotFoundError: No module named 'toy'"),
    ],
)
def test_a_path_that_is_no_build(toy: Toy, cache: BuildCache, tmp_path: Path, path: str, says: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "text").write_text("hello")
    (tmp_path / "bare").symlink_to(sys.executable)
    scripts = {
        "broken": "\x00\x01",
        "shim": "#!/bin/sh\necho 'shim: python3: command not found' >&2; exit 127\n",
        "silent": "#!/bin/sh\n",
        "deep": "#!/bin/sh\nyes '[' | head -100000\n",
        "crash": "#!/bin/sh\nkill -SEGV $$\n",
    }
    for name, text in scripts.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    with pytest.raises(UsageError, match=says) as caught:
        resolve_build(str(tmp_path / path), toy, cache)
    assert str(tmp_path / path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert os.listdir(tmp_path / "folder") == []
