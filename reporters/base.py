"""The interface of a reporter, and delivery to all reporters: one that fails does not stop another."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self, TypeVar

from opduel.records import OpduelError, Report, RunError, UsageError
from opduel.reporters.options import OPTION_BY_NAME, ReporterOptions


class Reporter(ABC):
    """Delivers the report of a finished run. It reads only the records.

    A new reporter is one new file with a subclass, and its option in ``opduel.reporters.options``.
    """

    option: ClassVar[str]  # the command-line option that asks for it, without the dashes
    whole_runs_only: ClassVar[bool] = False  # whether a run that will be resumed is reported only when complete
    other_reporters: "Sequence[Reporter]" = ()  # those that get the same runs

    def __init_subclass__(cls, option: str = "") -> None:
        """``option``: see above; a subclass without one has that of its base."""
        if option:
            cls.option = option

    @classmethod
    def from_options(cls, options: ReporterOptions) -> list[Self]:
        """Return the reporters that the options ask for: none, one, or one for each time that a repeatable option was
        given. Raises UsageError: an option's argument is empty or wrong."""
        argument = getattr(options, cls.option)
        if argument is None or isinstance(argument, bool):
            return [cls.from_option(None)] if argument else []
        values = [argument] if isinstance(argument, str) else argument
        if not all(value.strip() for value in values):
            raise UsageError(f"--{cls.option} needs a {OPTION_BY_NAME[cls.option].metavar}, and got an empty one")
        return [cls.from_option(value) for value in values]

    @classmethod
    def from_option(cls, value: str | None) -> Self:
        """Return the reporter that the option asks for; ``value`` is its argument, None for a switch. Raises
        UsageError: the argument is wrong."""
        return cls()

    def check(self) -> None:  # noqa: B027 - most have nothing to check
        """Check, before anything is measured, whether reporting can work. Raises UsageError: it can't; the text says
        why and names the fix."""

    def meet(self, reporters: "Sequence[Reporter]") -> None:
        """Learn which other reporters get the same runs; those that store reports come before the others."""
        self.other_reporters = reporters

    def files(self) -> Sequence[Path]:
        """Return the files that it will replace, which no other reporter may write."""
        return ()

    def where(self, report: Report) -> str | None:
        """Return the path or address where others find the delivered ``report``; None if there is none."""
        return None

    def page(self, report: Report) -> str | None:
        """Return the address of a page that shows the delivered ``report``; None if there is none."""
        return None

    @abstractmethod
    def report(self, report: Report) -> str | None:
        """Deliver ``report``; return a line for the user (such as a path), or None. Raises OpduelError: it could not be
        delivered; the text says why and names the fix."""

    def catch_up(self) -> str | None:
        """Deliver what earlier runs left undelivered, if anything. Long-running commands call it from time to time.
        Raises OpduelError: it still can't be delivered; the text says why and names the fix."""
        return None


_Reporter = TypeVar("_Reporter", bound=Reporter)


class FindingsReporter(Reporter):
    """A reporter that gets from the driver each commit that was investigated, with the culprits, and not each run."""

    @abstractmethod
    def report_findings(self, report: Report, culprits: Sequence[str]) -> str | None:
        """Deliver ``report``; ``culprits`` are lines for its head. Return a line for the user, or None. Raises
        OpduelError: it could not be delivered; the text says why and names the fix."""

    def report(self, report: Report) -> str | None:
        return self.report_findings(report, [])


class PartlyReportedError(OpduelError):
    """A reporter delivered the essential part, as ``line`` says, but not everything."""

    def __init__(self, line: str, why: str) -> None:
        """``why``: the error's text."""
        super().__init__(why)
        self.line = line


@contextmanager
def writing(target: str | Path, fix: str) -> Iterator[None]:
    """Raise a RunError for an OSError within, which says why ``target`` can't be written and what to give in its
    place (``fix``)."""
    try:
        yield
    except OSError as error:
        raise RunError(f"cannot write {target} ({error.strerror}): give {fix}") from error


@dataclass(frozen=True)
class ReportOutcome:
    """The result of all reporters: lines for the user, and a line for each reporter that failed."""

    lines: tuple[str, ...]
    failures: tuple[str, ...]


def report_all(reporters: Iterable[Reporter], report: Report) -> ReportOutcome:
    """Deliver to every reporter, in order. One that fails stops no other: its failure is returned."""
    return deliver_all(reporters, lambda reporter: reporter.report(report))


def catch_up_all(reporters: Iterable[Reporter]) -> ReportOutcome:
    """Have every reporter deliver what earlier runs left undelivered; likewise."""
    return deliver_all(reporters, lambda reporter: reporter.catch_up())


def deliver_all(reporters: Iterable[_Reporter], deliver: Callable[[_Reporter], str | None]) -> ReportOutcome:
    """Call ``deliver`` with every reporter, in order; it returns a line for the user. The rest is as in
    ``report_all``."""
    lines: list[str | None] = []
    failures: list[str] = []
    for reporter in reporters:
        try:
            lines.append(deliver(reporter))
        except Exception as error:
            lines.append(error.line if isinstance(error, PartlyReportedError) else None)
            reason = str(error) if isinstance(error, OpduelError) else f"{type(error).__name__}: {error}"
            failures.append(f"--{reporter.option} failed: {reason}")
    return ReportOutcome(tuple(line for line in lines if line is not None), tuple(failures))
