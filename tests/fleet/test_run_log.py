"""What a fleet's run finds in its log: every case is in one shard, whatever has moved, and wherever the log ends."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from made_samples import a_case
from report_samples import CONTROL, TREATMENT, report

from opduel.comparator import compare_cases, plan_looks
from opduel.fleet.run_log import KIND, Kept, identity, kept_of
from opduel.frameworks import get_framework
from opduel.harness.run import RunRequest
from opduel.records import Case, Report
from opduel.reporters.document import to_bytes

CASES = [a_case(f"c{number}") for number in range(6)]


class Texts:
    """A round log in memory."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def rounds(self) -> Sequence[str]:
        return self.texts

    def keep(self, text: str) -> None:
        self.texts.append(text)


def request(texts: Texts) -> RunRequest:
    return RunRequest(get_framework("python"), CONTROL, TREATMENT, CASES, 1, log=texts)


def report_of(cases: Sequence[Case]) -> str:
    made: Report = report(compare_cases(cases, {}, {}, plan_looks(5)))
    return to_bytes(replace(made, cases=tuple(cases))).decode()


def say(texts: Texts, **entry: Any) -> None:
    texts.keep(json.dumps({"kind": KIND, "run": identity(request(texts)), **entry}))


def read(texts: Texts) -> Kept:
    made = request(texts)
    return kept_of(made, identity(made), lambda case: 1.0)


def ids(cases: Sequence[Case]) -> list[str]:
    return [case.id for case in cases]


def test_a_run_that_was_not_begun_has_no_shards() -> None:
    texts = Texts()
    assert read(texts) == Kept()
    texts.keep("{damaged")
    texts.keep(json.dumps({"kind": KIND, "run": "another", "event": "cut", "shards": [["c0"]]}))
    assert read(texts) == Kept()


@pytest.mark.parametrize("settled", [2, 0])
def test_what_moved_is_in_other_shards(settled: int) -> None:
    texts = Texts()
    say(texts, event="cut", shards=[ids(CASES[:4]), ids(CASES[4:])])
    begun = read(texts)
    first = next(iter(begun.shards))
    say(texts, event="round", key=first, host="slow", text="{}")
    part = report_of(CASES[:settled]) if settled else None
    parts = [ids(CASES[settled:3]), ids(CASES[3:4])]
    say(texts, event="moved", key=first, host="slow", report=part, shards=parts)
    found = read(texts)
    assert sorted(case.id for shard in found.shards.values() for case in shard.cases) == ids(CASES)
    assert [ids(found.shards[key].cases) for key in found.shards if key in found.moved] == parts
    assert found.given_up == 4 - settled
    assert set(found.moved.values()) == {found.given_up}
    assert len({shard.number for shard in found.shards.values()}) == len(found.shards)
    assert sum(shard.share for shard in found.shards.values()) == pytest.approx(1)
    assert {key: (one.host, one.whole) for key, one in found.done.items()} == (
        {first: ("slow", False)} if settled else {}
    )
    assert not any(found.rounds.get(key) for key in found.moved)
    # A text that stands there twice changes nothing, and a new shard's report is its own.
    say(texts, event="moved", key=first, host="slow", report=part, shards=parts)
    key = sorted(found.moved)[0]
    say(texts, event="report", key=key, host="quick", report=report_of(found.shards[key].cases))
    again = read(texts)
    assert again.shards == found.shards
    assert again.given_up == found.given_up
    assert again.done[key].host == "quick"


def test_a_move_that_was_not_kept_leaves_the_shard_as_it_was() -> None:
    texts = Texts()
    say(texts, event="cut", shards=[ids(CASES)])
    key = next(iter(read(texts).shards))
    say(texts, event="moved", key=key, host="slow", report=report_of(CASES[:2]), shards=[ids(CASES[2:])])
    texts.texts[-1] = texts.texts[-1][:-20]  # a kill cut it off
    found = read(texts)
    assert [ids(shard.cases) for shard in found.shards.values()] == [ids(CASES)]
    assert (found.done, found.given_up) == ({}, 0)
