"""run_bench.py --flush and --send: what waits in the spool is sent, or reports that are on disk."""

import os
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import closing
from pathlib import Path

from opduel.commands.config import StoredAnswers, with_stored_token
from opduel.commands.entry import DONE, INCOMPLETE, log
from opduel.driver.journal import NOTICE, RUN, Journal
from opduel.records import RunError, UsageError
from opduel.reporters import read_report
from opduel.reporters.options import ReporterOptions
from opduel.reporters.remote import RemoteReporter
from opduel.reporters.remote.delivery import Sender
from opduel.reporters.remote.place import Place, origin, parse_place
from opduel.reporters.remote.reporter import sender_from, warn_of_open_token
from opduel.reporters.remote.spool import REPORT, endpoint_of, place_of
from opduel.reporters.stream import print_result
from opduel.reporters.text import escaped
from opduel.support.atomic import user_path
from opduel.support.outbox import Delivery, Entry

COLUMNS = ("state", "run", "category", "endpoint", "what", "entry")


def flush(reporting: ReporterOptions, work_dir: str | None, retry_refused: bool, give_up: Collection[int]) -> int:
    """Send what waits, without the entries ``give_up``, which are removed; or with ``work_dir``, a driver's, only show
    its journal. Return the exit code: 3 unless nothing is left. UsageError: other options, no such token, or a token
    that would go to several servers; RunError: the spool can't be read or written."""
    reporting = with_stored_token(reporting, StoredAnswers())
    if work_dir is not None:
        if retry_refused or give_up:
            option = "--retry_refused" if retry_refused else "--give_up"
            raise UsageError(f"{option}: can't be combined with --work_dir, which only shows what waits: leave one out")
        return _show_journal(user_path(work_dir, "--work_dir"))
    sender = sender_from(reporting, os.environ)
    endpoints = {parse_place(text).endpoint for text in reporting.remote_reporter} or None
    folder = sender.spool.directory
    if not os.path.isdir(folder):  # which takes a name that is too long for one that isn't there
        if os.path.lexists(folder):
            raise UsageError(f"--spool {folder}: is not a folder: give the one in which reports wait")
        log.info("nothing waits: there is no %s", folder)
        return DONE
    _give_up(sender, give_up)
    _check_token(sender, endpoints, retry_refused)
    return _print_deliveries(sender.deliver(endpoints, retry_refused, each=True), folder)


def send(paths: Sequence[Path], reporting: ReporterOptions) -> int:
    """Send reports that are on disk, after what waits for the same servers; return the exit code, as ``flush`` does.
    UsageError: one is no report, other options than the remote reporter's, or none that says where to; RunError: the
    spool can't be read or written."""
    if not reporting.remote_reporter:
        raise UsageError("add --remote_reporter, the server to send to")
    reporters = RemoteReporter.from_options(with_stored_token(reporting, StoredAnswers()))
    for reporter in reporters:
        reporter.check()
    for path in paths:  # before any is kept, and one at a time: all of them might not fit into memory
        if not read_report(path).run.id:
            raise UsageError(f"--send {path}: has no run id, which a server needs: leave it out")
    for path in paths:
        report = read_report(path)
        for reporter in reporters:
            reporter.keep(report)
    sender = reporters[0].sender
    outcomes = sender.deliver({reporter.place.endpoint for reporter in reporters}, each=True)
    return _print_deliveries(outcomes, sender.spool.directory)


def _show_journal(folder: Path) -> int:
    """Show what waits in a driver's journal, which sends it itself; UsageError if there is no journal."""
    path = folder / "journal.db"
    if not path.is_file():
        raise UsageError(f"--work_dir {folder}: has no journal: give the folder of a driver")
    with closing(Journal(path)) as journal:
        entries = [entry for kind in (RUN, NOTICE) for entry in journal.outbox.entries(kind)]
    when = "the driver's next pass delivers it"
    deliveries = [Delivery(entry, "waiting", "; ".join(filter(None, (entry.reason, when)))) for entry in entries]
    return _print_deliveries(deliveries, path)


def _check_token(sender: Sender, endpoints: Collection[str] | None, retry_refused: bool) -> None:
    """Raise UsageError if reports wait for several servers and nobody said for which of them the token is."""
    to_send = ("waiting", "refused") if retry_refused else ("waiting",)
    numbers = {
        endpoint_of(entry.receiver): entry.number for entry in reversed(_entries(sender)) if entry.state in to_send
    }
    waiting = sorted(numbers if endpoints is None else endpoints)
    if sender.token is not None and endpoints is None and len({origin(endpoint) for endpoint in waiting}) > 1:
        places = ", ".join(f"{endpoint} in entry {numbers[endpoint]}" for endpoint in waiting)
        raise UsageError(
            f"reports wait for several servers ({places}), and a token is for one of them "
            "only: choose it with --remote_reporter, or remove an entry whose address is wrong with --give_up NUMBER"
        )
    for endpoint in waiting:
        warn_of_open_token(endpoint, sender.token)


def _entries(sender: Sender) -> list[Entry]:
    """What is in the spool; RunError if it can't be read."""
    try:
        return sender.spool.entries()
    except OSError as error:
        fix = f"cannot be read ({error.strerror}): fix its permissions"
        raise RunError(f"--spool {sender.spool.directory}: {fix}") from None


def _give_up(sender: Sender, numbers: Collection[int]) -> None:
    """Remove these entries; UsageError, and none is removed, if there is none of such a number."""
    if not numbers:
        return
    entry_by_number = {entry.number: entry for entry in _entries(sender)}
    if unknown := [number for number in numbers if number not in entry_by_number]:
        raise UsageError(f"--give_up {unknown[0]}: no such entry waits: give a number that --flush prints")
    with sender.spool.outbox() as outbox:
        for number in numbers:
            outbox.remove(entry_by_number[number])
            log.info("gave up entry %d, the run %s", number, entry_by_number[number].key)


def _print_deliveries(outcomes: Sequence[Delivery], where: Path) -> int:
    """A line for each entry of the outbox ``where``, and their numbers; returns the exit code."""
    lines = ["#" + "\t".join(COLUMNS)]
    for outcome in outcomes:
        entry = outcome.entry
        place = place_of(entry) if entry.kind == REPORT else Place(entry.receiver, entry.kind)
        fields = outcome.state, entry.key, place.category, place.endpoint, outcome.reason, str(entry.number)
        lines.append("\t".join(map(escaped, fields)))
    print_result("".join(f"{line}\n" for line in lines))
    counts = Counter(outcome.state for outcome in outcomes)
    summary = ", ".join(f"{count} {state}" for state, count in sorted(counts.items())) or "nothing waits"
    log.info("%s, in %s", summary, where)
    return DONE if set(counts) <= {"sent"} else INCOMPLETE
