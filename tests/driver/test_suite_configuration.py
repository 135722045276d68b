"""The environment that asv's configuration of a suite says, and what of the configuration isn't followed."""

import sys
from pathlib import Path
from typing import Any

import pytest

from opduel.driver.suites.configuration import SuiteConfiguration, interpret, names_on_pypi, read_configuration
from opduel.records import UsageError

PYTHON = "{}.{}".format(*sys.version_info)
# pvlib's: what is needed is in include alone
PVLIB: dict[str, Any] = {
    "environment_type": "conda",
    "pythons": ["dummy"],
    "matrix": {},
    "include": [{"python": "3.10", "build": "", "pandas": "1.4.1"}, {"python": "3.10", "build": "", "pandas": ""}],
    "exclude": [{"python": "dummy"}],
}


@pytest.mark.parametrize(
    ("configuration", "requirements", "variables"),
    [
        ({}, (), {}),
        ({"matrix": {"numpy": [], "six": ["1.16", "1.17"]}}, ("numpy", "six==1.16"), {}),
        ({"matrix": {"req": {"numpy": [None, "2.2"]}, "env": {"A": 3}}}, (), {"A": "3"}),
        ({"matrix": {"req": {"numpy": ">=1.26, <3", "pip+dask[array]": ""}}}, ("numpy>=1.26,<3", "dask[array]"), {}),
        (
            {"matrix": {"req": {"six": ["1.16", "1.17"]}}, "exclude": [{"req": {"six": r"1\.16"}}]},
            ("six==1.17",),
            {},
        ),
        (
            {"matrix": {"numpy": ["1"]}, "include": [{"python": PYTHON, "numpy": "2"}], "pythons": ["2.7"]},
            ("numpy==2",),
            {},
        ),
        ({"matrix": {"numpy": ["1"]}, "exclude": [{"environment_type": "conda"}]}, ("numpy==1",), {}),
        ({"matrix": {"env": {"A": ["1", "2"]}, "env_nobuild": {"B": ["3"]}}}, (), {"A": "1", "B": "3"}),
    ],
)
def test_the_environment_is_the_first_that_asv_makes_for_this_python(
    configuration: dict[str, Any], requirements: tuple[str, ...], variables: dict[str, str]
) -> None:
    interpreted = interpret(configuration)
    assert (interpreted.requirements, interpreted.variables) == (requirements, variables)


def test_only_env_is_for_building() -> None:
    interpreted = interpret({"matrix": {"env": {"CC": ["clang"]}, "env_nobuild": {"THREADS": ["1"]}}})
    assert interpreted.build_variables == {"CC": "clang"}


def test_commands_are_followed() -> None:
    own = {"build_command": "make all", "install_command": ["python -mpip install -v {wheel_file}[all,fast] six>=1.16"]}
    interpreted = interpret({**own, "matrix": {"env": {"CC": ["clang"]}}})
    assert interpreted.requirements == ("six>=1.16",)
    script = '(cd "$source" && make all)'
    assert interpreted.build_variables == {"CC": "clang", "BUILD_COMMANDS": script, "WHEEL_EXTRAS": "all,fast"}
    assert interpreted.variables == {"CC": "clang"}


def test_names_of_another_installer_are_no_requirements() -> None:
    interpreted = interpret({"environment_type": "conda", "matrix": {"numpy": [], "geos": ["3.12"], "pip+xxhash": []}})
    assert (interpreted.requirements, interpreted.conda_packages) == (("xxhash",), ("numpy", "geos"))
    assert interpret(PVLIB).conda_packages == ("build", "pandas")


@pytest.mark.parametrize(
    ("project_file", "names"),
    [
        (
            "[project]\ndependencies = ['NumPy>=1.2', 7]\n[build-system]\nrequires = ['setuptools_scm[toml]']\n"
            "[project.optional-dependencies]\nio = ['h5py ; python_version > \"3\"']\n"
            "[dependency-groups]\ntest = [{include-group = 'io'}, 'pytest.x~=1']\n",
            {"numpy", "setuptools-scm", "h5py", "pytest-x"},
        ),
        ("project = 1\nbuild-system = []", set()),
        ("[project", set()),
    ],
)
def test_what_the_project_itself_asks_pypi_for(project_file: str, names: set[str], tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "pyproject.toml").write_text(project_file)
    (tmp_path / "bench").mkdir()
    assert names_on_pypi(tmp_path / "bench") == names


def test_a_pyproject_outside_the_repository_is_another_projects(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project]\ndependencies = ['numpy']\n")
    (tmp_path / "here" / ".git").mkdir(parents=True)
    assert names_on_pypi(tmp_path / "here") == set()


def test_condas_names_that_the_project_asks_pypi_for_are_requirements() -> None:
    matrix = {"numpy": ["2.2"], "netCDF4": [""], "pandas": [">=2"], "scipy": ["1.7.*"], "geos": ["3"], "pip+six": ["1"]}
    names = {"numpy", "netcdf4", "pandas", "scipy", "six"}
    interpreted = interpret({"environment_type": "conda", "matrix": matrix}, on_pypi=names)
    assert interpreted.requirements == ("numpy==2.2.*", "netCDF4", "pandas>=2", "scipy==1.7.*", "six==1")
    assert interpreted.conda_packages == ("geos",)
    elsewhere = {
        "environment_type": "conda",
        "include": [{"python": "3.1", "numpy": "1.2"}, {"python": "3.1", "req": {"numpy": "1.2", "six": ""}}],
        "exclude": [{"python": "3"}],
    }
    elsewhere["pythons"] = ["3"]
    interpreted = interpret(elsewhere, on_pypi=names)
    assert interpreted.requirements == ("numpy",), "which version is for another Python"
    assert any("one of 2 environments is measured: numpy (" in note for note in interpreted.notes)


def test_limits_and_the_place_of_the_package() -> None:
    interpreted = interpret({"default_benchmark_timeout": 300, "repo_subdir": "./python/"})
    assert (interpreted.timeout_s, interpreted.subfolder) == (300.0, "python")
    assert SuiteConfiguration() == interpret({"repo_subdir": "."})


@pytest.mark.parametrize(
    ("configuration", "lines"),
    [
        (
            {"pythons": ["2.7", "3.8", "3.9"], "dvcs": "hg", "branches": ["main", "old"]},
            [
                f"asv.conf.json: not followed: pythons (builds have Python {PYTHON}; for another, add it to their "
                "requirements or to --with_packages), dvcs (only git repositories can be measured)",
            ],
        ),
        (
            {"build_command": ["make -C {conf_dir}"], "install_command": ["make install"]},
            [
                "build_command: not followed: make -C {conf_dir}: {conf_dir}: a commit's build has only {build_dir}, "
                "{build_cache_dir}, {env_dir}, {project}; the package's own build backend builds commits",
                "install_command: not followed: make install: is not pip's; what was built is installed as it is",
            ],
        ),
        # NumPy's, SciPy's, xarray's and SymPy's do what a build backend does.
        (
            {
                "build_command": [
                    "python -m pip install build",
                    "python -m build --wheel -o {build_cache_dir} {build_dir}",
                    "PIP_NO_BUILD_ISOLATION=false python -m pip wheel --no-deps -w {build_cache_dir} {build_dir}",
                ],
                "environment_type": "virtualenv",
                "dvcs": "git",
                "pythons": [PYTHON, "3.20"],
                "install_command": [],
                "show_commit_url": "https://git.example/",
                "matrix": {"req": None},
            },
            [],
        ),
        (
            {"build_command": ["make"], "install_command": "python -m pip install {wheel_file}[all]"},
            ["build_command and install_command: followed where commits are built; releases are installed as they are"],
        ),
        ({"install_command": "pip install {wheel_file} ./own"}, ["install_command: not followed: ./own: is neither"]),
        ({"regressions_thresholds": {"m.time_one": 0.01}}, ["regressions_thresholds (use --threshold)"]),
        (
            {"matrix": {"req": {"numpy": ["1.26", "2.2"], "six": []}, "env": {"A": ["1", "2"]}}},
            ["one of 4 environments is measured: numpy 1.26, six, A=1 (another: --suite_packages, --env)"],
        ),
        (
            {"matrix": {"six": []}, "exclude": [{"python": PYTHON, "sys_platform": "linux"}]},
            ["exclude leaves no environment: nothing is installed for the suite"],
        ),
        (
            {"matrix": {"pip+git+https://ada:secret@git.example/x.git": [], "pip+./own": [], "six": []}},
            ["not installed, as only names and versions are: git+https://"],
        ),
    ],
)
def test_what_is_not_followed_is_said(configuration: dict[str, Any], lines: list[str]) -> None:
    notes = interpret(configuration).notes
    assert len(notes) == len(lines)
    for note, line in zip(notes, lines, strict=True):
        assert line in note
        assert note.startswith("asv.conf.json: ")
        assert "secret" not in note


@pytest.mark.parametrize(
    ("configuration", "message"),
    [
        ({"matrix": ["x"]}, 'f.json: matrix: is not a JSON object, such as {"numpy": ["2.2"]}: correct it'),
        ({"matrix": {"req": ["x"]}}, "f.json: matrix.req: is not a JSON object"),
        (
            {"matrix": {"req": {}, "numpy": []}},
            "f.json: matrix: numpy stands beside req, env, env_nobuild: put it into",
        ),
        ({"matrix": {"numpy": [["1"]]}}, "f.json: matrix: numpy: is not a list of texts"),
        ({"include": {}}, "f.json: include: is not a JSON list"),
        ({"exclude": ["x"]}, "f.json: exclude: is not a list of JSON objects"),
        ({"exclude": [{"python": "("}]}, "f.json: exclude: missing ), unterminated subpattern"),
        ({"pythons": "3.11"}, "f.json: pythons: is not a JSON list"),
        ({"build_command": [["make"]]}, "f.json: build_command: is not a list of texts"),
        ({"default_benchmark_timeout": "5 min"}, "f.json: default_benchmark_timeout: 5 min is not a number of seconds"),
        ({"repo_subdir": "../other"}, "f.json: repo_subdir: ../other is outside the repository"),
    ],
)
def test_what_is_written_wrongly_is_said_with_its_field(configuration: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as refused:
        interpret(configuration, "f.json")
    assert str(refused.value).startswith(message)
    assert "\n" not in str(refused.value)


def test_a_matrix_of_a_billion_environments_takes_no_time() -> None:
    axes = {f"package{number}": [str(version) for version in range(10)] for number in range(9)}
    interpreted = interpret({"matrix": axes, "exclude": [{"package0": "[0-8]"}]})
    assert interpreted.requirements == ()
    assert interpret({"matrix": axes}).requirements[0] == "package0==0"


def test_comments_and_commas_are_read_over_and_deep_nesting_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "asv.conf.json"
    path.write_text('{\n // "no": 1\n "repo": "https://host/x", /* "no": 2\n */ "odd": "a\\"//,]", "list": [1,\n ],\n}')
    assert read_configuration(path) == {"repo": "https://host/x", "odd": 'a"//,]', "list": [1]}
    path.write_text("[" * 100_000)
    with pytest.raises(UsageError, match="is nested too deeply: make it flatter"):
        read_configuration(path)
