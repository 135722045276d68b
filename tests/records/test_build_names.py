"""What builds are called, in headings and messages."""

from dataclasses import replace

from opduel.records import Build
from opduel.reporters.run_text import build_text

PACKAGES = {"numpy": "2.2.6", "scipy": "1.15.3", "scikit-image": "0.25.2", "pip": "24.0"}
ENVIRONMENT = Build(
    framework="python",
    requested="~/env",
    strategy="environment",
    interpreter="/home/me/env/bin/python",
    version="3.11.7",
    python="3.11.7",
    digest="",
    packages=PACKAGES,
)


def test_an_environment_has_the_versions_of_what_the_cases_call() -> None:
    named = ENVIRONMENT.with_packages(["numpy", "mine", "numpy"])
    assert named.name == "numpy 2.2.6 in ~/env"
    assert build_text(named) == "numpy 2.2.6 in ~/env (Python 3.11.7)"
    several = ENVIRONMENT.with_packages(PACKAGES)
    assert several.name == "numpy 2.2.6, scipy 1.15.3, scikit-image 0.25.2 in ~/env"
    assert named.description == "numpy 2.2.6, Python 3.11.7"


def test_an_environment_without_these_is_a_python() -> None:
    build = ENVIRONMENT.with_packages(["mine"])
    assert (build, build.name) == (ENVIRONMENT, "~/env")
    assert build_text(build) == "~/env (Python 3.11.7)"


def test_a_build_of_requirements_has_its_own_name() -> None:
    build = replace(ENVIRONMENT, requested="numpy==2.2.6", strategy="release", version="numpy 2.2.6")
    assert build.with_packages(["scipy"]) == build
    assert build_text(build) == "numpy==2.2.6 (numpy 2.2.6, Python 3.11.7)"
