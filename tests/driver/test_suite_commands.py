"""asv's commands as lines for the shell, run by it, and what install commands install."""

import subprocess
from pathlib import Path

import pytest

from opduel.driver.suites.commands import NotFollowedError, build_script, installed_by


def run(folder: Path, *commands: str) -> "subprocess.CompletedProcess[str]":
    """Run the commands as build.sh does, in folders with names that need quotes."""
    places = {"source": folder / "a b", "destination": folder / "$d", "ASV_ENV_DIR": folder / "env"}
    for place in places.values():
        place.mkdir(exist_ok=True)
    environment = {name: str(place) for name, place in places.items()} | {"PATH": "/usr/bin:/bin"}
    script = f"set -eu\n{build_script(commands, 'my project')}\necho ended\n"
    return subprocess.run(["sh", "-c", script], env=environment, capture_output=True, text=True, check=False)


def test_words_places_variables_and_folders_are_asv_s(tmp_path: Path) -> None:
    process = run(
        tmp_path,
        "pwd",
        "in-dir={env_dir} pwd",
        "WORD='x y' OTHER={project} sh -c 'echo \"$WORD, $OTHER\"'",
        "echo '*' {build_dir}/b {build_cache_dir} '{{ }}' ''.",
    )
    assert process.stdout.splitlines() == [
        str(tmp_path / "a b"),
        str(tmp_path / "env"),
        "x y, my project",
        f"* {tmp_path}/a b/b {tmp_path}/$d {{ }} .",
        "ended",
    ]


@pytest.mark.parametrize(
    ("command", "goes_on"),
    [
        ("false", False),
        ("true", True),
        ("in-dir={build_dir}/gone true", False),
    ],
)
def test_only_a_success_lets_it_go_on(tmp_path: Path, command: str, goes_on: bool) -> None:
    process = run(tmp_path, command)
    assert (process.returncode == 0, "ended" in process.stdout) == (goes_on, goes_on), process.stderr


@pytest.mark.parametrize(
    "command", ["make {commit}", "make '", "awk '{print}'", "make {", "", "return-code=any", "make \0"]
)
def test_what_a_build_does_not_have_is_said(command: str) -> None:
    with pytest.raises(NotFollowedError) as refused:
        build_script([command], "")
    assert str(refused.value).startswith(f"{command}: ")


def test_what_pip_installs_is_read() -> None:
    commands = [
        "in-dir={env_dir} python -mpip install --no-deps {wheel_file}[all]",
        "python -m pip install 'dask[array]>=2024.1' six .[fast,all]",
        "python setup.py develop --no-deps",
    ]
    assert installed_by(commands) == (["dask[array]>=2024.1", "six"], ["all", "fast", "all"])
    with pytest.raises(NotFollowedError, match="make install: is not pip's"):
        installed_by(["make install"])
