"""The server's command line: serve, migrate, token, alert, run."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from sqlalchemy import select
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as DatabaseTimeout

from opduel.records import OpduelError, RunError, UsageError
from opduel.reporters.arguments import AddOption, Parser
from opduel.reporters.notifier import Notifier
from opduel.reporters.notify_command import NotifyCommand
from opduel.reporters.notify_webhook import NotifyWebhook
from opduel.reporters.options import OPTION_BY_NAME, ReporterOptions
from opduel.reporters.stream import open_closed_streams, print_note, print_result
from opduel.reporters.text import escaped, printable
from opduel.server.alerts import SLOWDOWNS, send_alerts
from opduel.server.app import address_of, create_app, listen, serve
from opduel.server.database import Database, default_url
from opduel.server.logs import log_to_stderr
from opduel.server.models import Token
from opduel.server.settings import DEFAULT_MAX_REPORT_BYTES, Settings
from opduel.server.storage import remove_runs
from opduel.server.tokens import SCOPES, add_token, check_token, is_valid, revoke_token
from opduel.support.text import one_line

PROGRAM = "python -m opduel.server"
_DATABASE = (
    "sqlite:///FILE or postgresql://USER@HOST/NAME. Default: OPDUEL_DATABASE, or else SQLite in the user's state folder"
)
_PUBLIC_URL = (
    "--public_url URL",
    "the address under which people reach the server, for links in feeds and alerts; it answers to no other name",
)


@dataclass(frozen=True, kw_only=True)
class ServerOptions(Settings):
    """The options of a command; those that it doesn't take have their defaults."""

    port: int = 8000
    # token
    name: str = ""
    scope: Sequence[str] = ()
    expires: timedelta | None = None
    # alert
    branch: str | None = None
    category: str | None = None
    reporting: ReporterOptions = field(default_factory=ReporterOptions)
    # run remove
    ids: Sequence[str] = ()

    @classmethod
    def of(cls, parsed: argparse.Namespace) -> Self:
        """Return the options that a command's parser has read."""
        values = {option.name: getattr(parsed, option.name) for option in fields(cls) if option.name in parsed}
        values["database"] = parsed.database or os.environ.get("OPDUEL_DATABASE") or default_url()
        if "notify_command" in parsed:
            values["reporting"] = ReporterOptions.of(parsed)
        return cls(**values)


def main(arguments: Sequence[str] | None = None, program: str = PROGRAM) -> int:
    """Run the command, called ``program``, and return its exit code: 0 success, 2 wrong usage, 3 not possible now."""
    open_closed_streams()
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or (words[0].startswith("-") and words[0] not in ("-h", "--help")):
        words.insert(0, "serve")
    try:
        parsed = server_parser(program).parse_args(words)
        parsed.run(ServerOptions.of(parsed))
    except OpduelError as error:
        print_note(f"{error}\n")
        return error.exit_code
    except (DBAPIError, DatabaseTimeout) as error:
        why = one_line(str(error.orig if isinstance(error, DBAPIError) else error))
        fix = ": try again" if isinstance(error, OperationalError | DatabaseTimeout) else ""
        print_note(f"the database can't be used ({why}){fix}\n")
        return 3
    except KeyboardInterrupt:
        print_note("interrupted\n")
        return 3
    return 0


def server_parser(program: str = PROGRAM) -> Parser:
    """Return the parser of all commands; each sets ``run``, the function that runs it."""
    parser = Parser(prog=program, description="Keeps reports that --remote_reporter sends, and shows them.")
    commands = parser.add_subparsers(required=True, metavar="{serve,migrate,token,alert,run}")
    _add_serve(_command(commands, "serve", "answer requests; the default", _serve).options())
    _command(commands, "migrate", "make the tables, or bring them to this version", _migrate)

    words = "create, list and revoke the tokens with which clients read and write"
    tokens = commands.add_parser("token", help=words).add_subparsers(required=True, metavar="{add,list,revoke}")
    add = _command(tokens, "add", "create a token and print it, this once only", _add_token).options()
    add("name NAME", "the token's name, which is shown beside what is posted with it")
    words = "what the token allows: read, write; repeatable"
    add("--scope", words, action="append", choices=SCOPES, default=[])
    add("--expires DAYS", "days until it expires (default: it does not expire)", type=_days)
    _command(tokens, "list", "print names, scopes and times, tab-separated", _list_tokens)
    add = _command(tokens, "revoke", "revoke a token: it stops working at once", _revoke_token).options()
    add("name NAME", "the token's name")

    _add_alert(_command(commands, "alert", "notify of change points that nobody was notified of yet; for cron", _alert))
    runs = commands.add_parser("run", help="remove runs").add_subparsers(required=True, metavar="{remove}")
    add = _command(runs, "remove", "remove runs for good, with their reports", _remove_runs).options()
    add("ids RUN", "a run's id", nargs="+")
    return parser


def _command(commands: Any, name: str, words: str, run: Callable[[ServerOptions], None]) -> Parser:
    parser: Parser = commands.add_parser(name, help=words)
    parser.set_defaults(run=run)
    parser.options()("--database URL", _DATABASE)
    return parser


def _add_serve(add: AddOption) -> None:
    add("--host HOST", "where to listen. Default: 127.0.0.1", default="127.0.0.1")
    add("--port PORT", "0 for any that is free. Default: 8000", type=_port, default=8000)
    most = DEFAULT_MAX_REPORT_BYTES
    words = f"the largest report that is accepted, in bytes. Default: {most}"
    add("--max_report_bytes BYTES", words, type=_whole_number, default=most)
    add("--commit_url TEMPLATE", "a link to a commit, http or https, with {commit} for its digits")
    words = "all requests come through a proxy on this machine: believe its X-Forwarded-For and X-Forwarded-Proto"
    add("--behind_proxy", words)
    add(*_PUBLIC_URL)
    add("--open_read", "let anybody read, without a token")
    add("--mcp", "let agents read at /mcp (extra mcp)")


def _add_alert(parser: Parser) -> None:
    receivers = parser.add_argument_group("receivers", "who is notified; several may be given")
    for name in ("notify_command", "notify_webhook"):
        OPTION_BY_NAME[name].add_to(receivers)
    add = parser.options()
    add("--branch NAME", "only change points of this branch (default: of all)")
    add("--category NAME", "only those whose history has a run in this category (default: all)")
    add(*_PUBLIC_URL)


def _days(text: str) -> timedelta:
    try:
        lasts = timedelta(days=float(text))
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of days") from None
    if lasts <= timedelta(0):
        raise argparse.ArgumentTypeError("must be more than 0 days")
    return lasts


def _whole_number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None


def _port(text: str) -> int:
    if not 0 <= _whole_number(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r}: must be 0 to 65535")
    return _whole_number(text)


def _say(text: str) -> None:
    print_note(f"opduel results server: {printable(text)}\n")


def _open_database(options: ServerOptions) -> Database:
    database = Database(options.database)
    if action := database.prepare():
        _say(f"{action}: {database.name}")
    return database


def _open_existing(options: ServerOptions) -> Database:
    """Open a database that must exist already. Raises UsageError: there is none."""
    Database(options.database).check_exists()
    return _open_database(options)


def _serve(options: ServerOptions) -> None:
    database = _open_database(options)
    database.close()
    listening = listen(options.host, options.port)
    log_to_stderr()
    _say(f"{address_of(listening)}, database {database.name}")
    serve(create_app(options), listening)


def _migrate(options: ServerOptions) -> None:
    database = Database(options.database)
    _say(f"{database.prepare(migrate=True) or 'has the tables of this version'}: {database.name}")


def _add_token(options: ServerOptions) -> None:
    check_token(options.name, options.scope, datetime.now(UTC), options.expires)
    with _open_database(options).writing() as session:
        token = add_token(session, options.name, options.scope, datetime.now(UTC), options.expires)
        print_result(f"{token}\n")  # if this fails, the token is not stored
    _say("keep this token: it is shown only once, and anyone who has it can use it")


def _list_tokens(options: ServerOptions) -> None:
    now = datetime.now(UTC)
    lines = ["# name\tscopes\tcreated\texpires\tstate"]
    with _open_existing(options).reading() as session:
        for token in session.scalars(select(Token).order_by(Token.name)):
            scopes = ",".join(scope for scope in SCOPES if getattr(token, f"can_{scope}"))
            state = "valid" if is_valid(token, now) else "revoked" if token.revoked else "expired"
            expires = token.expires.isoformat(timespec="seconds") if token.expires else ""
            created = token.created.isoformat(timespec="seconds")
            lines.append("\t".join(map(escaped, (token.name, scopes, created, expires, state))))
    print_result("".join(f"{line}\n" for line in lines))


def _revoke_token(options: ServerOptions) -> None:
    with _open_existing(options).writing() as session:
        revoke_token(session, options.name, datetime.now(UTC))
    _say(f"revoked {options.name}")


def _alert(options: ServerOptions) -> None:
    receivers = (NotifyCommand, NotifyWebhook)
    notifiers: list[Notifier] = [notifier for kind in receivers for notifier in kind.from_options(options.reporting)]
    if not notifiers:
        raise UsageError("alert: no receiver: add --notify_command or --notify_webhook")
    for notifier in notifiers:
        notifier.check()
    finding_filter = replace(SLOWDOWNS, branch=options.branch, category=options.category)
    if failures := send_alerts(_open_existing(options), notifiers, options.public_url, finding_filter):
        raise RunError("; ".join(failures))


def _remove_runs(options: ServerOptions) -> None:
    ids = list(dict.fromkeys(options.ids))
    with _open_existing(options).writing() as session:
        remove_runs(session, ids)
    _say(f"removed {len(ids)} run{'' if len(ids) == 1 else 's'}")
