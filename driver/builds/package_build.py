"""Build a commit of a Python package in an environment of its own: its wheel, or its code over another build."""

import os
import re
import shutil
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from packaging.metadata import parse_email
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from opduel.driver.builds.cache import BuildCache
from opduel.driver.builds.environment_build import checked_facts, lay, manifest_of, named_after, site_packages
from opduel.driver.builds.interpreters import find_interpreter
from opduel.driver.builds.manifest import Manifest, PackagePart, UnusableBuild, read_manifest
from opduel.driver.builds.probe import TIMEOUT_S
from opduel.driver.builds.process import run
from opduel.driver.builds.recipes import PackageRecipe
from opduel.driver.builds.requirements import lock as lock_requirements
from opduel.driver.builds.requirements import lock_with_suite
from opduel.driver.builds.uv import FreshEnvironment, UnresolvableError
from opduel.driver.suites.commands import WHEEL_EXTRAS
from opduel.frameworks import Framework, worker_environment
from opduel.records import BrokenBuildError, Build, Commit, RunError
from opduel.support.digests import file_digest

_DIST_INFO = ".dist-info"
# Of a build, relative to it: what is its own, or was made with its environment, and is not a package's.
_OF_ENVIRONMENTS = re.compile(
    r"manifest\.json|\.used|\.lock|\.gitignore|CACHEDIR\.TAG|requirements\.txt|pyvenv\.cfg"
    r"|bin/(python[0-9.]*|(de)?activate([._].*)?|pydoc\.bat)"
)


@dataclass(frozen=True)
class Donor:
    """A build with the same native sources, and the Python files to change in it: path below ``site-packages`` ->
    content, None for a removed one."""

    place: Path
    files: Mapping[str, bytes | None]


@dataclass(frozen=True)
class BuiltWheel:
    """A wheel, and ``built_by`` of its part of the manifest."""

    path: Path
    built_by: str = ""


def package_build(
    commit: Commit,
    recipe: PackageRecipe,
    framework: Framework,
    cache: BuildCache,
    source: Callable[[], Donor | BuiltWheel],
) -> Build:
    """Return the commit's build, from the cache or made now; ``source`` is called only if it is made. Raise RunError if
    it can't be built, or what was made does not import."""

    def make(directory: Path, lock: int) -> Manifest:
        environment = FreshEnvironment(directory, find_interpreter(recipe.python), lock)
        base = source()
        if isinstance(base, Donor):
            part, strategy = overlay(commit, base, directory), "overlay"
        else:
            part, strategy = _install(commit, recipe, base, environment, framework, cache), "source"
        request = f"{part.distribution} at {commit.short}"
        facts = checked_facts(environment, request, {}, framework)
        _import(environment, part.imports, request, framework)
        version = facts.packages.get(canonicalize_name(part.distribution), "unknown")
        return manifest_of(
            environment,
            facts,
            framework=framework.name,
            requested=commit.id,
            strategy=strategy,
            version=f"{part.distribution} {version}",
            digest=facts.digest(files=_content(site_packages(directory))),
            details={**facts.details, **({"built by": part.built_by} if part.built_by else {})},
            recipe=recipe,
            source=part,
        )

    return named_after(commit, cache.find_or_make(framework.name, recipe, make))


def _install(
    commit: Commit,
    recipe: PackageRecipe,
    wheel: BuiltWheel,
    environment: FreshEnvironment,
    framework: Framework,
    cache: BuildCache,
) -> PackagePart:
    """Install the wheel and its requirements into the environment; return the part for the manifest."""
    variables = dict(text.split("=", 1) for text in recipe.variables)
    extras = [extra for extra in variables.get(WHEEL_EXTRAS, "").split(",") if extra]
    name, needed = _metadata(wheel.path, extras, recipe.python)
    place = cache.folder(framework.name)
    of_suite = [line for line in recipe.beside if line in framework.builds.suite_required]
    own = [line for line in recipe.beside if line not in of_suite]
    try:
        beside = lock_with_suite(
            of_suite,
            lambda suite: lock_requirements(
                [*needed, *own, *suite],
                place,
                sdists=recipe.sdists,
                python=recipe.python,
                similar=("beside", recipe.project, recipe.beside),
                without=name,
            ),
        )
    except UnresolvableError as error:
        lock_requirements(own, place, sdists=recipe.sdists, python=recipe.python)  # UsageError: the user's alone
        raise BrokenBuildError(f"what {name} needs: {error}") from None
    if beside.pins:
        environment.install_locked(f"what {name} needs", beside.locked, recipe.sdists)
    environment.install_wheel(wheel.path)
    return PackagePart(
        commit=commit.id,
        distribution=name,
        imports=_imports(wheel.path, name),
        locked=beside.locked,
        built_by=wheel.built_by,
    )


def overlay(commit: Commit, donor: Donor, directory: Path) -> PackagePart:
    """Make the donor's packages in ``directory``, with the commit's own Python files. Raise RunError if the donor is
    gone or damaged."""
    try:
        lay_over(donor, directory)
        source = read_manifest(donor.place).source  # last: it is whole if its manifest is still there
    except (UnusableBuild, FileNotFoundError) as why:
        raise RunError(
            f"{donor.place}: was removed from the build cache while {commit.short} was being laid over it ({why}): "
            "try again"
        ) from None
    assert source is not None, "donors are builds of packages"
    return source.model_copy(update={"commit": commit.id})


def lay_over(donor: Donor, directory: Path) -> None:
    """Hard-link all packages of the donor into the fresh environment ``directory``, and write the donor's ``files``.

    Bytecode is left out, and so are the environment's own files outside ``site-packages``. Scripts of packages name no
    folder, as environments are relocatable. RunError: the donor or the directory is no environment; OSError: a file
    can't be read or written.
    """
    theirs, ours = site_packages(donor.place), site_packages(directory)
    for folder, folders, names in os.walk(donor.place):  # not into links to folders: lib64
        folders[:] = [folder_name for folder_name in folders if folder_name != "__pycache__"]
        for path in (Path(folder, name) for name in names):
            relative = path.relative_to(donor.place)
            place = directory / relative
            if path.is_relative_to(theirs):
                if str(path.relative_to(theirs)) not in donor.files:
                    lay(path, place)
            elif not (_OF_ENVIRONMENTS.fullmatch(str(relative)) or os.path.lexists(place)):
                lay(path, place)
    for name, content in donor.files.items():
        if content is not None:
            place = ours / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
            if (theirs / name).exists():
                shutil.copymode(theirs / name, place)


def _content(site: Path) -> dict[str, str]:
    """Return the SHA-256 of every file of the packages, without bytecode and metadata."""
    files = (path for path in site.rglob("*") if path.is_file())
    relative = {path.relative_to(site): path for path in files}
    return {
        str(name): file_digest(path)
        for name, path in relative.items()
        if "__pycache__" not in name.parts and not name.parts[0].endswith(_DIST_INFO)
    }


def _import(environment: FreshEnvironment, names: Sequence[str], request: str, framework: Framework) -> None:
    """Raise BrokenBuildError if one of the package's modules can't be imported."""
    command = [str(environment.interpreter), "-c", "".join(f"import {name}\n" for name in names)]
    variables = {**worker_environment(), **framework.environment(1)}
    elsewhere = Path(os.sep)  # in a checkout its own package would be imported
    outcome = run(
        command, timeout=TIMEOUT_S, whole_environment=variables, directory=elsewhere, inherit=(environment.lock,)
    )
    if not outcome.ok:
        raise BrokenBuildError(f"{request} was built, but can't be imported: {outcome.output_tail}")


def _metadata(wheel: Path, extras: Sequence[str], python: str) -> tuple[str, list[str]]:
    """Return the package's name, and its requirements with those of the extras, and of extras of its own that these
    name. Raise BrokenBuildError if it isn't a wheel."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            (path,) = [path for path in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", path)]
            metadata, _ = parse_email(archive.read(path))
            name = metadata["name"]
    except (ValueError, KeyError, OSError, zipfile.BadZipFile):
        raise BrokenBuildError(f"{wheel.name}: what was built is not a wheel") from None
    chosen = list(extras)
    versions = {"python_version": python, "python_full_version": f"{python}.0"}
    requirements = []
    for line in metadata.get("requires_dist", []):
        with suppress(InvalidRequirement):
            requirements.append(Requirement(line))
    of_extras = [requirement for requirement in requirements if "extra" in str(requirement.marker or "")]
    needed = [str(requirement) for requirement in requirements if requirement not in of_extras]
    for extra in chosen:  # which grows
        for requirement in of_extras:
            if requirement.marker and requirement.marker.evaluate({"extra": extra, **versions}):
                if canonicalize_name(requirement.name) == canonicalize_name(name):
                    chosen += sorted(requirement.extras - {*chosen})
                else:
                    needed.append(str(requirement).partition(";")[0].strip())
    return name, needed


def _imports(wheel: Path, name: str) -> list[str]:
    """Return the top-level modules of a wheel to import as a check: the one with the package's name, or all."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    modules = {path.split("/")[0] for path in names if path.endswith("/__init__.py") and path.count("/") == 1}
    modules |= {match[1] for path in names if (match := re.fullmatch(r"(\w+)(\.[\w-]+)?\.(py|so)", path))}
    modules = {module for module in modules if module.isidentifier()}
    usual = canonicalize_name(name).replace("-", "_")
    public = sorted(module for module in modules if not module.startswith("_"))
    return [usual] if usual in modules else public


def find_wheel(folder: Path) -> Path:
    """Return the only wheel in a folder. Raise BrokenBuildError if there is none, or several."""
    wheels = list(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise BrokenBuildError(f"the build left {len(wheels)} wheels instead of one")
    return wheels[0]
