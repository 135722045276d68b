"""Programs as the worker runs them: one run at a time, what it used and printed, and every way in which it can fail."""

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from adaptor_modules import load_adaptor

adaptor = load_adaptor("generic")
program = adaptor.program
PLAIN = {"direction": "forward", "context": "cpu", "files": {}}
EXPECTED = " (if that is right, list it in the test's exit_codes; of opduel run, give -i)"
Script = Callable[..., dict[str, Any]]


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Script:
    """Writes a shell script, makes it the program of this build, and returns a case that runs it."""
    monkeypatch.setattr(adaptor, "_SHARED", os.memfd_create("fresh"))  # as in a worker of its own

    def write(text: str, **inputs: Any) -> dict[str, Any]:
        path = tmp_path / "program"
        path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        path.chmod(0o755)
        monkeypatch.setenv("OPDUEL_PROGRAM", str(path))
        return {"id": "one/forward", **PLAIN, "inputs": {"command": ["{program}"], **inputs}}

    return write


def printed(case: dict[str, Any]) -> str:
    return str(program.Command(case).run(keep=True).output)


def test_arguments_environment_and_folder_are_the_cases_own(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MALLOC_TOP_PAD_", "1")
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    case = script(
        'printf "%s|" "$#" "$1" "$2" "$SIZE" "$PWD" "$MALLOC_TOP_PAD_$PYTHONHASHSEED$OPDUEL_PROGRAM"; cat',
        command=["{program}", "a b; $(id)", "-x={program}"],
        env={"SIZE": "7"},
        cwd=str(tmp_path),
    )
    path = tmp_path / "program"
    assert printed(case) == f"2|a b; $(id)|-x={path}|7|{tmp_path}||"
    monkeypatch.setenv("MALLOC_ARENA_MAX", "2")  # the user's, by --env
    monkeypatch.setenv("PYTHONOPTIMIZE", "1")
    monkeypatch.setenv("OPDUEL_ENV", "MALLOC_ARENA_MAX,PYTHONOPTIMIZE")
    assert printed(script('printf %s "$MALLOC_ARENA_MAX $PYTHONOPTIMIZE$MALLOC_TOP_PAD_$OPDUEL_ENV"')) == "2 1"


def test_files_stand_where_the_command_names_them(script: Script) -> None:
    case = script('printf "%s|" "$@"', command=["{program}", "-n={files.net}", "{files.a}"])
    assert printed({**case, "files": {"net": "/a b/{files.a}", "a": "/x"}}) == "-n=/a b/{files.a}|/x|"


def test_a_run_leads_a_process_group_of_its_own_and_has_no_other_descriptors(script: Script) -> None:
    output = printed(script('cut -d" " -f5 /proc/$$/stat; echo $$; ls /proc/$$/fd; grep SigIgn /proc/$$/status'))
    group, pid, *descriptors = output.split()
    assert group == pid
    assert descriptors[: descriptors.index("SigIgn:")] in (
        ["0", "1", "10", "2"],
        ["0", "1", "2"],
        ["0", "1", "2", "255"],
    )
    assert int(descriptors[-1], 16) & (1 << (signal.SIGPIPE - 1)) == 0


def test_what_a_program_leaves_running_is_killed(script: Script, tmp_path: Path) -> None:
    adaptor.make_call(script(f"sleep 100 & echo $! > {tmp_path}/pid"), 0)()
    pid = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 20
    while Path(f"/proc/{pid}/stat").exists() and time.monotonic() < deadline:
        if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            return  # dead; whoever it was left to has yet to notice
        time.sleep(0.01)
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("echo so far; echo no data >&2; exit 3", "error", f"the program ended with exit code 3: no data{EXPECTED}"),
        ("echo only this; exit 1", "error", f"the program ended with exit code 1: only this{EXPECTED}"),
        ("kill -SEGV $$", "crash", "the program was killed by SIGSEGV"),
    ],
)
def test_a_program_that_fails_says_how(script: Script, text: str, kind: str, words: str) -> None:
    with pytest.raises(program.ProgramError) as error:
        adaptor.make_call(script(text), 0)()
    assert (error.value.kind, str(error.value)) == (kind, words)


def test_other_exit_codes_may_be_right(script: Script) -> None:
    adaptor.make_call(script("exit 3", exit_codes=[1, 3]), 0)()
    assert adaptor.cpu_time(script("exit 1", exit_codes=[1]), 0) > 0
    with pytest.raises(program.ProgramError, match="exit code 0"):
        adaptor.make_call(script("exit 0", exit_codes=[1]), 0)()


def test_standard_input_is_a_file_from_its_beginning_or_nothing(script: Script, tmp_path: Path) -> None:
    (tmp_path / "words").write_text("a b")
    case = script("cat", stdin=str(tmp_path / "words"), cwd="/")
    assert (printed(case), printed(case), printed(script("cat"))) == ("a b", "a b", "")
    with pytest.raises(program.ProgramError, match="standard input /no/such can't be used: No such file"):
        adaptor.make_call(script("cat", stdin="/no/such"), 0)()


def test_each_run_has_a_fresh_folder(script: Script, tmp_path: Path) -> None:
    (tmp_path / "template").mkdir()
    (tmp_path / "template" / "data").write_text("some\n")
    text = "cat data; rm -f data; ls; touch left; pwd"
    copy = script(text, fresh_folder=True, cwd=str(tmp_path / "template"))
    for _ in range(2):
        content, folder = printed(copy).split()
        assert content == "some"
        assert not Path(folder).exists()
    assert printed(script(f"[ -e data ] || {{ {text}; }}", fresh_folder=True)).count("\n") == 1
    with pytest.raises(program.ProgramError, match=r"the working folder can't be used: .*No such file"):
        adaptor.make_call(script("echo", fresh_folder=True, cwd="/no/such"), 0)()


def test_what_is_run_around_a_program_is_not_measured(script: Script, tmp_path: Path) -> None:
    spend = "i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done"
    around = {
        "prepare": ["sh", "-c", f"echo $SIZE > made; {spend}"],
        "cleanup": ["sh", "-c", f"mv made done; {spend}"],
        "env": {"SIZE": "7"},
        "cwd": str(tmp_path),
    }
    case = script("cat made", **around)
    call = adaptor.make_call(case, 0)

    def look() -> tuple[float, float]:
        """Return what was measured, and its share of the time that it took with what is around it."""
        began = time.perf_counter_ns()
        measured_ns = call.sample()
        return measured_ns, measured_ns / (time.perf_counter_ns() - began)

    looks = [look() for _ in range(5)]  # any of which the machine may interrupt
    assert min(share for _, share in looks) < 1 / 4
    assert adaptor.cpu_time(case, 0) < 4 * max(measured_ns for measured_ns, _ in looks)
    assert (tmp_path / "done").read_text() == "7\n"
    assert not (tmp_path / "made").exists()
    assert printed(case) == "7\n"
    assert not hasattr(adaptor.make_call(script("cat made"), 0), "sample")


def test_prepared_runs_do_not_overlap_in_one_folder(script: Script, tmp_path: Path) -> None:
    case = script(
        "mkdir made && sleep 0.2", prepare=["rm", "-rf", "made"], cleanup=["rmdir", "made"], cwd=str(tmp_path)
    )
    children: list[int] = []
    for _ in range(2):
        children.append(os.fork())
        if children[-1] == 0:
            try:
                adaptor.make_call(case, 0)()
                os._exit(0)
            finally:
                os._exit(1)
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]


def test_what_is_run_around_a_program_may_fail(script: Script, tmp_path: Path) -> None:
    for name in ("prepare", "cleanup"):
        with pytest.raises(program.ProgramError, match=f"^the {name} command ended with exit code 3: no data$"):
            adaptor.make_call(script("exit 0", **{name: ["sh", "-c", "echo no data; exit 3"]}), 0)()
    with pytest.raises(program.ProgramError, match=r"^no-such-program can't be started: No such file"):
        adaptor.make_call(script("exit 0", prepare=["no-such-program"]), 0)()
    case = script("exit 5", cleanup=["sh", "-c", f"touch {tmp_path}/clean; exit 3"])
    with pytest.raises(program.ProgramError, match=r"^the program ended with exit code 5"):
        adaptor.make_call(case, 0)()
    assert (tmp_path / "clean").exists()


@pytest.mark.parametrize("other", [{"direction": "backward"}, {"context": "gpu"}])
def test_a_program_has_one_direction_and_no_context(script: Script, other: dict[str, str]) -> None:
    with pytest.raises(adaptor.ProgramError, match="a program has no"):
        adaptor.make_call({**script("exit 0"), **other}, 0)


def test_one_that_cannot_be_started_says_why(script: Script, tmp_path: Path) -> None:
    case = script("echo")
    (tmp_path / "program").write_text("#!/no/such/interpreter\n")
    with pytest.raises(program.ProgramError, match=r"program can't be started: No such file or directory"):
        adaptor.make_call(case, 0)()
    with pytest.raises(program.ProgramError, match=r"the working directory /no/such can't be used: No such file"):
        adaptor.make_call(script("echo", cwd="/no/such"), 0)()


def test_too_much_output_is_dropped_or_refused(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "MAX_OUTPUT", 1 << 20)
    flood = script("head -c 20000000 /dev/zero; head -c 20000000 /dev/zero >&2", parse="json_lines")
    adaptor.make_call(flood, 0)()
    with pytest.raises(adaptor.ProgramError, match="printed more than 1 MiB: print the values alone"):
        adaptor.values(flood, 0)


def test_its_own_processor_time_is_measured(script: Script) -> None:
    spent = adaptor.cpu_time(script("i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"), 0)
    assert spent > 2 * adaptor.cpu_time(script("sleep 0.2"), 0)


ALLOCATE = "x = bytearray(50 << 20)"
FROM_A_THREAD = f"""
import subprocess, sys, threading
thread = threading.Thread(target=subprocess.run, args=([sys.executable, "-c", "{ALLOCATE}"],))
thread.start()
thread.join()
"""
IN_A_FORK = f"import os\nif os.fork(): os.wait()\nelse: {ALLOCATE}"
READ_A_FILE = """
import mmap, os, tempfile
with tempfile.TemporaryFile() as file:
    file.truncate(50 << 20)
    area = mmap.mmap(file.fileno(), 50 << 20, access=mmap.ACCESS_READ)
    area[::4096]
    os._exit(0)
"""


@pytest.mark.parametrize(
    ("code", "megabytes"), [("", 0), (ALLOCATE, 50), (FROM_A_THREAD, 50), (IN_A_FORK, 50), (READ_A_FILE, 0)]
)
def test_the_memory_of_its_largest_process_is_measured_without_pages_of_files(
    script: Script, code: str, megabytes: int
) -> None:
    arguments = ["{program}", sys.executable, "-I", "-S", "-c", code]
    peak = adaptor.resident(script('"$@"', command=arguments))  # a shell that starts Python
    assert 0 < peak / (1 << 20) - megabytes < 20


def test_memory_that_cannot_be_seen_is_no_number(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program.tracing, "trace_me", lambda: None)  # as where ptrace is not allowed
    with pytest.raises(program.ProgramError, match="doesn't let it be traced: allow ptrace"):
        adaptor.resident(script("exit 0"))


def test_a_traced_program_gets_its_signals(script: Script) -> None:
    text = "trap 'echo got it' USR1; kill -USR1 $$; sleep 0.01 & wait"
    assert program.Command(script(text)).run(keep=True, peak=True).output == "got it\n"


def test_a_program_that_is_killed_for_one_of_its_values_is_not_run_for_the_others(
    script: Script, tmp_path: Path
) -> None:
    """By the worker, which gave it its time; each case is a child of it."""
    case = script(f"echo run >> {tmp_path}/runs; sleep 60", parse="json_lines")
    child = os.fork()
    if child == 0:
        try:
            adaptor.values(case, 0)
        finally:
            os._exit(0)
    while not (tmp_path / "runs").exists():
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with pytest.raises(adaptor.ProgramError, match="for another of its values did not end") as error:
        adaptor.values(case, 0)
    assert error.value.kind == "timeout"
    assert (tmp_path / "runs").read_text() == "run\n"


def test_values_are_printed_once_for_all_their_cases(script: Script, tmp_path: Path) -> None:
    case = script(
        f'echo run >> {tmp_path}/runs; echo \'{{"name": "x", "value": 3, "unit": "MB"}}\'', parse="json_lines"
    )
    assert adaptor.values(case, 0) == [{"name": "x", "value": 3.0, "unit": "MB", "lower_is_better": True}]
    value_case = {**case, "inputs": {**case["inputs"], "value": "x", "unit": "MB"}}
    assert adaptor.value(value_case, 0) == 3.0
    with pytest.raises(adaptor.ProgramError, match="prints no value y") as error:
        adaptor.value({**value_case, "inputs": {**value_case["inputs"], "value": "y"}}, 0)
    assert error.value.kind == "missing"
    with pytest.raises(adaptor.ProgramError, match="prints x in MB, and the other build in GB"):
        adaptor.value({**value_case, "inputs": {**value_case["inputs"], "unit": "GB"}}, 0)
    assert (tmp_path / "runs").read_text() == "run\n"
    failing = script(f"echo run >> {tmp_path}/runs; exit 2", parse="json_lines", env={"A": "1"})
    for _ in range(2):
        with pytest.raises(adaptor.ProgramError, match="exit code 2"):
            adaptor.values(failing, 0)
    assert (tmp_path / "runs").read_text() == "run\nrun\n"
