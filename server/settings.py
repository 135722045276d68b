"""The server's settings: its database, who may read, how large a report may be."""

from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import SplitResult, quote, urlsplit

from opduel.records import UsageError

DEFAULT_MAX_REPORT_BYTES = 64 * 2**20


@dataclass(frozen=True)
class Settings:
    """The options of ``serve``.

    ``database`` is a URL in SQLAlchemy's form, ``max_report_bytes`` bounds the body of one post, and with
    ``open_read`` anybody may read without a token. ``host`` is where it listens. ``behind_proxy``: all requests
    come through a proxy on this machine, whose headers give the client's address. ``commit_url`` is a link in which
    ``{commit}`` stands for a commit's 40 digits. ``public_url`` is the server's address in feeds and alerts,
    without a slash at its end. ``mcp`` serves /mcp.
    """

    database: str
    open_read: bool = False
    host: str = "127.0.0.1"
    behind_proxy: bool = False
    max_report_bytes: int = DEFAULT_MAX_REPORT_BYTES
    commit_url: str | None = None
    public_url: str | None = None
    mcp: bool = False

    def __post_init__(self) -> None:
        """Check the settings. Raises UsageError: one is not valid; the text names its option and the fix."""
        if self.max_report_bytes < 1:
            raise UsageError(f"--max_report_bytes {self.max_report_bytes}: must be 1 or more")
        if (template := self.commit_url) is not None:
            fix = "give one like https://github.com/owner/project/commit/{commit}"
            parts = _parse_web_url("--commit_url", template, fix)
            if "{commit}" in parts.netloc or template.count("{commit}") != 1:
                raise UsageError(f"--commit_url {template}: must have {{commit}} once, after the host: {fix}")
        if (address := self.public_url) is not None:
            fix = "give one like https://results.example.org"
            parts = _parse_web_url("--public_url", address, fix)
            if parts.query or parts.fragment or "@" in parts.netloc:
                raise UsageError(f"--public_url {address}: not the address of a server: {fix}")
            object.__setattr__(self, "public_url", address.rstrip("/"))

    def commit_link(self, commit: str | None) -> str | None:
        """Return the URL of ``commit``, which is quoted; None without a template or a commit."""
        if self.commit_url is None or not commit:
            return None
        return self.commit_url.replace("{commit}", quote(commit, safe=""))


def _parse_web_url(option: str, text: str, fix: str) -> SplitResult:
    """Return the parts of an http or https URL. Raises UsageError: ``text`` is none."""
    with suppress(ValueError):
        parts = urlsplit(text)
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:  # reading the port checks it
            return parts
    raise UsageError(f"{option} {text}: not http or https: {fix}")
