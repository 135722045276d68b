"""--across hosts and --platforms a,b: what they ask for, what does not go together, cases of earlier reports."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_samples import a_case, pairs
from report_samples import comparison, report

from opduel.commands.case_selection import pick_cases
from opduel.commands.driver_options import driver_parser, parse_driver_options
from opduel.commands.driver_places import build_platform
from opduel.commands.fleet import fleet_choice
from opduel.commands.harness_adapter import HarnessAdapter
from opduel.commands.launch import run_driver, run_harness
from opduel.commands.options import read_options
from opduel.commands.session import Session, plan_session
from opduel.fleet.address import FleetChoice
from opduel.frameworks import get_framework
from opduel.records import Build, UsageError

FLEET = ("--fleet", "tls://bench:8786")


def choice(*words: str) -> FleetChoice | None:
    return fleet_choice(read_options(["-b", "smoke", *words]))


def test_what_is_asked_for() -> None:
    plain, hosts, tags = choice(*FLEET), choice(*FLEET, "--across", "hosts"), choice(*FLEET, "--platforms", "a, b")
    assert plain is not None
    assert hosts is not None
    assert tags is not None
    assert (plain.each_kind, hosts.each_kind, tags.each_kind) == (False, True, True)
    assert (hosts.platforms, tags.platforms) == ((), ("a", "b"))
    named = choice(*FLEET, "-p", "bench")
    assert named is not None
    assert not named.each_kind  # one name is a label, as without a fleet


def test_it_is_kept_with_the_report() -> None:
    options = read_options(["-b", "smoke", *FLEET, "--across", "hosts"])
    assert options.configuration().across == "hosts"
    assert read_options(["-b", "smoke", "-p", "a, b"]).configuration().platforms == ("a", "b")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--across", "hosts"], "--across: chooses hosts of a fleet: add --fleet ADDRESS"),
        (["--platforms", "a,b"], "--platforms a,b: this host is one platform: give one name, or add --fleet ADDRESS"),
        (
            [*FLEET, "-p", "a,b", "--across", "hosts"],
            "--platforms a,b: are kinds of hosts by tag, and --across by what",
        ),
        ([*FLEET, "-p", "a,,b"], "--platforms a,,b: '' is no tag of a host"),
        ([*FLEET, "-p", "a,b c"], "--platforms a,b c: 'b c' is no tag of a host"),
        ([*FLEET, "-p", "a,b,a"], "--platforms a,b,a: give each name once"),
    ],
)
def test_what_does_not_go_together(words: list[str], why: str) -> None:
    with pytest.raises(UsageError) as caught:
        choice(*words)
    assert str(caught.value).startswith(why)


def test_the_only_value_is_hosts() -> None:
    with pytest.raises(UsageError, match="--across: invalid choice: 'cpus'"):
        choice(*FLEET, "--across", "cpus")


def test_one_build_alone_is_for_this_host() -> None:
    with pytest.raises(UsageError, match="--across: belongs to an A/B"):
        run_harness("harness.py", ["-b", "smoke", "--single", "--across", "hosts"])


def test_the_driver_takes_several_platforms_with_a_fleet() -> None:
    options = parse_driver_options(["--ab_testing", "-b", "smoke", "--platforms", "a,b", *FLEET])
    assert (options.own.platforms, options.harness.platform) == ("a,b", "a,b")


def test_the_driver_without_a_fleet_is_one_platform(tmp_path: Path) -> None:
    words = ["--ab_testing", "-b", "smoke", "--platforms", "a,b", "--work_dir", str(tmp_path)]
    with pytest.raises(UsageError, match="--platforms a,b: this host is one platform"):
        run_driver("repo_driver.py", words)


def test_platforms_share_their_builds(tmp_path: Path) -> None:
    """Unless one has a build script of its own: its builds would be others."""

    def options_for(platforms: str) -> Any:
        return driver_parser().parse_args(["--platforms", platforms])

    framework = get_framework("mxnet")
    assert [build_platform(options_for(names), framework) for names in ("host", "mine", "a,b", "host,a")] == [
        *("host", "mine", "host", "host")
    ]
    specifications = tmp_path / "mxnet"
    specifications.mkdir()
    for path in framework.specifications.iterdir():
        (specifications / path.name).symlink_to(path)
    (specifications / "b").symlink_to(framework.specifications / "host")
    with pytest.raises(UsageError, match="--platforms a,b: b has a build script of its own"):
        build_platform(options_for("a,b"), get_framework("mxnet", tmp_path))


def test_cases_of_a_report_by_kind_are_measured_on_their_kinds() -> None:
    cases = [a_case("add/forward"), a_case("mul/forward")]
    words = ["--regressed_types", '["add/forward@avx2", "mul/forward"]']
    options = read_options(["-b", "smoke", *words, "--across", "hosts"])
    assert [(case.id, case.kind) for case in pick_cases(cases, options)] == [
        ("mul/forward", None),
        ("add/forward@avx2", "avx2"),
    ]
    with pytest.raises(UsageError, match=r"there is no case 'add/forward@avx2': did you mean add/forward\?"):
        pick_cases(cases, read_options(["-b", "smoke", *words]))


@pytest.fixture
def session(tmp_path: Path) -> Session:
    words = ["-b", "smoke", "--operators", "exp", "--seed", "5", "--local_reporter", str(tmp_path), *FLEET]
    return plan_session(read_options([*words, "--across", "hosts"]), {}, ["repo_driver.py"])


def test_a_bisection_measures_a_case_on_the_kind_where_it_regressed(session: Session) -> None:
    ids = [case.id for case in session.cases]
    adapter = HarnessAdapter(session)

    def chosen(case_ids: Sequence[str] | None) -> list[tuple[str, str | None]]:
        return [(case.id, case.kind) for case in adapter._cases(case_ids)]

    assert chosen(None) == [(case_id, None) for case_id in ids]
    assert chosen([ids[0]]) == [(ids[0], None)]
    both = [f"{ids[0]}@{kind}" for kind in ("avx2", "avx512f")]
    assert chosen(both) == [(both[0], "avx2"), (both[1], "avx512f")]


def test_a_replication_takes_over_what_is_of_the_same_kind(session: Session) -> None:
    """The noise that another kind of host had says nothing of this one's."""
    case = session.cases[0]
    rows = [case.of_kind(kind) for kind in ("avx2", "avx512f")]
    again = [*rows, a_case("other/forward").of_kind("avx2")]
    comparisons = [
        comparison(
            row.id, "regressed", 1.1, kind=row.kind, samples=pairs(row.id, "screening", [0.1, 0.11, 0.12, 0.1, 0.1])
        )
        for row in again
    ]
    benchmark = replace(report(comparisons), cases=tuple(again))
    adapter = HarnessAdapter(session)
    build = Build("mxnet", "a", "release", "/no/python", "1.0", "3.11.0", "00")
    first = adapter._take_over(benchmark, rows, session.request(build, build))
    assert {kind: set(measurement.samples) for kind, measurement in first.by_kind.items()} == {
        row.kind: {row.id} for row in rows
    }
    alone = adapter._take_over(replace(benchmark, cases=(rows[1],)), [rows[1]], session.request(build, build))
    assert first.by_kind["avx512f"].priors == alone.by_kind["avx512f"].priors
