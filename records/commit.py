"""A commit of a framework's repository: what reports show of it."""

from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True)
class Commit:
    """One commit. ``time`` is the committer's, in seconds since 1970 (UTC); ``author`` is "Name <mail>"."""

    id: str  # 40 hexadecimal digits
    time: int
    author: str
    subject: str

    @property
    def short(self) -> str:
        """The first 12 digits: unique in any repository, and short enough to read."""
        return self.id[:12]

    @property
    def moment(self) -> str:
        """The time in ISO 8601, UTC."""
        return datetime.fromtimestamp(self.time, UTC).isoformat(timespec="seconds")
