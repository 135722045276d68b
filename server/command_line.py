"""The server's command line: serve, migrate, token, alert, run."""

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta

from sqlalchemy import select
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as DatabaseTimeout

from opduel.records import OpduelError, RunError, UsageError
from opduel.reporters.arguments import Parser
from opduel.reporters.notifier import Notifier
from opduel.reporters.notify_command import NotifyCommand
from opduel.reporters.notify_webhook import NotifyWebhook
from opduel.reporters.options import OPTION_BY_NAME
from opduel.reporters.stream import open_closed_streams, print_note, print_result
from opduel.reporters.text import escaped, printable
from opduel.server.alerts import SLOWDOWNS, send_alerts
from opduel.server.app import address_of, create_app, listen, serve
from opduel.server.database import Database, default_url
from opduel.server.logs import log_to_stderr
from opduel.server.models import Token
from opduel.server.settings import DEFAULT_MAX_REPORT_BYTES, Settings, normalize_public_url
from opduel.server.storage import remove_runs
from opduel.server.tokens import SCOPES, add_token, check_token, is_valid, revoke_token
from opduel.support.text import one_line

PROGRAM = "python -m opduel.server"
_DATABASE = (
    "sqlite:///FILE or postgresql://USER@HOST/NAME. Default: OPDUEL_DATABASE, or else SQLite in the user's state folder"
)
_PUBLIC_URL = "the address under which people reach the server, for links in feeds and alerts"


def main(arguments: Sequence[str] | None = None, program: str = PROGRAM) -> int:
    """Run the command, called ``program``, and return its exit code: 0 success, 2 wrong usage, 3 not possible now."""
    open_closed_streams()
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or (words[0].startswith("-") and words[0] not in ("-h", "--help")):
        words.insert(0, "serve")
    try:
        options = server_parser(program).parse_args(words)
        options.do(options)
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
    """Return the parser of all commands; each sets ``do``, the function that runs it."""
    parser = Parser(prog=program, description="Keeps reports that --remote_reporter sends, and shows them.")
    commands = parser.add_subparsers(required=True, metavar="{serve,migrate,token,alert,run}")
    _add_serve(commands.add_parser("serve", help="answer requests; the default"))
    migrate = commands.add_parser("migrate", help="make the tables, or bring them to this version")
    migrate.set_defaults(do=_migrate)
    _add_database(migrate)
    _add_token_commands(
        commands.add_parser("token", help="create, list and revoke the tokens with which clients read and write")
    )
    _add_alert(commands.add_parser("alert", help="notify of change points that nobody was notified of yet; for cron"))
    runs = commands.add_parser("run", help="remove runs").add_subparsers(required=True, metavar="{remove}")
    remove = runs.add_parser("remove", help="remove runs for good, with their reports")
    remove.add_argument("ids", metavar="RUN", nargs="+", help="a run's id")
    remove.set_defaults(do=_remove_runs)
    _add_database(remove)
    return parser


def _add_database(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--database", metavar="URL", help=_DATABASE)


def _add_token_commands(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(required=True, metavar="{add,list,revoke}")
    add = commands.add_parser("add", help="create a token and print it, this once only")
    add.add_argument("name", metavar="NAME")
    add.add_argument(
        "--scope", action="append", choices=SCOPES, default=[], help="what the token allows: read, write; repeatable"
    )
    add.add_argument(
        "--expires", metavar="DAYS", type=_days, help="days until it expires (default: it does not expire)"
    )
    add.set_defaults(do=_add_token)
    listing = commands.add_parser("list", help="print names, scopes and times, tab-separated")
    listing.set_defaults(do=_list_tokens)
    revoke = commands.add_parser("revoke", help="revoke a token: it stops working at once")
    revoke.add_argument("name", metavar="NAME")
    revoke.set_defaults(do=_revoke_token)
    for command in (add, listing, revoke):
        _add_database(command)


def _add_alert(parser: argparse.ArgumentParser) -> None:
    receivers = parser.add_argument_group("receivers", "who is notified; several may be given")
    for name in ("notify_command", "notify_webhook"):
        OPTION_BY_NAME[name].add_to(receivers)
    parser.add_argument("--branch", metavar="NAME", help="only change points of this branch (default: of all)")
    parser.add_argument(
        "--category", metavar="NAME", help="only those whose history has a run in this category (default: all)"
    )
    parser.add_argument("--public_url", metavar="URL", help=_PUBLIC_URL)
    _add_database(parser)
    parser.set_defaults(do=_alert)


def _add_serve(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", default="127.0.0.1", help="where to listen. Default: 127.0.0.1")
    parser.add_argument("--port", type=_port, default=8000, help="0 for any that is free. Default: 8000")
    _add_database(parser)
    parser.add_argument(
        "--max_report_bytes",
        metavar="BYTES",
        type=_whole_number,
        default=DEFAULT_MAX_REPORT_BYTES,
        help=f"the largest report that is accepted, in bytes. Default: {DEFAULT_MAX_REPORT_BYTES}",
    )
    parser.add_argument(
        "--commit_url", metavar="TEMPLATE", help="a link to a commit, http or https, with {commit} for its digits"
    )
    parser.add_argument(
        "--behind_proxy",
        action="store_true",
        help="all requests come through a proxy on this machine: believe its X-Forwarded-For and X-Forwarded-Proto",
    )
    parser.add_argument("--public_url", metavar="URL", help=_PUBLIC_URL)
    parser.add_argument("--open_read", action="store_true", help="let anybody read, without a token")
    parser.add_argument("--mcp", action="store_true", help="let agents read at /mcp (extra mcp)")
    parser.set_defaults(do=_serve)


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


def _url(options: argparse.Namespace) -> str:
    return options.database or os.environ.get("OPDUEL_DATABASE") or default_url()


def _say(text: str) -> None:
    print_note(f"opduel results server: {printable(text)}\n")


def _open_database(options: argparse.Namespace) -> Database:
    database = Database(_url(options))
    action = database.prepare()
    if action:
        _say(f"{action}: {database.name}")
    return database


def _open_existing(options: argparse.Namespace) -> Database:
    """Open a database that must exist already.

    Raises:
        UsageError: there is none.
    """
    Database(_url(options)).check_exists()
    return _open_database(options)


def _serve(options: argparse.Namespace) -> None:
    option_names = [field.name for field in fields(Settings) if field.name != "database"]
    settings = Settings(_url(options), **{name: getattr(options, name) for name in option_names})
    database = _open_database(options)
    database.close()
    listening = listen(options.host, options.port)
    log_to_stderr()
    _say(f"{address_of(listening)}, database {database.name}")
    serve(create_app(settings), listening)


def _migrate(options: argparse.Namespace) -> None:
    database = Database(_url(options))
    _say(f"{database.prepare(migrate=True) or 'has the tables of this version'}: {database.name}")


def _add_token(options: argparse.Namespace) -> None:
    check_token(options.name, options.scope, datetime.now(UTC), options.expires)
    with _open_database(options).writing() as session:
        token = add_token(session, options.name, options.scope, datetime.now(UTC), options.expires)
        print_result(f"{token}\n")  # if this fails, the token is not stored
    _say("keep this token: it is shown only once, and anyone who has it can use it")


def _list_tokens(options: argparse.Namespace) -> None:
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


def _revoke_token(options: argparse.Namespace) -> None:
    with _open_existing(options).writing() as session:
        revoke_token(session, options.name, datetime.now(UTC))
    _say(f"revoked {options.name}")


def _alert(options: argparse.Namespace) -> None:
    notifiers: list[Notifier] = [*NotifyCommand.from_options(options), *NotifyWebhook.from_options(options)]
    if not notifiers:
        raise UsageError("alert: no receiver: add --notify_command or --notify_webhook")
    for notifier in notifiers:
        notifier.check()
    public_url = None if options.public_url is None else normalize_public_url(options.public_url)
    finding_filter = replace(SLOWDOWNS, branch=options.branch, category=options.category)
    failures = send_alerts(_open_existing(options), notifiers, public_url, finding_filter)
    if failures:
        raise RunError("; ".join(failures))


def _remove_runs(options: argparse.Namespace) -> None:
    ids = list(dict.fromkeys(options.ids))
    with _open_existing(options).writing() as session:
        remove_runs(session, ids)
    _say(f"removed {len(ids)} run{'' if len(ids) == 1 else 's'}")
