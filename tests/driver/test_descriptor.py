"""--info: what the driver writes the harness reads, AI-PEP's own documents too; whatever else is one clear error."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_runs import a_build, a_commit

from opduel.driver.descriptor import info_document, read_info
from opduel.records import UsageError

CONTROL, TREATMENT = a_build("old", a_commit(1)), replace(a_build("new", a_commit(2)), interpreter="/other/python")

# As FAI-PEP's repo_driver.py puts it together (getCommitInfo, runBenchmarks).
AI_PEP = {
    "treatment": {"commit": "abc", "commit_time": 5, "programs": {"program": {"location": "/new/python"}}, "x": 1},
    "control": {"commit": "def", "commit_time": 4, "program": "/old/python"},
    "regression_commits": [{"commit": "abc", "commit_time": 5}],
}


def test_what_is_written_is_read_back() -> None:
    document = info_document(CONTROL, TREATMENT, [a_commit(2)])
    assert document["regression_commits"] == [{"commit": a_commit(2).id, "commit_time": a_commit(2).time}]
    described = read_info(json.dumps(document))
    assert (described["control"].location, described["control"].commit) == ("/python", a_commit(1))
    assert (described["treatment"].location, described["treatment"].commit) == ("/other/python", a_commit(2))


def test_a_document_of_ai_pep_s_own(tmp_path: Path) -> None:
    path = tmp_path / "info.json"
    path.write_text(json.dumps(AI_PEP))
    for described in (read_info(str(path)), read_info(json.dumps(AI_PEP))):
        assert (described["treatment"].location, described["control"].location) == ("/new/python", "/old/python")
        assert described["treatment"].commit
        assert (described["treatment"].commit.id, described["treatment"].commit.time) == ("abc", 5)


def test_a_treatment_may_be_alone() -> None:
    assert list(read_info(json.dumps(without("control")))) == ["treatment"]


def test_a_release_is_described_without_a_commit_s_time() -> None:
    document = info_document(a_build("toy==1.0"), TREATMENT)
    assert (document["control"]["commit"], document["control"]["commit_time"]) == ("toy==1.0", 0)


def without(*path: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(json.dumps(info_document(CONTROL, TREATMENT)))
    inner = document
    for name in path[:-1]:
        inner = inner[name]
    del inner[path[-1]]
    return document


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "--info: is not JSON"),
        ("/no/such/file", "--info /no/such/file: No such file or directory: give JSON, or the path"),
        ("{}", "--info: treatment is missing: add it"),
        (json.dumps({**AI_PEP, "control": {"commit": "def"}}), "control.programs.program.location: is missing"),
        (json.dumps({**AI_PEP, "control": {"commit_time": "x"}}), "control.commit_time is 'x': use an integer"),
    ],
)
def test_whatever_else_it_is_is_one_line(text: str, words: str) -> None:
    with pytest.raises(UsageError) as error:
        read_info(text)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_a_binary_file_is_no_document(tmp_path: Path) -> None:
    path = tmp_path / "info.json"
    path.write_bytes(b"\xff\xfe{}")
    with pytest.raises(UsageError, match="is not UTF-8 text"):
        read_info(str(path))
