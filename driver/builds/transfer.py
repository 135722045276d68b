"""Copy builds of commits to other hosts: pack them where they were compiled, and unpack them into another build
cache."""

import os
import re
import tarfile
from collections.abc import Sequence
from pathlib import Path

from opduel.driver.builds.cache import BuildCache
from opduel.driver.builds.interpreters import find_interpreter
from opduel.driver.builds.manifest import FILE_NAME, Manifest, UnusableBuild, read_manifest
from opduel.driver.builds.recipes import ProgramRecipe
from opduel.driver.lock import explained_disk_errors
from opduel.records import Build, RunError
from opduel.support.text import one_line


def build_at(directory: str | None, digest: str) -> Build | None:
    """Return the build in that folder, if it is complete and has that digest."""
    if directory is None:
        return None
    try:
        manifest = read_manifest(Path(directory))
    except UnusableBuild:
        return None
    return manifest.build(Path(directory)) if manifest.digest == digest else None


def pack(build: Build, archive: Path) -> None:
    """Write the build's folder to ``archive``, a tar file. Raise RunError if the build lies in no cache, or a file
    can't be read or written."""
    if build.directory is None:
        raise RunError(f"{build.requested}: lies in no build cache, so that it cannot be copied to other hosts")
    folder = Path(build.directory)
    with explained_disk_errors(folder, "make it readable"):
        names = sorted(path.name for path in folder.iterdir() if path.name != FILE_NAME)
    pack_files(folder, [FILE_NAME, *names], archive)  # the first says what the rest is


def pack_files(folder: Path, names: Sequence[str], archive: Path, dereference: bool = False) -> None:
    """Write what the folder has of these names to ``archive``, a tar file. ``dereference``: files in place of links.
    Raise RunError if a file can't be read or written."""
    with (
        explained_disk_errors(archive, "name another folder in TMPDIR"),
        tarfile.open(archive, "w", format=tarfile.PAX_FORMAT, dereference=dereference) as tar,
    ):
        for name in names:
            tar.add(folder / name, name)


def unpack(archive: Path, framework: str, digest: str, cache: BuildCache) -> Build:
    """Put the build in ``archive`` into the cache, unless it is there already, and return it.

    Its environment belongs to a Python of the host that made it, and gets this host's of the same version. RunError:
    the archive is damaged or holds another build, there is no such Python here, the cache can't be written.
    """
    try:
        with tarfile.open(archive) as tar:
            manifest_file = tar.extractfile(FILE_NAME)
            manifest = Manifest.model_validate_json(manifest_file.read() if manifest_file else b"")

            def make(place: Path, _: int) -> Manifest:
                tar.extractall(place, filter=_links_as_they_are)
                _settle(place, manifest)
                return manifest

            if manifest.digest != digest:
                raise RunError(f"{archive}: holds the build {manifest.digest[:12]}, not {digest[:12]}")
            build = cache.find_or_make(framework, manifest.recipe, make)
    except (tarfile.TarError, KeyError, ValueError) as error:
        raise RunError(f"{archive}: is damaged ({one_line(str(error))}): start the run again") from None
    if build.digest != digest:
        raise RunError(f"{build.directory}: is another build of the same recipe: remove it, and start the run again")
    return build


def _links_as_they_are(member: tarfile.TarInfo, place: str) -> tarfile.TarInfo:
    """Accept files within the folder, and any link, since links may lead to the host's Python. Raise
    tarfile.FilterError for other files."""
    return member if member.issym() else tarfile.tar_filter(member, place)


def _settle(place: Path, manifest: Manifest) -> None:
    """Make the environment one of this host's Python. RunError: there is none of that version."""
    if isinstance(manifest.recipe, ProgramRecipe):
        return
    interpreter = place / manifest.interpreter
    configuration = place / "pyvenv.cfg"
    if not configuration.is_file() or interpreter.exists():
        return
    minor = ".".join(manifest.python.split(".")[:2])
    own = find_interpreter(minor)
    for link in interpreter.parent.iterdir():
        if link.is_symlink() and not link.exists() and os.path.isabs(os.readlink(link)):
            link.unlink()
            link.symlink_to(own)
    text = configuration.read_text(encoding="utf-8")
    configuration.write_text(re.sub(r"(?m)^home = .*$", f"home = {own.parent}", text), encoding="utf-8")
