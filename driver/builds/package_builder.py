"""Build commits of any Python package: by the package's own build backend, or as an overlay."""

import logging
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path, PurePosixPath

from opduel.driver.builds import uv
from opduel.driver.builds.builder import Builder
from opduel.driver.builds.compiler import Compiler, toolchain_of
from opduel.driver.builds.environment_build import release_build, site_packages
from opduel.driver.builds.framework_data import load_platform
from opduel.driver.builds.manifest import Manifest, UnusableBuild, read_manifest
from opduel.driver.builds.package_build import BuiltWheel, Donor, find_wheel, package_build
from opduel.driver.builds.package_sources import (
    NotInstalledError,
    Project,
    Rules,
    Sources,
    installed_path,
    load_rules,
    read_project,
    sources_of,
)
from opduel.driver.builds.process import clean_environment
from opduel.driver.builds.recipes import LockedRecipe, PackageRecipe, package_of
from opduel.driver.builds.requirements import lock, python_of, with_packages
from opduel.driver.code_difference import CodeDifference, compare_changed
from opduel.driver.suites.commands import BUILD_COMMANDS, BUILT_WITH
from opduel.records import BrokenBuildError, Build, Commit, OpduelError, RunError, UsageError
from opduel.support.digests import data_digest, file_digest
from opduel.support.project_file import PROJECT_FILE, name_in_setup_cfg
from opduel.support.redaction import is_secret_name

_COMMAND = "build_command"  # of asv.conf.json, in messages
DATA = "packages"  # the folder of rules and build scripts, beside those of frameworks
_OTHER_PYTHONS = ("3.12", "3.13", "3.14", "3.10", "3.9")  # of packages that don't run on the one that runs this

log = logging.getLogger(__name__)


class PackageBuilder(Builder):
    """Builds commits of one package's repository.

    A commit is compiled, unless its native sources equal those of a build in the cache that was compiled in the same
    way: then its Python code is laid over that build, which gives the same files.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self._data = self._framework.frameworks_dir / DATA
        self._platform = load_platform(self._data, self._settings.platform)
        self._place = self._cache.folder(self._framework.name)
        self._facts_by_id: dict[str, tuple[Project, Rules, Sources]] = {}
        self._by_tools: dict[str, Compiler] = {}
        self._tools_by_project: dict[tuple[Project, str], LockedRecipe] = {}
        self._maker: tuple[str, str] | None = None  # what built the first of all commits, if a suite has build_command

    def strategy(self, commits: Sequence[Commit]) -> str:
        """Return how these are built: "source" compiles all that have no build, "auto" only those without a donor.
        Raise UsageError if what was asked for does not serve; it names the commit."""
        requested = self._settings.strategy
        if requested == "release":
            raise UsageError(f"--build release: {self._framework.name} has no releases of commits: use --build auto")
        if requested == "overlay":
            uncached = next((commit for commit in commits if not self.is_cached(commit, "auto")), None)
            if uncached is not None:
                raise UsageError(
                    f"--build overlay: {uncached.short} ({uncached.subject}) has native sources unlike those of every "
                    "cached build: use --build auto"
                )
        return "source" if requested == "source" else "auto"

    def build(self, commit: Commit, strategy: str, processors: frozenset[int] | None = None) -> Build:
        recipe = self._recipe(commit)
        leftover = self._work / "wheels" / commit.short

        def source() -> Donor | BuiltWheel:
            donor = None if strategy == "source" else self._donor(commit, recipe)
            if donor is not None:
                log.info("%s: its Python code over the build %s", commit.short, donor.place.name)
            return donor or self._wheel(commit, recipe, leftover, processors)

        try:
            build = package_build(commit, recipe, self._framework, self._cache, source)
        finally:
            shutil.rmtree(leftover, ignore_errors=True)
        if built_by := build.details.get("built by"):
            self._maker = self._maker or (built_by, commit.short)
            if built_by != self._maker[0]:
                raise RunError(
                    f"{commit.short} was built by {built_by}, {self._maker[1]} by {self._maker[0]}, so that they may "
                    f"differ by more than their code: give asv.conf.json a build_command that builds both, or none"
                )
        return build

    def compile_key(self, commit: Commit, strategy: str) -> str | None:
        recipe = self._recipe(commit)
        if self._cache.find(self._framework.name, recipe) is not None:
            return None
        if strategy == "source":
            return recipe.key
        return None if self._donor(commit, recipe) else recipe.native

    def difference(self, build: Build, commit: Commit) -> CodeDifference | None:
        place = Path(str(build.directory))
        try:
            donor = self._as_donor(place, read_manifest(place), commit, self._recipe(commit))
        except (OpduelError, UnusableBuild):  # what can't be built is said when its turn comes
            return None
        return None if donor is None else compare_changed(site_packages(place), donor.files)

    def _recipe(self, commit: Commit) -> PackageRecipe:
        """Return the recipe, which has all that decides the commit's build."""
        project, rules, sources = self._facts(commit)
        named = python_of(self._settings.beside)
        usual = ["{}.{}".format(*sys.version_info), *_OTHER_PYTHONS]
        python = named or next((version for version in usual if project.allows(version)), usual[0])
        if not project.allows(python):
            needed = project.requires_python
            raise BrokenBuildError(
                f"{project.name} at {commit.short} needs Python {needed}, not {python}: choose another one, such as "
                "python==3.12, in quotes behind the commit's name, or with --with_packages"
            )
        return PackageRecipe(
            project=project.name,
            native=sources.native,
            code=sources.code,
            python=python,
            backend=project.backend,
            toolchain=self._toolchain,
            script=file_digest(self._platform.script)[:20],
            flags=(*rules.settings, *self._settings.flags),
            built_with=self._built_with(project, rules, python).locked,
            beside=self._beside,
            sdists=self._settings.sdists,
            subfolder=self._settings.subfolder,
            variables=tuple(f"{name}={value}" for name, value in sorted(self._variables(project).items())),
        )

    def _variables(self, project: Project) -> dict[str, str]:
        """Return the environment variables that decide what is built: those of the settings, and the user's whose names
        begin with the project's, such as ``YARL_NO_EXTENSIONS``. Of these and of commands, which may hold a password,
        a digest stands for the value, and secrets don't count."""
        prefix = f"{project.name.upper().replace('-', '_')}_"
        environment = clean_environment()
        own = {
            name: value for name, value in environment.items() if name.startswith(prefix) and not is_secret_name(name)
        }
        variables = {**own, **self._settings.variables}
        digests = {name: data_digest(value)[:12] for name, value in variables.items() if name in {*own, BUILD_COMMANDS}}
        return {**variables, **digests}

    @property
    def _beside(self) -> tuple[str, ...]:
        """What every build gets besides what it needs: what was asked for, and what the framework's adaptor needs."""
        builds = self._framework.builds
        return with_packages(tuple(self._settings.beside), (*builds.also_required, *builds.suite_required))

    def _facts(self, commit: Commit) -> tuple[Project, Rules, Sources]:
        if commit.id not in self._facts_by_id:
            subfolder = self._settings.subfolder
            content = self._repository.content(commit, str(PurePosixPath(subfolder, PROJECT_FILE)))
            listing = self._repository.listing(commit)
            if subfolder and not any(path.startswith(f"{subfolder}/") for path in listing):
                raise BrokenBuildError(f"it has no folder {subfolder}")
            url = self._repository.git.access.url or ""
            setup_cfg = self._repository.content(commit, str(PurePosixPath(subfolder, "setup.cfg")))
            folder = Path(subfolder or url.rstrip("/")).name.removesuffix(".git")
            try:
                project = read_project(content, name_in_setup_cfg(setup_cfg) or folder or "package")
            except UsageError as error:  # it is at fault, like one that doesn't compile
                raise BrokenBuildError(f"{subfolder and f'{subfolder}/'}{error}") from None
            rules = load_rules(self._data, project.name)
            sources = sources_of(listing, rules, subfolder)
            self._facts_by_id[commit.id] = (project, rules, sources)
        return self._facts_by_id[commit.id]

    def _built_with(self, project: Project, rules: Rules, python: str) -> LockedRecipe:
        """Return the environment in which commits with these requirements are built, with equal versions if it can."""
        further = (*rules.backends.get(project.backend, ()), *rules.build_requires)
        if BUILD_COMMANDS not in self._settings.variables:
            return self._locked(project, further, python)
        if (project, python) not in self._tools_by_project:
            suite = self._framework.builds.suite_required  # asv's environment has them when it builds
            try:
                tools = self._locked(project, (*further, *with_packages(suite, BUILT_WITH)), python)
            except BrokenBuildError:
                tools = self._locked(project, (*further, *BUILT_WITH), python)
                names = ", ".join(map(package_of, suite))
                log.warning(
                    "build_command runs without the suite's packages (%s): they don't fit what builds the project",
                    names,
                )
            self._tools_by_project[project, python] = tools
        return self._tools_by_project[project, python]

    def _locked(self, project: Project, further: Sequence[str], python: str) -> LockedRecipe:
        sdists = self._settings.sdists
        similar = ("built-with", project.name, further)
        try:
            return lock((*project.requires, *further), self._place, sdists=sdists, python=python, similar=similar)
        except UsageError as error:  # they are the commit's own
            raise BrokenBuildError(f"{PROJECT_FILE}: build-system.requires: {error}") from None

    def _donor(self, commit: Commit, recipe: PackageRecipe) -> Donor | None:
        """Return a build with the commit's native sources, into which its Python code can be put; or None."""
        builds = self._cache.builds_of_commits(self._framework.name)
        donors = (self._as_donor(place, manifest, commit, recipe) for place, manifest in builds)
        return next((donor for donor in donors if donor is not None), None)

    def _as_donor(self, place: Path, manifest: Manifest, commit: Commit, recipe: PackageRecipe) -> Donor | None:
        """Return the build at ``place`` as a donor for the commit; None if it can't be."""
        source, theirs = manifest.source, manifest.recipe
        if source is None or not isinstance(theirs, PackageRecipe) or replace(theirs, code=recipe.code) != recipe:
            return None
        files = self._differing_files(commit, source.commit, place)
        return None if files is None else Donor(place, files)

    def _differing_files(self, commit: Commit, other_id: str, place: Path) -> dict[str, bytes | None] | None:
        """Return the Python files that differ from those of another commit, whose build is at ``place``: path there
        -> content, None for a removed one. Return None if one isn't installed unchanged."""
        try:
            other = self._facts(self._repository.commit(other_id))[2]
        except UsageError:
            return None  # of another repository
        ours, site = self._facts(commit)[2], site_packages(place)
        contents: dict[str, bytes | None] = {}
        for path in ours.differing(other):
            try:
                name = installed_path(path, other, site)
            except NotInstalledError:
                log.debug("%s: %s is not installed unchanged: no overlay", commit.short, path)
                return None
            if name is not None:
                contents[name] = (self._repository.content(commit, path) or b"") if path in ours.files else None
        return contents

    def _wheel(
        self,
        commit: Commit,
        recipe: PackageRecipe,
        destination: Path,
        processors: frozenset[int] | None,
        by_command: bool = True,
    ) -> BuiltWheel:
        """Build the commit's wheel in ``destination``: by the suite's build_command, if it has one and ``by_command``.
        If that fails for the first of all commits, the build backend builds this one and all others, so that both sides
        are built alike; a later one that it fails for can't be built."""
        variables = dict(self._settings.variables)
        if not by_command or (self._maker and self._maker[0] != _COMMAND):
            variables.pop(BUILD_COMMANDS, None)
        by = _COMMAND if BUILD_COMMANDS in variables else recipe.backend
        compiler = self._compiler(commit, recipe, variables)
        try:
            seconds = self._compile(compiler, commit, destination, processors, by)
        except BrokenBuildError as error:
            if by != _COMMAND:
                raise BrokenBuildError(f"{recipe.project}: {error}") from None
            if self._maker:
                raise BrokenBuildError(f"build_command, which built {self._maker[1]}, failed: {error}") from None
            by = f"the package's own build backend, {recipe.backend}, builds it and later commits instead"
            log.warning("build_command failed for %s (%s): %s", commit.short, error, by)
            return self._wheel(commit, recipe, destination, processors, by_command=False)
        built_by = by if BUILD_COMMANDS in self._settings.variables else ""
        wheel = BuiltWheel(find_wheel(destination), built_by)
        log.info("built %s in %.0f s", wheel.path.name, seconds)
        return wheel

    def _compiler(self, commit: Commit, recipe: PackageRecipe, variables: Mapping[str, str]) -> Compiler:
        """Return the compiler for all commits that are built with the same tools, in a folder of their own."""
        project, rules, _ = self._facts(commit)
        locked = self._built_with(project, rules, recipe.python)
        environment = release_build(f"what {project.name} is built with", locked, self._framework, self._cache)
        backend_path = ":".join(project.backend_path)
        tools = " ".join(
            [locked.key, recipe.backend, *recipe.variables, *filter(None, [backend_path, recipe.subfolder])]
        )
        tools += " by the backend" if variables != self._settings.variables else ""
        name = f"{project.name}-{sha256(tools.encode()).hexdigest()[:8]}"
        if name not in self._by_tools:
            self._by_tools[name] = Compiler(
                self._work / self._platform.name / name,
                self._platform,
                recipe.flags,
                self._checkout,
                self._stopped,
                {
                    **variables,
                    "BUILD_PYTHON": environment.interpreter,
                    "BUILD_BACKEND": recipe.backend,
                    "BUILD_BACKEND_PATH": backend_path,
                    "UV": uv.executable(),
                },
                self._settings.subfolder,
            )
        return self._by_tools[name]

    def _checkout(self, commit: Commit, folder: Path) -> None:
        """Check out the commit with those submodules that matter for builds."""
        rules = self._facts(commit)[1]
        listing = self._repository.listing(commit)
        modules = [path for path, entry in listing.items() if " commit " in entry and not rules.is_ignored(f"{path}/")]
        self._repository.checkout(commit, folder, (), modules)

    @cached_property
    def _toolchain(self) -> tuple[str, ...]:
        return toolchain_of(self._platform)
