"""Builds from requirements: what is a requirement, how it is locked and kept, and what the recipe says of it."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from opduel.driver.builds import requirements, uv
from opduel.driver.builds.cache import BuildCache
from opduel.driver.builds.recipes import LockedRecipe
from opduel.driver.builds.requirements import lock, lock_with_suite, requirements_of, with_packages
from opduel.driver.builds.resolve import resolve_build
from opduel.driver.builds.uv import UnresolvableError
from opduel.frameworks import get_framework
from opduel.records import UsageError

LOCKED = "numpy==1.26.4 \\\n    --hash=sha256:00\nscipy==1.14.1 \\\n    --hash=sha256:11\n"


def test_requirements_are_words_or_the_lines_of_a_file(tmp_path: Path) -> None:
    assert requirements_of("scipy==1.14.1 numpy>=1.26,<2 pandas") == ("scipy==1.14.1", "numpy>=1.26,<2", "pandas")
    path = tmp_path / "needed.txt"
    path.write_text("# a comment\nnumpy==1.26.4  # why\n\nscipy==1.14.1 \\\n    --hash=sha256:11\n")
    assert requirements_of(str(path)) == ("numpy==1.26.4", "scipy==1.14.1 --hash=sha256:11")
    assert requirements_of(str(tmp_path)) is None
    assert requirements_of("~/environment") is None
    assert requirements_of("./numpy") is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"bad.txt: has no requirements: name a package on each line"),
        ("-r other.txt\n", r"bad.txt: '-r other.txt': options are not supported"),
        ("numpy = 1\n", r"bad.txt': 'numpy = 1' is neither a requirement nor a path"),
        (None, r"bad.txt: No such file or directory: give requirements"),
    ],
)
def test_files_that_can_not_be_meant(tmp_path: Path, content: str | None, message: str) -> None:
    path = tmp_path / "bad.txt"
    if content is not None:
        path.write_text(content)
    with pytest.raises(UsageError, match=message):
        requirements_of(str(path))


def test_words_that_can_not_be_meant() -> None:
    with pytest.raises(UsageError, match=r"'numpy == 1': '==' is neither .* without spaces within"):
        requirements_of("numpy == 1")
    with pytest.raises(UsageError, match=r"' ' has no requirements: name a package"):
        requirements_of(" ")


class Resolver:
    """Stands in for uv, and notes what it is asked: the lines, the Python, and the options."""

    def __init__(self, answer: str = LOCKED) -> None:
        self.answer = answer
        self.requests: list[tuple[str, str, dict[str, Any]]] = []

    def __call__(self, _: object, text: str, interpreter: Path, **options: Any) -> str:
        self.requests.append((text, str(interpreter), options))
        return self.answer.format(len(self.requests), line=text.strip())

    def preferred(self) -> list[str]:
        """The first line of each answer that was preferred."""
        return [options["preferred"].partition(" ")[0] for *_, options in self.requests]


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Resolver:
    resolver = Resolver()
    monkeypatch.setattr(uv, "resolve", resolver)
    monkeypatch.setattr(requirements, "find_interpreter", Path)
    return resolver


def test_requirements_for_other_pythons_alone_are_none(tmp_path: Path, resolver: Resolver) -> None:
    resolver.answer = ""
    with pytest.raises(UsageError, match=r"^numpy; python_version<'3': none of these packages is for Python 3\.\d+ on"):
        lock(("numpy; python_version<'3'",), tmp_path)


def test_what_was_resolved_once_is_kept(tmp_path: Path, resolver: Resolver) -> None:
    recipes = [lock(("scipy", "numpy<2"), tmp_path / "builds") for _ in range(2)]
    assert [text for text, *_ in resolver.requests] == ["scipy\nnumpy<2\n"]
    assert recipes[0] == recipes[1]
    assert recipes[0].pins == {"numpy": "1.26.4", "scipy": "1.14.1"}
    assert recipes[0].version == "scipy 1.14.1, numpy 1.26.4"
    assert recipes[0].key.startswith("scipy-1.14.1-py3.")
    lock(("scipy", "numpy<3"), tmp_path / "builds")
    assert len(resolver.requests) == 2


def test_the_key_has_all_that_was_resolved() -> None:
    first = LockedRecipe(("numpy",), "3.11", LOCKED)
    assert first.key != LockedRecipe(("numpy",), "3.11", LOCKED.replace("sha256:11", "sha256:12")).key
    assert first.key != LockedRecipe(("numpy",), "3.12", LOCKED).key


@pytest.mark.wheels
def test_requirements_that_conflict_are_refused_in_uvs_words(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"Because scipy==1.14.1 depends on numpy>=1.23.5,<2.3 .* unsatisfiable"
    ) as reason:
        resolve_build("scipy==1.14.1 numpy==1.20.0", get_framework("python"), BuildCache(tmp_path))
    assert "\n" not in str(reason.value)
    with pytest.raises(UsageError, match=r"numpy==0.0.1 can't be resolved: .*numpy==0.0.1.*correct the requirements"):
        resolve_build("numpy==0.0.1", get_framework("python"), BuildCache(tmp_path))


@pytest.mark.parametrize("address", ["https://me:hunter2@h.example/x.whl", "git+https://ghp_hunter2@h.example/x"])
def test_a_password_in_a_requirement_is_refused_and_not_shown(tmp_path: Path, address: str) -> None:
    path = tmp_path / "needed.txt"
    path.write_text(f"numpy\nx @ {address}\n")
    with pytest.raises(UsageError, match=r"holds a password or token") as error:
        requirements_of(str(path))
    assert "hunter2" not in str(error.value)


def test_what_an_adaptor_needs_is_added_where_it_is_not_named() -> None:
    assert with_packages(("torch==2.13.0",), ("numpy",)) == ("torch==2.13.0", "numpy")
    assert with_packages(("torch==2.13.0", "NumPy==2.2.6"), ("numpy",)) == ("torch==2.13.0", "NumPy==2.2.6")


def test_uv_looks_where_pip_is_told_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PIP_FIND_LINKS is pip's own variable, with spaces between places; uv's has commas, and comes first."""
    program = tmp_path / "uv"
    program.write_text("#!/bin/sh\necho $UV_FIND_LINKS\n")
    program.chmod(0o755)
    monkeypatch.setattr(uv, "executable", lambda: str(program))
    monkeypatch.delenv("UV_FIND_LINKS", raising=False)
    monkeypatch.setenv("PIP_FIND_LINKS", "/one /two")
    assert uv.managed_interpreters("3.11") == [Path("/one,/two")]
    monkeypatch.setenv("UV_FIND_LINKS", "/three")
    assert uv.managed_interpreters("3.11") == [Path("/three")]
    monkeypatch.delenv("UV_FIND_LINKS")
    monkeypatch.delenv("PIP_FIND_LINKS")
    assert uv.managed_interpreters("3.11") == []


def test_a_requirement_names_the_python(tmp_path: Path, resolver: Resolver) -> None:
    recipe = lock(("numpy", "python==3.99"), tmp_path)
    ((text, python, _),) = resolver.requests
    assert (recipe.python, text, python) == ("3.99", "numpy\n", "3.99")
    assert recipe.key != lock(("numpy",), tmp_path).key
    with pytest.raises(UsageError, match=r"^python==4: not a version of Python: write one such as python==3.12$"):
        lock(("numpy", "python==4"), tmp_path)
    with pytest.raises(UsageError, match=r"^python==3.10 and python==3.9: name one Python$"):
        lock(("python==3.9", "python==3.10"), tmp_path)


def test_source_distributions_are_another_answer(tmp_path: Path, resolver: Resolver) -> None:
    recipes = [lock(("numpy",), tmp_path, sdists=takes_sdists) for takes_sdists in (False, True)]
    assert [options["sdists"] for *_, options in resolver.requests] == [False, True]
    assert recipes[0].key != recipes[1].key


def test_earlier_versions_are_kept_for_other_requirements(tmp_path: Path, resolver: Resolver) -> None:
    """Both sides of a comparison get the same versions, where both allow them."""
    for line in ("numpy>=1", "numpy>=1.1"):
        lock((line,), tmp_path, similar=("beside", "toy", ()))
    assert [options["preferred"] for *_, options in resolver.requests] == ["", LOCKED]


def test_unlike_requirements_prefer_nothing_of_each_other(tmp_path: Path, resolver: Resolver) -> None:
    resolver.answer = "numpy==1.{} \\\n    --hash=sha256:00\n"
    first: tuple[str, bool, tuple[str, ...]] = ("3.11", False, ("asv_runner",))
    for python, sdists, more in (first, ("3.12", *first[1:]), ("3.11", True, first[2]), ("3.11", False, ()), first):
        line = f"numpy>={len(resolver.requests)}"  # of a commit with other requirements
        lock((line, *more), tmp_path, sdists=sdists, python=python, similar=("beside", "toy", more))
    assert resolver.preferred() == ["", "", "", "", "numpy==1.1"]


def test_the_answer_before_is_preferred_even_from_the_cache(tmp_path: Path, resolver: Resolver) -> None:
    """A treatment keeps what its control has, whatever another branch resolved meanwhile."""
    resolver.answer = "{line} \\\n    --hash=sha256:00\n"
    for version in ("1", "2", "1", "3"):  # control, another branch, the control once more, its treatment
        lock((f"numpy=={version}",), tmp_path, similar=("beside", "toy", ()))
    assert resolver.preferred() == ["", "numpy==1", "numpy==1"]


@pytest.mark.wheels
def test_a_package_without_a_wheel_is_built_where_that_is_allowed(tmp_path: Path) -> None:
    cache, python = BuildCache(tmp_path), get_framework("python")
    with pytest.raises(UsageError, match=r"docopt==0.6.2 can't be resolved: .*, or add --allow_sdist$"):
        resolve_build("docopt==0.6.2", python, cache)
    build = resolve_build("docopt==0.6.2", python, cache, sdists=True)
    assert build.packages == {"docopt": "0.6.2"}


@pytest.mark.wheels
def test_uv_keeps_earlier_versions_where_it_can(tmp_path: Path) -> None:
    for line, version in (("==24.0", "24.0"), (">=23", "24.0"), (">=24.2,<25", "24.2"), (">=24", "24.2")):
        recipe = lock((f"packaging{line}",), tmp_path, similar=("beside", "packaging", ()))
        assert recipe.pins == {"packaging": version}


def test_what_can_not_be_met_is_the_suites_only_where_the_rest_can() -> None:
    recipe = LockedRecipe(("sympy",), "3.11", "sympy==1.12")

    def lock_unless(*unmet: str) -> Callable[[Sequence[str]], LockedRecipe]:
        def lock_with(suite: Sequence[str]) -> LockedRecipe:
            if wrong := next((line for line in ("sympy", *suite) if line in unmet), None):
                raise UnresolvableError("sympy", f"Because {wrong} has no usable wheels", ", or add --allow_sdist")
            return recipe

        return lock_with

    suite = ("fastcache==1", "mpmath")
    assert lock_with_suite(suite, lock_unless()) is recipe
    with pytest.raises(
        UsageError,
        match=r"^--suite: fastcache==1 mpmath, which its project or --suite_packages lists, can't be resolved: .*"
        r": leave packages out with --suite_packages, or name other versions there, or add --allow",
    ):
        lock_with_suite(suite, lock_unless("fastcache==1"))
    for unmet in (("sympy",), ("sympy", "mpmath")):
        with pytest.raises(UsageError, match=r"^sympy can't be resolved: .*: correct the requirements, or add --allow"):
            lock_with_suite(suite, lock_unless(*unmet))
    with pytest.raises(UsageError, match=r"^sympy can't be resolved"):
        lock_with_suite((), lock_unless("sympy"))
