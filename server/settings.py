"""How a server was asked to run: where its data is, who may read, how much it takes."""

from dataclasses import dataclass
from urllib.parse import SplitResult, quote, urlsplit

from opduel.records import UsageError

DEFAULT_MAX_REPORT_BYTES = 64 * 2**20


@dataclass(frozen=True)
class Settings:
    """``database`` is a URL as SQLAlchemy writes it; ``max_report_bytes`` bounds the body of one post.

    With ``open_read`` anybody may read, without a token. ``behind_proxy``: all requests come through a proxy on this
    machine, which says whose they are. ``commit_url`` is a link to a commit in which ``{commit}`` stands for its 40
    digits; None when there is nothing to link to. ``public_url`` is where people reach this server, without a slash at
    its end: for links in feeds and alerts. ``mcp``: agents may ask at /mcp, too.
    """

    database: str
    open_read: bool = False
    behind_proxy: bool = False
    max_report_bytes: int = DEFAULT_MAX_REPORT_BYTES
    commit_url: str | None = None
    public_url: str | None = None
    mcp: bool = False

    def __post_init__(self) -> None:
        """See that the settings can be meant.

        Raises:
            UsageError: one can't; the text names its option and the fix.
        """
        if self.max_report_bytes < 1:
            raise UsageError(f"--max_report_bytes {self.max_report_bytes}: must be 1 or more")
        if self.commit_url is not None:
            _check_commit_url(self.commit_url)
        if self.public_url is not None:
            object.__setattr__(self, "public_url", checked_public_url(self.public_url))

    def commit_link(self, commit: str | None) -> str | None:
        """The address of ``commit``, quoted, so that it can't be anything but a part of it; None without a template
        or a commit."""
        if self.commit_url is None or not commit:
            return None
        return self.commit_url.replace("{commit}", quote(commit, safe=""))


def checked_public_url(text: str) -> str:
    """The address of a server as links begin with it.

    Raises:
        UsageError: it is no http or https address.
    """
    fix = "give one like https://results.example.org"
    parts = _parsed("--public_url", text, fix)
    if parts is None or parts.query or parts.fragment or "@" in parts.netloc:
        raise UsageError(f"--public_url {text}: not the address of a server: {fix}")
    return text.rstrip("/")


def _check_commit_url(template: str) -> None:
    fix = "give one like https://github.com/owner/project/commit/{commit}"
    parts = _parsed("--commit_url", template, fix)
    if parts is None:
        raise UsageError(f"--commit_url {template}: not http or https: {fix}")
    if "{commit}" in parts.netloc or template.count("{commit}") != 1:
        raise UsageError(f"--commit_url {template}: must have {{commit}} once, after the host: {fix}")


def _parsed(option: str, text: str, fix: str) -> SplitResult | None:
    """The parts of an http or https address; None if ``text`` is none of these.

    Raises:
        UsageError: it is no URL.
    """
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port  # which is checked when it is read
    except ValueError:
        raise UsageError(f"{option} {text}: not a URL: {fix}") from None
    return parts if parts.scheme in ("http", "https") and host else None
