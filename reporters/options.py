"""The command-line options of all reporters. No reporter is loaded for them."""

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from opduel.reporters.formats import FORMATS

UNVERIFIED = "notify_unverified"
TOKEN_VARIABLE, WEBHOOK_VARIABLE = "OPDUEL_REMOTE_ACCESS_TOKEN", "OPDUEL_NOTIFY_WEBHOOK"
GITLAB_TOKEN = "OPDUEL_GITLAB_TOKEN"  # not CI_JOB_TOKEN, which may not write notes
PLACE = "<domain>/<endpoint>|<category>"
SIDE, RUN = "{side}", "{run}"  # in the name of an exported file


@dataclass(frozen=True)
class ReporterOption:
    """An option of a reporter. ``reporter`` says where its class is, below ``opduel.reporters``.

    ``metavar`` is the option's argument, None for a switch; ``short`` another name of it. Where the environment has
    ``variable``, the reporter is asked for, too.
    """

    name: str
    reporter: str
    help: str
    metavar: str | None = None
    repeatable: bool = False
    variable: str = ""
    short: str = ""

    def add_to(self, group: "argparse._ArgumentGroup") -> None:
        """Add the option to ``group``."""
        names = [f"--{name}" for name in (self.short, self.name) if name]
        if self.metavar is None:
            group.add_argument(*names, action="store_true", dest=self.name, help=self.help)
        else:
            action = "append" if self.repeatable else "store"
            group.add_argument(f"--{self.name}", metavar=self.metavar, action=action, help=self.help)

    def is_given(self, options: "ReporterOptions") -> bool:
        """Return whether the command line, or else the environment, asks for the reporter."""
        if getattr(options, self.name) not in (None, False, ()):
            return True
        return bool(self.variable and os.environ.get(self.variable, "").strip())


REMOTE_REPORTER, _COMMAND = "remote.reporter:RemoteReporter", "notify_command:NotifyCommand"
_TABLE = "print a table on standard output, the worst first (the default; in a pipe without others)"
_LINES = "print one tab-separated line per case on standard output, for pipes"
_JSON = "print the report as JSON on standard output, in place of the table"
_LOCAL = "save report.json in a folder of its own, below DIR by framework, platform, spec, date and commits"
_SIMPLE_LOCAL = (
    "save DIR/report.json (DIR/<user_identifier>/report.json if one is given); an older one is kept beside it"
)
_HTML = "write the run as one page for a browser, with plots; needs no network"
_EXPORT = (
    f"write FILE for other tools ({', '.join(FORMATS)}); in its name {SIDE} stands for control and treatment, "
    f"{RUN} for the run's id; repeatable"
)
_POST = f'post the report to a results server: "{PLACE}"; repeatable'
_TOKEN = f"for --remote_reporter; others can read it in the process list: rather a file, or {TOKEN_VARIABLE}"
_TOKEN_FILE = "a file with the token that only its owner can read"
_SPOOL = "where reports wait until the server has them (default: the user's state folder)"
_GITHUB = (
    "in GitHub Actions: a summary of the step, annotations, outputs for later steps; and, with GITHUB_TOKEN in the "
    "environment, a comment on the pull request, kept up to date"
)
_GITLAB = (
    f"in a merge request's pipeline of GitLab CI, with a token in {GITLAB_TOKEN}: a note on the merge request, kept up "
    "to date"
)
_RUN_COMMAND = (
    "run COMMAND, without a shell, when a regression is confirmed or a case starts to fail: it gets the message on its "
    "standard input, and details in OPDUEL_* variables"
)
_ALSO = "also notify of regressions that were measured only once; the message says so"
_WEBHOOK = (
    f"likewise, post the message to URL, as JSON in Slack's format (default: the URL in {WEBHOOK_VARIABLE}, if it is "
    "set); @FILE reads the URL from a file, which keeps it out of the process list"
)
OPTIONS = (
    ReporterOption("screen_reporter", "screen:ScreenReporter", _TABLE),
    ReporterOption("simple_screen_reporter", "simple_screen:SimpleScreenReporter", _LINES, short="tsv"),
    ReporterOption("json", "simple_screen:JsonReporter", _JSON),
    ReporterOption("local_reporter", "local:LocalReporter", _LOCAL, "DIR"),
    ReporterOption("simple_local_reporter", "local:SimpleLocalReporter", _SIMPLE_LOCAL, "DIR"),
    ReporterOption("html_reporter", "export:HtmlReporter", _HTML, "FILE"),
    ReporterOption("export_reporter", "export:ExportReporter", _EXPORT, "FORMAT=FILE", repeatable=True),
    ReporterOption("remote_reporter", REMOTE_REPORTER, _POST, "PLACE", repeatable=True),
    ReporterOption("remote_access_token", REMOTE_REPORTER, _TOKEN, "TOKEN"),
    ReporterOption("remote_access_token_file", REMOTE_REPORTER, _TOKEN_FILE, "FILE"),
    ReporterOption("spool", REMOTE_REPORTER, _SPOOL, "DIR"),
    ReporterOption("github", "github:GithubReporter", _GITHUB),
    ReporterOption("gitlab", "gitlab:GitlabReporter", _GITLAB),
    ReporterOption("notify_command", _COMMAND, _RUN_COMMAND, "COMMAND", repeatable=True),
    ReporterOption(UNVERIFIED, _COMMAND, _ALSO),
    ReporterOption("notify_webhook", "notify_webhook:NotifyWebhook", _WEBHOOK, "URL", True, WEBHOOK_VARIABLE),
)
OPTION_BY_NAME = {option.name: option for option in OPTIONS}


@dataclass(frozen=True, kw_only=True)
class ReporterOptions:
    """The values of all reporters' options; None, False and empty ones were not given."""

    screen_reporter: bool = False
    simple_screen_reporter: bool = False
    json: bool = False
    local_reporter: str | None = None
    simple_local_reporter: str | None = None
    html_reporter: str | None = None
    export_reporter: Sequence[str] = ()
    remote_reporter: Sequence[str] = ()
    remote_access_token: str | None = None
    remote_access_token_file: str | None = None
    spool: str | None = None
    github: bool = False
    gitlab: bool = False
    notify_command: Sequence[str] = ()
    notify_unverified: bool = False
    notify_webhook: Sequence[str] = ()
    prior_runs: str | None = None  # the address of a server, which may be asked with the token

    @classmethod
    def of(cls, parsed: argparse.Namespace) -> Self:
        """Return the values that a parser has read."""
        values = {name: getattr(parsed, name, None) for name in (*OPTION_BY_NAME, "prior_runs")}
        return cls(**{name: value for name, value in values.items() if value is not None})


def add_reporter_options(parser: argparse.ArgumentParser) -> None:
    """Add every reporter's option to ``parser``."""
    group = parser.add_argument_group("reporters", "where results go; several may be given")
    for option in OPTIONS:
        option.add_to(group)
