"""--prior_runs: reports of earlier runs, from a folder or a results server."""

import http
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import quote, urlencode, urlsplit

from opduel.commands.config import with_stored_token
from opduel.commands.entry import log
from opduel.commands.harness_options import HarnessOptions
from opduel.frameworks import Framework
from opduel.harness.machine.host import host_fingerprint
from opduel.harness.prior_runs import PriorRuns, Setting, learn
from opduel.records import Report, UsageError
from opduel.reporters import read_report
from opduel.reporters.document import REPORT_NAME, from_text
from opduel.reporters.http_request import Limits, RequestFailedError, send
from opduel.reporters.remote.place import is_open, origin, parse_place
from opduel.reporters.remote.token import Token, find_token
from opduel.reporters.text import short_line
from opduel.support.atomic import user_path
from opduel.support.files import LONGEST_REPORT, UnreadableError, parse_json
from opduel.support.redaction import without_user
from opduel.support.text import counted

MOST_REPORTS = 50  # the newest: what a case cost a year ago says little
LIMITS = Limits(silence_s=30.0, whole_s=120.0, longest=LONGEST_REPORT)
LONGEST_SHOWN = 200  # characters of somebody else's text
_SERVER = ("http://", "https://")
_FIX = "give a folder with reports of earlier runs, or the address of a results server"
_FIXES = {
    401: "give a token that may read (--remote_access_token_file)",
    403: "give a token that may read (--remote_access_token_file)",
    404: "is there a results server at this address?",
}


def is_server(place: str | None) -> bool:
    """Whether the option's value is the address of a server."""
    return place is not None and place.lower().startswith(_SERVER)


def read_prior_runs(options: HarnessOptions, framework: Framework, config: Mapping[str, str]) -> PriorRuns | None:
    """What the runs at ``--prior_runs`` say of cases on this host; None without the option. UsageError: there are no
    reports there, one can't be read, or a server doesn't give them."""
    place: str | None = options.prior_runs
    if place is None:
        return None
    setting = Setting(framework.name, options.threads, bool(options.wipe_cache), host_fingerprint())
    if is_server(place):
        server = _Server(_address(place), _token(place, options, config))
        prior_runs = learn(server.reports(None if framework.has_own_sides else framework.name), setting)
    else:
        prior_runs = learn(_in_folder(user_path(place, "--prior_runs")), setting)
    log.info("--prior_runs: %s of this host, framework and setting", counted(prior_runs.reports, "report"))
    if prior_runs.skipped:
        count = counted(prior_runs.skipped, "report")
        log.info("--prior_runs: %s skipped, of another host, framework or setting", count)
    return prior_runs


def _in_folder(folder: Path) -> Iterator[Report]:
    """The newest reports below the folder."""
    if not os.path.isdir(folder):  # Path.is_dir raises where a name is too long
        raise UsageError(f"--prior_runs {folder}: is not a folder: {_FIX}")
    try:
        paths = sorted(folder.rglob(REPORT_NAME), key=lambda path: path.stat().st_mtime, reverse=True)
    except OSError as error:
        raise UsageError(f"--prior_runs {folder}: {error.strerror}: {_FIX}") from None
    for path in paths[:MOST_REPORTS]:
        try:
            yield read_report(path)
        except UsageError as error:
            raise UsageError(f"--prior_runs: {error}, or remove it from the folder") from None


def _address(place: str) -> str:
    """The server's address, without a slash at its end; UsageError: it is none, or holds a password."""
    try:
        parts = urlsplit(place)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host or not place.isprintable() or any(sign in place for sign in "@?# "):
        quoted = short_line(without_user(place), LONGEST_SHOWN)
        raise UsageError(f"--prior_runs {quoted}: is no address of a server: write http(s)://host[:port]")
    return place.rstrip("/")


def _token(place: str, options: HarnessOptions, config: Mapping[str, str]) -> Token | None:
    """The token that reports are sent to this server with; where none are sent, the one of the command line, and not
    the environment's or the config's, which nobody gave for this server. UsageError: it is none."""
    receivers = [parse_place(text).endpoint for text in options.reporting.remote_reporter]
    if receivers and origin(place) not in map(origin, receivers):
        return None
    reporting = with_stored_token(options.reporting, config) if receivers else options.reporting
    environment = os.environ if receivers else {}
    token = find_token(reporting.remote_access_token, reporting.remote_access_token_file, environment)
    if token is not None and is_open(place):
        log.warning("--prior_runs %s: without https, anybody on the network path can read the token", place)
    return token


class _Server:
    """A results server, asked for reports. Every method raises UsageError: it doesn't give them."""

    def __init__(self, address: str, token: Token | None) -> None:
        self._address, self._token = address, token

    def reports(self, framework: str | None) -> Iterator[Report]:
        """The newest runs of the framework; of all, where it is None."""
        query = {"limit": MOST_REPORTS} | ({"framework": framework} if framework else {})
        try:
            listed = parse_json(self._get(f"/api/v1/runs?{urlencode(query)}"))
            run_ids = [str(run["run_id"]) for run in listed["runs"]]
        except (UnreadableError, LookupError, TypeError):
            raise self._error("its answer is not from a results server: correct the address") from None
        for run_id in run_ids:
            content = self._get(f"/api/v1/runs/{quote(run_id, safe='')}/report")
            try:
                yield from_text(content)
            except UsageError as error:
                raise self._error(f"run {short_line(run_id, LONGEST_SHOWN)}: {error}") from None

    def _get(self, path: str) -> str:
        headers = {"Accept": "application/json", "User-Agent": "opduel"}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token.text}"
        try:
            reply = send("GET", f"{self._address}{path}", None, headers, LIMITS)
        except RequestFailedError as error:
            raise self._error(f"{error}: is it running, and is the address right?") from None
        if reply.status != http.HTTPStatus.OK:
            fix = _FIXES.get(reply.status, "correct the address, or look at the server's log")
            raise self._error(f"it says {reply.status}: {fix}")
        return reply.text or ""

    def _error(self, words: str) -> UsageError:
        text = f"--prior_runs {self._address}: {words}"
        return UsageError(self._token.hide(text) if self._token else text)
