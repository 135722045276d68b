"""Real runs of a small C library that are posted: by the driver, by harness.py, and by --flush what waited."""

import json
from pathlib import Path

from faulty_server import TOKEN, ResultsServer
from toy_driver import SPEC, ToyDriver

from opduel.reporters.options import TOKEN_VARIABLE

OLD = "tok-of-last-year"


def test_what_was_measured_arrives_bit_for_bit_whoever_measured_it(driver: ToyDriver) -> None:
    """The driver's first report waits for a better token; --flush sends it, and harness.py the next one."""
    driver = driver.with_environment(no_proxy="localhost", **{TOKEN_VARIABLE: OLD})
    with ResultsServer() as server:
        remote = ("--remote_reporter", server.place)
        outcome = driver.run("--branch", "quiet", "--operators", "add", *remote)
        assert outcome.code == 0, outcome.err
        (first,) = driver.reports()
        (path,) = driver.reports_folder.rglob("report.json")
        assert "it says 401 Unauthorized: no such token (give a token that it knows" in outcome.err
        assert f"the data is in {path}\n" in outcome.err
        assert server.stored == {}

        driver = driver.with_environment(**{TOKEN_VARIABLE: TOKEN})
        flushed = driver.run_other("run_bench", "--flush")
        assert flushed.code == 0, flushed.err
        assert [line.split("\t")[:2] for line in flushed.out.splitlines()[1:]] == [["sent", first["run"]["id"]]]

        (info,) = (driver.work / "info").glob("*.json")
        spec = str(driver.specifications / SPEC)
        options = ("--operators", "add", *driver.options[: driver.options.index("--min_free")])
        reports = ("--simple_local_reporter", str(driver.work / "confirmation"))
        second = driver.run_other("harness", "-b", spec, "--info", str(info), *options, *reports, *remote)
        assert f"sent: {server.endpoint} (nightly)\n" in second.err, second.err
        own = json.loads((driver.work / "confirmation" / "report.json").read_text())
        posted = {run: json.loads(body) for run, body in server.stored.items()}
    assert posted == {report["run"]["id"]: {"category": "nightly", "report": report} for report in (first, own)}
    written = [path.read_bytes() for path in Path(driver.work).rglob("*") if path.is_file()]
    assert not any(token.encode() in content for token in (OLD, TOKEN) for content in written)
    assert not any(token in text for token in (OLD, TOKEN) for text in (flushed.err, second.err, flushed.out))
