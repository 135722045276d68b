"""The local reporters: where report.json goes, and that no run's report is ever lost."""

import json
import os
import threading
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import report_samples as samples
from made_report import made_report

from opduel.records import Report, RunError
from opduel.reporters.base import Reporter, report_all
from opduel.reporters.document import read_report
from opduel.reporters.html import page
from opduel.reporters.interchange.speedscope import to_speedscope
from opduel.reporters.local import LocalReporter, SimpleLocalReporter, report_on_disk, run_folder
from opduel.support.atomic import path_part

PAIR = "mxnet==1.8.0.post0..mxnet==1.9.1"
BOTH = pytest.mark.parametrize("kind", [LocalReporter, SimpleLocalReporter])


def _files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def _at_once(count: int, work: Callable[[int], Any]) -> None:
    """Run ``work`` in ``count`` threads that start together."""
    barrier = threading.Barrier(count)

    def deliver(number: int) -> None:
        barrier.wait()
        work(number)

    threads = [threading.Thread(target=deliver, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_the_local_hierarchy(tmp_path: Path) -> None:
    line = LocalReporter(tmp_path / "new").report(samples.report())
    path = tmp_path / "new/mxnet/cpu/conv/2024/02/29" / PAIR / "0/report.json"
    assert line == f"report: {path}"
    assert read_report(path) == samples.report()


def test_numbers_count_on_and_nothing_is_overwritten(tmp_path: Path) -> None:
    reporter = LocalReporter(tmp_path)
    for number in range(12):
        reporter.report(samples.report(id=f"run{number}"))
    folder = run_folder(tmp_path, samples.report())
    assert sorted(map(int, os.listdir(folder))) == list(range(12))
    assert [read_report(folder / str(number) / "report.json").run.id for number in range(12)] == [
        f"run{number}" for number in range(12)
    ]


def test_the_number_after_the_highest_is_taken(tmp_path: Path) -> None:
    folder = run_folder(tmp_path, samples.report())
    for name in ("3", "x", "²"):
        (folder / name).mkdir(parents=True)
    assert LocalReporter(tmp_path).report(samples.report()) == f"report: {folder / '4/report.json'}"


def test_two_that_saw_the_same_numbers_get_different_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "listdir", lambda _: [])  # as if nobody else had come yet
    lines = [LocalReporter(tmp_path).report(samples.report()) for _ in range(3)]
    assert [line.split("/")[-2] for line in lines] == ["0", "1", "2"]


def test_at_once_every_run_gets_a_folder(tmp_path: Path) -> None:
    _at_once(16, lambda number: LocalReporter(tmp_path).report(samples.report(id=str(number))))
    folder = run_folder(tmp_path, samples.report())
    assert sorted(map(int, os.listdir(folder))) == list(range(16))
    assert {read_report(path).run.id for path in folder.glob("*/report.json")} == set(map(str, range(16)))


@pytest.mark.parametrize(
    ("started", "finished", "date"),
    [
        ("2024-02-29T23:30:00+00:00", None, "2024/02/29"),
        ("2024-02-29T23:30:00-05:00", None, "2024/03/01"),
        ("2024-02-29T23:30:00", None, "2024/02/29"),
        ("soon", "2024-03-01T00:00:01Z", "2024/03/01"),
        (None, None, "0000/00/00"),
    ],
)
def test_the_date_is_that_of_the_start_in_utc(
    tmp_path: Path, started: str | None, finished: str | None, date: str
) -> None:
    folder = run_folder(tmp_path, samples.report(started=started, finished=finished))
    assert folder == tmp_path / "mxnet/cpu/conv" / date / PAIR


@pytest.mark.parametrize(
    "name", ["../../etc", "/etc/passwd", "..", ".", "", "a/../../b", "x\0y", "\n", "-rf", "~", "é" * 300, "a" * 5000]
)
def test_odd_names_stay_below_the_directory(tmp_path: Path, name: str) -> None:
    directory = tmp_path / "reports"
    odd = samples.report(framework=name, platform=name, spec=name, id=name, user_identifier=name)
    odd = replace(odd, control=replace(odd.control, requested=name), treatment=replace(odd.treatment, requested=name))
    LocalReporter(directory).report(odd)
    simple = SimpleLocalReporter(directory)
    simple.report(odd)
    simple.report(odd)
    assert os.listdir(tmp_path) == ["reports"]
    assert len(_files(directory)) == 6  # each with its page
    (path,) = list(directory.rglob("0/report.json"))
    assert len(path.relative_to(directory).parts) == 9


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("mxnet==1.9.1", "mxnet==1.9.1"),
        ("/opt/env one/bin/python", "_opt_env_one_bin_python"),
        ("..", "_"),
        (".hidden", "_hidden"),
        ("", "_"),
        ("-rf", "_rf"),
    ],
)
def test_path_parts(name: str, part: str) -> None:
    assert path_part(name) == part


def test_long_path_parts_are_cut_but_stay_apart() -> None:
    first, second = path_part("a" * 200 + "1"), path_part("a" * 200 + "2")
    assert first != second
    assert len(first) == len(second) == 80


def test_the_simple_local_reporter_writes_in_one_place(tmp_path: Path) -> None:
    assert SimpleLocalReporter(tmp_path).report(samples.report()) == f"report: {tmp_path / 'report.json'}"
    assert _files(tmp_path) == ["report.html", "report.json"]
    assert read_report(tmp_path / "report.json") == samples.report()


def test_the_simple_local_reporter_keeps_users_apart(tmp_path: Path) -> None:
    SimpleLocalReporter(tmp_path).report(samples.report(user_identifier="nightly 7"))
    assert _files(tmp_path) == ["nightly_7/report.html", "nightly_7/report.json"]


def test_an_earlier_report_is_kept_under_its_own_run_id(tmp_path: Path) -> None:
    reporter = SimpleLocalReporter(tmp_path)
    for number, run_id in enumerate(("a", "b", "a", "a")):
        reporter.report(samples.report(id=run_id, wall_s=float(number)))
    documents = sorted(tmp_path.glob("*.json"))
    assert [path.name for path in documents] == ["report-a-1.json", "report-a.json", "report-b.json", "report.json"]
    earlier = [(read_report(path).run.id, read_report(path).run.wall_s) for path in documents]
    assert earlier == [("a", 2.0), ("a", 0.0), ("b", 1.0), ("a", 3.0)]
    for path, (run_id, seconds) in zip(documents, earlier, strict=True):  # each page goes with its report
        page = path.with_suffix(".html").read_text(encoding="utf-8")
        assert f"<dd>{run_id}</dd>" in page
        assert f"<dd>{seconds:g} s</dd>" in page


def test_what_is_no_report_is_kept_too(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text("precious")
    SimpleLocalReporter(tmp_path).report(samples.report())
    assert (tmp_path / "report-unknown.json").read_text() == "precious"


@pytest.mark.parametrize("reporter", [LocalReporter, SimpleLocalReporter])
def test_flame_graphs_of_causes_lie_beside_a_report_and_go_along_with_it(
    tmp_path: Path, reporter: type[LocalReporter | SimpleLocalReporter]
) -> None:
    explained = made_report(60, seed=7, flames=1)
    reporter(tmp_path).report(explained)
    (flames,) = tmp_path.rglob("*.speedscope.json")
    assert flames.with_name("report.json").exists()
    assert flames.read_text(encoding="utf-8") == to_speedscope(explained).text
    reporter(tmp_path).report(samples.report())
    (earlier,) = tmp_path.rglob("*.speedscope.json")
    assert earlier.with_name(earlier.name.replace(".speedscope", "")).exists()
    assert "report" in earlier.name
    assert not (tmp_path / "report.speedscope.json").exists()


@pytest.fixture
def callgrind(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Callgrind's files of a run, in the folder that it has them in."""
    folder = tmp_path_factory.mktemp("callgrind")
    for side in ("control", "treatment"):
        (folder / "dot" / "forward" / side).mkdir(parents=True)
        (folder / "dot" / "forward" / side / "callgrind.out").write_text(f"events: Ir\n# {side}\n")
    return folder


@pytest.mark.parametrize("reporter", [LocalReporter, SimpleLocalReporter])
def test_callgrinds_files_lie_beside_a_report_and_go_along_with_it(
    tmp_path: Path, reporter: type[LocalReporter | SimpleLocalReporter], callgrind: Path
) -> None:
    explained = made_report(60, seed=7, flames=1)
    outcome = report_on_disk([reporter(tmp_path)], explained, callgrind)
    assert outcome.failures == ()
    (path,) = tmp_path.rglob("report.json")
    assert _files(path.with_name("report.callgrind")) == _files(callgrind)
    reporter(tmp_path).report(samples.report())
    (earlier,) = tmp_path.rglob("*.callgrind")
    assert (earlier / "dot/forward/treatment/callgrind.out").read_text() == "events: Ir\n# treatment\n"
    assert read_report(earlier.with_suffix(".json")).run.id == explained.run.id
    assert not list(tmp_path.rglob(".*"))


def test_no_files_of_callgrind_are_kept_of_a_run_without_causes(tmp_path: Path, callgrind: Path) -> None:
    """An interrupted one, whose files may be cut off; and where none were made there is no folder."""
    LocalReporter(tmp_path).report(samples.report(), callgrind)
    LocalReporter(tmp_path).report(made_report(60, seed=7, flames=1), tmp_path / "none")
    assert len(list(tmp_path.rglob("report.json"))) == 2
    assert not list(tmp_path.rglob("*.callgrind"))


def test_files_of_callgrind_that_can_not_be_copied_cost_no_report(tmp_path: Path, callgrind: Path) -> None:
    (callgrind / "gone").symlink_to(callgrind / "nowhere")
    explained = made_report(60, seed=7, flames=1)
    outcome = report_on_disk([SimpleLocalReporter(tmp_path)], explained, callgrind)
    (failure,) = outcome.failures
    path = tmp_path / "report.json"
    assert f"cannot write {tmp_path}/report.callgrind (" in failure
    assert "No such file or directory" in failure
    assert failure.endswith(f"; {path} is there, and has everything")
    assert outcome.lines == (f"report: {path}",)
    assert _files(tmp_path) == ["report.html", "report.json", "report.speedscope.json"]


def test_a_page_of_somebody_else_is_kept_too(tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text("precious")
    (tmp_path / "report-unknown.html").write_text("older")
    SimpleLocalReporter(tmp_path).report(samples.report())
    assert (tmp_path / "report-unknown.html").read_text() == "older"
    assert (tmp_path / "report-unknown-1.html").read_text() == "precious"
    assert "<html" in (tmp_path / "report.html").read_text()


def test_a_page_that_cannot_be_kept_costs_no_report(tmp_path: Path) -> None:
    reporter = SimpleLocalReporter(tmp_path)
    reporter.report(samples.report(id="a"))
    (tmp_path / "report-a.html").mkdir()
    reporter.report(samples.report(id="b"))
    assert sorted(path.name for path in tmp_path.glob("*.json")) == ["report-a.json", "report.json"]
    assert read_report(tmp_path / "report.json").run.id == "b"


def test_at_once_no_report_is_lost(tmp_path: Path) -> None:
    _at_once(12, lambda number: SimpleLocalReporter(tmp_path).report(samples.report(id=str(number))))
    assert len(_files(tmp_path)) == 24
    assert {read_report(path).run.id for path in tmp_path.glob("*.json")} == set(map(str, range(12)))


def test_a_failed_simple_write_leaves_all_as_it_was(
    tmp_path: Path, full_disk: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    reporter = SimpleLocalReporter(tmp_path)
    reporter.report(samples.report(id="old"))
    full_disk("fsync")
    with pytest.raises(RunError, match="No space left on device"):
        reporter.report(samples.report(id="new"))
    monkeypatch.undo()
    assert _files(tmp_path) == ["report.html", "report.json"]
    assert read_report(tmp_path / "report.json").run.id == "old"


def test_a_failed_local_write_leaves_no_folder(tmp_path: Path, full_disk: Callable[[str], None]) -> None:
    full_disk("fsync")
    with pytest.raises(RunError, match="No space left on device"):
        LocalReporter(tmp_path).report(samples.report())
    assert os.listdir(run_folder(tmp_path, samples.report())) == []


@BOTH
def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path, kind: Callable[[Path], Reporter]) -> None:
    (tmp_path / "file").write_text("in the way")
    reporter = kind(tmp_path / "file" / "below")
    with pytest.raises(RunError) as raised:
        reporter.report(samples.report())
    assert str(tmp_path / "file" / "below") in str(raised.value)
    assert f"give --{reporter.option} a folder that can be written" in str(raised.value)
    assert raised.value.exit_code == 3


@BOTH
def test_what_both_write_is_the_same_document(tmp_path: Path, kind: Callable[[Path], Reporter]) -> None:
    report: Report = samples.report()
    line = kind(tmp_path).report(report)
    assert line is not None
    document = json.loads(Path(line.removeprefix("report: ")).read_text())
    assert document == json.loads(json.dumps(asdict(report)))


@pytest.fixture
def break_pages(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def broken(*_: object) -> str:
        raise ZeroDivisionError("oops")

    return lambda: monkeypatch.setattr(page, "to_html", broken)


@BOTH
def test_a_page_that_fails_costs_no_report(
    tmp_path: Path, kind: Callable[[Path], Reporter], break_pages: Callable[[], None]
) -> None:
    break_pages()
    outcome = report_all([kind(tmp_path)], samples.report())
    (path,) = tmp_path.rglob("report.json")
    assert outcome.lines == (f"report: {path}",)
    (failure,) = outcome.failures
    assert f"cannot write {path.with_suffix('.html')} (ZeroDivisionError: oops)" in failure
    assert read_report(path) == samples.report()
    assert not list(tmp_path.rglob("*.html"))


def test_no_page_of_another_run_is_left_beside_a_report(tmp_path: Path, break_pages: Callable[[], None]) -> None:
    reporter = SimpleLocalReporter(tmp_path)
    reporter.report(samples.report(id="old"))
    break_pages()
    report_all([reporter], samples.report(id="new"))
    assert _files(tmp_path) == ["report-old.html", "report-old.json", "report.json"]
