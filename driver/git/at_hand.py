"""Repositories that a command reads for a moment: a checkout's, whose objects are borrowed, or a clone that is kept."""

import hashlib
import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from opduel.driver.git.access import is_url
from opduel.driver.git.repository import Repository, open_repository
from opduel.driver.lock import sole_driver
from opduel.records import UsageError
from opduel.support.atomic import path_part
from opduel.support.redaction import bare_address, redact

log = logging.getLogger(__name__)


@contextmanager
def repository_at(place: str, name: str | None, cache: Path) -> Iterator[Repository]:
    """Yield the repository at a folder or an address, up to date unless it has the commit of the full id ``name``.

    Ours lies in a folder of its own below ``cache``, which no other process uses meanwhile; a folder's objects are
    borrowed, an address is cloned once. UsageError, RunError: as `open_repository`, and `Repository.fetch`.
    """
    place = place if is_url(place) else os.path.realpath(os.path.expanduser(place))
    work = cache / f"{path_part(bare_address(place))[-40:]}-{hashlib.sha256(os.fsencode(place)).hexdigest()[:12]}"
    with sole_driver(work, waits=True):
        if not is_url(place):
            yield open_repository(work, None, Path(place))
            return
        is_new = not (work / "repository.git").exists()
        if is_new:
            log.info("cloning %s, once, into %s", redact(place), work)
        repository = open_repository(work, place)
        is_full_id = name is not None and re.fullmatch("[0-9a-f]{40}", name) is not None
        if not is_new and not (is_full_id and _has(repository, str(name))):
            repository.fetch()
        yield repository


@contextmanager
def errors_about(label: str) -> Iterator[None]:
    """Within it, a UsageError begins with ``label`` in place of an option that the user's command may not have."""
    try:
        yield
    except UsageError as error:
        why = re.sub(r"^--\w+:? (\S+: )?", "", str(error))
        raise UsageError(f"{label}: {why}") from None


def _has(repository: Repository, name: str) -> bool:
    try:
        return bool(repository.resolve(name))
    except UsageError:
        return False
