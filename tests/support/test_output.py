"""Which line of a program's output says what went wrong: outputs as they were seen, or shortened from such."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opduel.support.output import keep_ends, key_line

ENGINE = "[10:57:33] ../src/engine/engine.cc:54: MXNet start using engine: NaiveEngine"
TRACEBACK = "Traceback (most recent call last):"


@pytest.mark.parametrize(
    ("output", "line"),
    [
        pytest.param("", "", id="nothing"),
        pytest.param("\n \n\t\n", "", id="blank lines"),
        pytest.param("first\nlast\n\n", "last", id="no error at all"),
        pytest.param("Bad value: 7\n" + ENGINE, "Bad value: 7", id="routine log line last"),
        pytest.param(ENGINE, ENGINE, id="routine log line alone"),
        pytest.param(
            f"{TRACEBACK}\n"
            '  File "/x/gluon/__init__.py", line 30, in <module>\n'
            "    from .trainer import *\n"
            '  File "/x/gluon/trainer.py", line 1\n'
            f"    def (\n        ^\nSyntaxError: invalid syntax\n{ENGINE}\n",
            "SyntaxError: invalid syntax (/x/gluon/trainer.py, line 1)",
            id="syntax error before a log line of the exit",
        ),
        pytest.param(
            "  File \"/x/a.py\", line 3\n    (\n    ^\nSyntaxError: '(' was never closed\n",
            "SyntaxError: '(' was never closed (/x/a.py, line 3)",
            id="syntax error of the program itself, without a traceback",
        ),
        pytest.param(
            f"{TRACEBACK}\n"
            '  File "/x/base.py", line 246, in check_call\n'
            "    raise get_last_ffi_error()\n"
            f"mxnet.base.MXNetError: {TRACEBACK}\n"
            '  File "../src/operator/nn/./../linalg_impl.h", line 166\n'
            "MXNetError: FP16 gemm on cpu not implemented!\n",
            "MXNetError: FP16 gemm on cpu not implemented!",
            id="an error that brings a traceback of its own",
        ),
        pytest.param(
            f"{TRACEBACK}\n  File \"a.py\", line 1\nKeyError: 'x'\n\n"
            "During handling of the above exception, another exception occurred:\n\n"
            f'{TRACEBACK}\n  File "a.py", line 3\nlibrary.Missing: no x\n',
            "library.Missing: no x",
            id="chained exceptions, the last one of a name that no pattern knows",
        ),
        pytest.param(
            f'{TRACEBACK}\n  File "a.py", line 1\nValueError: bad\nException ignored in: <function f at 0x7f>\n'
            f"{TRACEBACK}\n  File \"b.py\", line 2\nAttributeError: 'NoneType' object has no attribute 'close'\n",
            "ValueError: bad",
            id="what is ignored at the exit did not end the program",
        ),
        pytest.param(
            f'{TRACEBACK}\n  File "a.py", line 1\nImportError: \n\nIMPORTANT: PLEASE READ THIS\n',
            "ImportError: IMPORTANT: PLEASE READ THIS",
            id="an exception that begins with an empty line",
        ),
        pytest.param(
            "end of a long\n    frame\nOSError: /x/libmxnet.so: file too short\nhint",
            "OSError: /x/libmxnet.so: file too short",
            id="a traceback whose beginning was cut off",
        ),
        pytest.param(f'{TRACEBACK}\n  File "a.py", line 1\nKeyboardInterrupt\n', "KeyboardInterrupt", id="no message"),
        pytest.param(f"{ENGINE}\n\nSegmentation fault: 11\n\n", "Segmentation fault: 11", id="a signal"),
        pytest.param(
            "terminate called after throwing an instance of 'dmlc::Error'\n"
            "  what():  [10:00:00] src/a.cc:7: Check failed: n > 0 (0 vs. 0)\nStack trace:\n  [bt] (0) libm.so(+0x1)\n",
            "[10:00:00] src/a.cc:7: Check failed: n > 0 (0 vs. 0)",
            id="a C++ exception that nobody caught",
        ),
        pytest.param(
            "Using Python 3.11.7 environment at: /x\nerror: No solution found when resolving dependencies\n"
            "  cause: Because there is no version of toy==7.7 and you require toy==7.7, we can conclude that your"
            " requirements are unsatisfiable.\n\nhint: look elsewhere\n",
            "Because there is no version of toy==7.7 and you require toy==7.7, we can conclude that your requirements"
            " are unsatisfiable.",
            id="uv, the innermost cause",
        ),
        *(
            pytest.param(
                f"Building wheel...\nrunning build\n{line}\nerror: Failed to build `/x`\n  cause: The build backend"
                " returned an error\n  cause: Call to `build_wheel` failed (exit status: 1)\n\nhint: It may be so\n",
                line.partition("\n")[0],
                id=f"uv, what a build backend said: {line}",
            )
            for line in (
                "curl: (6) Could not resolve host: x.example",
                "error: failed to get `x`: [6] Couldn't resolve host name\nthe end",
                '../meson.build:1:0: ERROR: Dependency "x" not found\n\nA full log can be found at /x',
                "cargo rustc exited with 101",
                "x.c:1: error: no",
                "ModuleNotFoundError: No module named 'cffi'",
            )
        ),
        pytest.param(
            "Building wheel...\nerror: Failed to build `/x`\n  cause: The build backend returned an error\n"
            "  cause: Call to `build_wheel` failed (exit status: 1)\n",
            "Call to `build_wheel` failed (exit status: 1)",
            id="uv, of a build backend that said nothing",
        ),
        pytest.param(
            "warning: x\n\x1b[1m\x1b[31merror\x1b[39m\x1b[0m: unexpected argument\n\nUsage: uv [OPTIONS]\n",
            "error: unexpected argument",
            id="uv, colored, without a cause",
        ),
        pytest.param(
            "fatal: unable to access 'https://x/': no\nhint: or so\n",
            "fatal: unable to access 'https://x/': no",
            id="git",
        ),
        pytest.param(
            "[1/3] Building C object a.o\nFAILED: a.o\n/usr/bin/cc -o a.o\n<stdin>: In function 'main':\n"
            "../src/a.c:1:19: error: 'f' undeclared\n../src/a.c:1:20: error: expected ';'\n"
            "[2/3] Building C object b.o\nninja: build stopped: subcommand failed.\n",
            "../src/a.c:1:19: error: 'f' undeclared",
            id="a compiler's first error",
        ),
        pytest.param(
            "/usr/bin/ld: cannot find -lnothere: No such file or directory\ncollect2: error: ld returned 1 exit status",
            "/usr/bin/ld: cannot find -lnothere: No such file or directory",
            id="a linker",
        ),
        pytest.param(
            "/usr/bin/ld: a.o: in function `main':\na.c:(.text+0x5): undefined reference to `f'\ncollect2: error: ld",
            "a.c:(.text+0x5): undefined reference to `f'",
            id="a missing symbol",
        ),
        pytest.param(
            "g++: fatal error: Killed signal terminated program cc1plus\ncompilation terminated.\n",
            "g++: fatal error: Killed signal terminated program cc1plus",
            id="a compiler killed for memory",
        ),
        pytest.param(
            "-- Found BLAS\nCMake Error at CMakeLists.txt:3 (find_package):\n  By not providing FindX.cmake\n"
            "-- Configuring incomplete, errors occurred!\n",
            "CMake Error at CMakeLists.txt:3 (find_package): By not providing FindX.cmake",
            id="CMake",
        ),
        pytest.param(
            f'a.c:1:1: error: no\nninja: build stopped: subcommand failed.\n{TRACEBACK}\n  File "setup.py", line 1\n'
            "subprocess.CalledProcessError: Command 'ninja' returned non-zero exit status 1.\n",
            "a.c:1:1: error: no",
            id="a compiler's error before the exception of the script that ran it",
        ),
    ],
)
def test_the_line_that_tells(output: str, line: str) -> None:
    assert key_line(output) == line
    assert key_line(output.replace("\n", "\r\n")) == line


def test_of_a_real_exception_with_threads_and_exit_handlers() -> None:
    program = """
import atexit, sys, threading
class Bad:
    def __del__(self): raise RuntimeError("while exiting")
def fails(): raise OSError("in a handler")
atexit.register(fails)
bad = Bad()
raise ValueError("the reason")
"""
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "while exiting" in process.stderr or "in a handler" in process.stderr
    assert key_line(process.stderr) == "ValueError: the reason"


def test_very_long_output_is_searched_at_its_ends() -> None:
    """A program may print for ever: 64 MiB of short lines took 20 s."""
    short_lines = "y\n" * 2**20
    assert key_line(short_lines + "error: a\n" + short_lines) == "y"
    assert key_line("error: a\n" + short_lines + short_lines) == "error: a"
    assert key_line(short_lines + short_lines + "error: a\n") == "error: a"


def test_of_long_output_in_a_file_the_ends_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"first" + b"x" * 100 + b"last")
    with path.open("ab+") as stream:
        keep_ends(stream.fileno(), most=109, end=5)
        assert path.stat().st_size == 109
        keep_ends(stream.fileno(), most=108, end=5)
        stream.write(b" more")
    assert path.read_bytes() == b"first\n[99 bytes of output left out]\nxlast more"


@given(st.text(alphabet=st.sampled_from("ab \n:.()[]'`Error/\t\x1b[0m\\1"), max_size=200))
def test_it_is_always_one_printed_line(text: str) -> None:
    line = key_line(text)
    assert "\n" not in line
    assert line == line.strip()
