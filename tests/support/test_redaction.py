"""Secrets are taken out of texts, command lines and variables, and nothing else is."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opduel.records import Failure, RunError
from opduel.support.redaction import (
    bare_address,
    mask_everywhere,
    recorded_command,
    recorded_variables,
    redact,
    redact_data,
    redact_inputs,
    secret_arguments,
    secrets_of,
    without_user,
)

SLACK = "https://hooks.slack.com/services/"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("fatal: https://u:p@h/x", "fatal: https://***@h/x"),
        ("'https://u:p@ss@h/x.git/'", "'https://***@h/x.git/'"),
        ("https://token@h/x and http://a:b@c", "https://***@h/x and http://***@c"),
        ("ssh://git:p@h/x", "ssh://***@h/x"),
        ("the file https:/u:p@h/x", "the file https:/***@h/x"),  # an address that was taken for a path
        ("my secret/1 and secret%2F1", "my *** and ***"),
        ("Authorization: Basic abc= more", "Authorization: Basic *** more"),
        ('curl -H "Authorization: Bearer X" h', 'curl -H "Authorization: Bearer ***" h'),
        ("-H 'authorization:X'", "-H 'authorization:***'"),
        ("X-Api-Key: abc, PRIVATE-TOKEN: def", "X-Api-Key: *** PRIVATE-TOKEN: ***"),
        ("Cookie: a=b; c=d", "Cookie: ***"),
        ("curl -u me:pw h", "curl -u *** h"),
        ("https://h/x?private_token=abc&page=2", "https://h/x?private_token=***&page=2"),
        ("https://h/x?sig=abc#top", "https://h/x?sig=***#top"),
        ("PASSWORD=hunter2 MY_TOKEN='x' --api-key=y", "PASSWORD=*** MY_TOKEN='***' --api-key=***"),
        ('{"password": "two words", "n": 1}', '{"password": "***", "n": 1}'),
        ("run --token hunter22x -n 3", "run --token *** -n 3"),
        ("run -api_key 'two words' x", "run -api_key *** x"),
        (f"posted to {SLACK}T0/B0/xyz", f"posted to {SLACK}***"),
        ("ghp_1234567890abcdefghij here", "*** here"),
        (f"opduel_{'0a' * 8}_{'x' * 43}", "***"),
        ("-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY----- x", "-----BEGIN PRIVATE KEY-----*** x"),
    ],
)
def test_what_is_a_secret_is_masked(text: str, expected: str) -> None:
    assert redact(text, ["secret/1"]) == expected
    assert redact(expected, ["secret/1"]) == expected, "masking twice changes nothing"


@pytest.mark.parametrize(
    "text",
    [
        "ssh://git@h/x",
        "git@host:x.git",
        "mail ada@example.org at https://h/x",
        "--remote_access_token_file /run/token: others can read or change it: chmod 600 /run/token",
        "--remote_access_token: holds no token: give one of 1 to 4096 letters",
        "argument --remote_access_token: expected one argument; see harness.py --help",
        "TOKEN_FILE=/run/secrets/token max_tokens=128 use_token=true",
        "fatal: Authentication failed for 'https://h/x'",
        "nd.Embedding/(64,64)/float32: bearer of the basic regression",
        "https://h/runs?page=2&case=nd.add",
        "mxnet==1.9.1",
        "--max_tokens 128 --use_token --token-file /run/x",
        "--notify_webhook failed: 127.0.0.1: no connection",
        "--notify_webhook @/etc/hook: not an address",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact(text) == text


def test_secrets_of_the_environment_are_found_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI_JOB_TOKEN", "wonderful/1")
    monkeypatch.setenv("DB_PASSWORD", "short")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", "/run/credentials")
    monkeypatch.setenv("OPDUEL_NOTIFY_WEBHOOK", "@/run/hook")
    text = "it said wonderful/1, wonderful%2F1, short, /run/credentials, @/run/hook"
    assert redact(text) == "it said ***, ***, short, /run/credentials, @/run/hook"
    assert "wonderful/1" in secrets_of({"A_SECRET": "wonderful/1", "B": "wonderful/2"})


@pytest.mark.parametrize("unit", ["key", "-eyJaaaaaaaa", "--token ", "https://", "token'  ", "-----BEGIN ", "a:/@"])
def test_a_long_text_takes_no_more_than_its_length(unit: str) -> None:
    text = "x-" + unit * (300_000 // len(unit))
    began = time.process_time()
    redact(text)
    assert time.process_time() - began < 2  # the square of its length took more than a minute


def test_a_large_environment_costs_a_short_text_little(monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(2000):
        monkeypatch.setenv(f"SERVICE_{number}_PORT_8080_TCP_ADDRESS", "10.0.0.1")
    began = time.process_time()
    for _ in range(1000):
        redact("boom")
    assert time.process_time() - began < 2  # 8 s when each text searched all names anew


@pytest.mark.usefixtures("nothing_masked")
def test_what_the_user_gave_to_keep_is_found_anywhere_and_line_by_line() -> None:
    mask_everywhere(["a\\b is secret", "first line\nsecond line\nx", "short", "1234567"])
    text = repr(ValueError("a\\b is secret"))
    assert redact(f"{text}; a\\b is secret; second line; first%20line; x; short; 1234567") == (
        "ValueError('***'); ***; ***; ***; x; short; 1234567"
    )


def test_a_secret_that_is_no_text_is_found_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SECRET", "\udcff23456789")
    assert redact("x \udcff23456789 %FF23456789") == "x *** ***"


def test_plain_data_is_searched_to_its_ends() -> None:
    data = {"a": [1, None, "https://u:p@h/x", {"b": ("-u me:pw",)}], "token": "x", "tokens": 7, "file": "token.txt"}
    assert redact_data(data) == {
        "a": [1, None, "https://***@h/x", {"b": ("-u ***",)}],
        "token": "***",
        "tokens": 7,
        "file": "token.txt",
    }


def test_a_word_after_a_secret_option_is_masked_in_a_list_of_words() -> None:
    words = ["run", "--token", "hunter22x", "--key_file", "x", "--password", "--verbose", "--secret=a", "--tokens", "5"]
    assert redact_data({"command": words})["command"] == [
        *["run", "--token", "***", "--key_file", "x", "--password", "--verbose", "--secret=***", "--tokens", "5"]
    ]
    assert secret_arguments(words) == {"hunter22x", "a"}


def test_of_a_case_only_what_a_program_is_given_is_redacted() -> None:
    program = {"command": ("{program}", "--token", "x"), "env": {"A": "b", "OMP_NUM_THREADS": "2"}, "parse": "observer"}
    assert redact_inputs(program) == {
        "command": ("{program}", "--token", "***"),
        "parse": "observer",
        "env": {"A": "***", "OMP_NUM_THREADS": "2"},
    }
    arguments = {"token_pattern": "PASSWORD=x", "env": {"A": "b"}}
    assert redact_inputs(arguments) == arguments


def test_a_command_line_keeps_only_what_is_known_to_be_harmless() -> None:
    words = ["harness.py", "-b", "smoke", "-bconv", "--seed", "-1", "--operators", "a", "b", "--remote=https://u:p@h/"]
    words += ["--hook", "MARKER", "MARKER", "--hook=MARKER", "-hMARKER", "--verify", "MARKER", "--", "MARKER"]
    assert recorded_command(words, {"-b", "--seed", "--operators", "--remote"}) == [
        *["harness.py", "-b", "smoke", "-bconv", "--seed", "-1", "--operators", "a", "b", "--remote=https://***@h/"],
        *["--hook", "***", "***", "--hook=***", "-h***", "--verify", "***", "--", "***"],
    ]


@given(st.lists(st.text(alphabet="-=abkM ", max_size=8)))
def test_no_value_of_another_option_is_ever_kept(words: list[str]) -> None:
    """Whatever the order, what is kept of a word is the name of an option, unless it belongs to ``--kept``."""
    recorded = recorded_command(["program", *words], {"--kept"})
    assert len(recorded) == len(words) + 1
    for word, recorded_word in zip(words, recorded[1:], strict=True):
        name = word.partition("=")[0] if word.startswith("--") else word[:2]
        assert recorded_word in ("***", name, f"{name}=***", f"{name}***")


def test_variables_are_kept_when_they_are_known_to_be_harmless() -> None:
    variables = {
        "OMP_NUM_THREADS": "2",
        "TOY_SETTING": "on",
        "TOY_TOKEN": "MARKER",
        "PATH": "/bin",
        "DATABASE": "MARKER",
        "MALLOC_ARENA_MAX": "https://u:MARKER@h/",
    }
    assert recorded_variables(variables, {"PATH", "TOY_"}) == {
        "OMP_NUM_THREADS": "2",
        "TOY_SETTING": "on",
        "TOY_TOKEN": "***",
        "PATH": "/bin",
        "DATABASE": "***",
        "MALLOC_ARENA_MAX": "https://***@h/",
    }


def test_one_address() -> None:
    assert bare_address("https://u:p@h:8/x?y#z") == "https://h:8/x"
    assert bare_address("/a/file?x") == "/a/file?x"
    assert bare_address("http://[::1/x") == "http://[::1/x"
    assert without_user("u:p@ss/word@h/x") == "***@h/x"
    assert without_user("https://u:p@h/x") == "https://***@h/x"
    assert without_user("https://h/x") == "https://h/x"


def test_errors_and_failures_hold_no_secret() -> None:
    assert str(RunError("can't read https://u:p@h/x")) == "can't read https://***@h/x"
    failure = Failure("control", "error", "no https://u:p@h/x", "PASSWORD=x")
    assert (failure.reason, failure.output_tail) == ("no https://***@h/x", "PASSWORD=***")


@pytest.mark.parametrize("piece", ["a", "a.", "token", "x-", "://", "eyJ", "-----BEGIN PRIVATE KEY-----", "u:p@", '"'])
def test_long_texts_take_no_long_time(piece: str) -> None:
    """Patterns that backtrack would take minutes: time grows as the text does, not as its square."""

    def seconds(times: int) -> float:
        began = time.process_time()
        redact(piece * times)
        return time.process_time() - began

    assert seconds(16_000) < 50 * seconds(1_000) + 0.2
