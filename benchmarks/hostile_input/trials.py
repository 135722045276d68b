"""Random hostile command lines, files, environments and outputs, with the right exit codes."""

import json
import random
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from benchmarks.hostile_input.world import ODD, PROGRAMS, REPORT, SPEC
from opduel.commands.driver_options import driver_parser
from opduel.commands.options import harness_parser
from opduel.reporters.formats import FORMATS

WRONG, NOT_DONE = 2, 3
ANY_END = frozenset({0, WRONG, NOT_DONE})
TEXTS = (
    *("", " ", "\t\n", "-1", "0", "1e309", "nan", "inf", "9" * 5000, "x" * 20_000, "a b" * 9_000, "{", "[]"),
    *("\x1b[31mred\x1b[0m\x07", "\u00e9\u2603\u202e", "\udcff", '"', "$(id)", "; exit 1", "../../../etc/passwd"),
    *("null", "'", "@", "@/dev/zero", "|", "a=b", "=", "==", "mxnet==", "==1.9.1", "--", "-", "%s%n", "\\", "*", "["),
    *("http://", "http://[::1", "https://me:secret@127.0.0.1:9/x?y#z", "file:///etc", "1,2,3", "json="),
)  # fmt: skip
NO_BUILD = "{scratch}/no-build/bin/python"  # doesn't exist, so that the command ends after it has checked its options
TWO_BUILDS = ("--control", NO_BUILD, "--treatment", NO_BUILD)
ODD_PATHS = (  # in place of a file's name
    *(f"{{odd}}/{name}" for name in ODD),
    *("/dev/zero", "/dev/full", "/dev/stdin", "/dev/tty", "/proc/self/mem", "/proc/self/environ", "/", "."),
    *("{precious}/notes.txt", "x" * 300, "a/" * 3000, "~nobody-of-this-name/x"),
)
OUR_VARIABLES = ("OPDUEL_REMOTE_ACCESS_TOKEN", "OPDUEL_DATABASE", "OPDUEL_GIT_TOKEN")
SECRETS = ("secret",)  # of TEXTS, that no output may show
JSON_VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 0.5, 1e308, 2**31, 2**63, 2**64, "", "x" * 3000, "\x00", "\ud800", [], {}, [[]], [{}]),
    *({"value": None}, {"a": {"b": [1, 2]}}, [1] * 500, "mxnet", "nd.exp", "{ID}", {"shape": [2**40]}),
)  # fmt: skip


@dataclass(frozen=True)
class Trial:
    """One command: a script or a module, and its arguments.

    ``expected``: the right exit codes. ``files``: path in its folder -> content. ``environment``: None removes a
    variable. ``fresh``: whether it runs in an interpreter of its own, to try its start. ``outputs``: the kinds of
    standard output and standard error. ``file_limit``: bytes of any file that it writes. ``signal_after_s``: seconds
    from the command's first lines to a signal. In arguments and variables ``{scratch}`` is its folder, ``{odd}`` the
    folder of odd files in it, ``{precious}`` one that must not change.
    """

    kind: str
    script: str
    arguments: tuple[str, ...]
    expected: frozenset[int] = frozenset({WRONG})
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    environment: Mapping[str, str | None] = field(default_factory=dict)
    fresh: bool = False
    outputs: tuple[str, str] = ("file", "file")
    file_limit: int | None = None
    signal_after_s: float | None = None


def draw_trials(seed: int, count: int) -> list[Trial]:
    """Return ``count`` trials of each kind, the same for the same seed."""
    trials = []
    for kind, draw in KINDS.items():
        rng = random.Random(f"{seed}/{kind}")
        trials += [draw(rng) for _ in range(count)]
    return trials


def _option(rng: random.Random) -> Trial:
    """Give an option of harness.py or repo_driver.py an odd value."""
    script, parser = rng.choice((("harness.py", harness_parser()), ("repo_driver.py", driver_parser())))
    names = [name for action in parser._actions if action.nargs != 0 for name in action.option_strings]
    option, value = rng.choice(names), rng.choice((*TEXTS, *ODD_PATHS))
    words = (f"{option}={value}",) if rng.random() < 0.5 and option.startswith("--") else (option, value)
    if script == "harness.py":
        base = ("-b", "{precious}/spec.json", "--treatment", NO_BUILD)
        if option != "--control":
            base += ("--control", NO_BUILD) if rng.random() < 0.7 else ("--single",)
        return Trial("option", script, (*base, *words))
    repository = ("--remote_repository", "{scratch}/no-repository", "--work_dir", "{scratch}/work", "--dry_run")
    base = ("--ab_testing", "-b", "{precious}/spec.json", *repository)
    return Trial("option", script, (*base, *words), frozenset({WRONG, NOT_DONE}))


def _other_command(rng: random.Random) -> Trial:
    """Call other functions of run_bench.py, and the server's command line."""
    text, path = rng.choice(TEXTS), rng.choice(ODD_PATHS)
    either = rng.choice((text, path))
    form = rng.choice((*FORMATS, text))
    report = "{precious}/report.json"
    no_server = ("--remote_reporter", "http://127.0.0.1:9/x|c")
    commands: tuple[tuple[str, tuple[str, ...]], ...] = (
        ("run_bench.py", ("--list", text)),
        ("run_bench.py", ("--list", "-b", either)),
        ("run_bench.py", ("--convert", either, "--to", form)),
        ("run_bench.py", ("--convert", report, "--to", rng.choice([*FORMATS]), "--output", either)),
        ("run_bench.py", ("--convert", report, "--to", "md", "--output", report)),
        ("run_bench.py", ("--flush", "--remote_access_token_file", either, *no_server)),
        ("run_bench.py", ("--flush", "--spool", path)),
        ("run_bench.py", ("--send", path, *no_server)),
        ("run_bench.py", ("--spec_from", either, "--build", NO_BUILD)),
        ("run_bench.py", ("--spec_from", "{precious}/network.json", "--build", NO_BUILD, "--shape", text)),
        ("run_bench.py", ("--calibrate", "--control", NO_BUILD, rng.choice(("--time_budget", "-b")), either)),
        ("repo_driver.py", ("--bisect_releases", either, "-b", "{precious}/spec.json", "--dry_run")),
        ("opduel.server", ("token", "add", text, "--scope", "read", "--database", f"sqlite:///{path}")),
        ("opduel.server", ("token", rng.choice(("list", "revoke", text)), "--database", text)),
        ("opduel.server", ("run", "remove", text, "--database", "sqlite:///{scratch}/new.sqlite")),
        ("opduel.server", (rng.choice(("--database", "--commit_url", "--host")), text, "--port", "many")),
    )  # fmt: skip
    script, arguments = rng.choice(commands)
    return Trial("other command", script, arguments, ANY_END)


def _spec(rng: random.Random) -> Trial:
    """Write a spec with a value, or a byte, that is out of place."""
    name = rng.choice(("spec.json", "spec.yaml"))
    options = ("-b", f"{{scratch}}/{name}", *TWO_BUILDS)
    return Trial("spec", "harness.py", options, files={name: _changed_text(SPEC, rng)})


def _inputs(rng: random.Random) -> Trial:
    """Give a case's inputs, or what --info says of both builds."""
    if rng.random() < 0.5:
        text = _changed_text(rng.choice(({"data": [8, 8]}, {"lhs": [2], "rhs": {"value": 3}})), rng)
        options = ("--operators", "nd.exp", "--inputs", "@{scratch}/document", *TWO_BUILDS)
    else:
        side = {"commit": "a", "programs": {"program": {"location": NO_BUILD}}}
        text = _changed_text({"control": side, "treatment": side}, rng)
        options = ("-b", "{precious}/spec.json", "--info", "{scratch}/document")
    return Trial("inputs", "harness.py", options, files={"document": text})


def _report(rng: random.Random) -> Trial:
    """Convert a report that was changed by hand, or cut off."""
    name = rng.choice([*FORMATS])
    side = ("--side", "control") if FORMATS[name].sides == "one" else ()
    arguments = ("--convert", "{scratch}/report.json", "--to", name, *side)
    files = {"report.json": _changed_text(json.loads(REPORT), rng)}
    return Trial("report", "run_bench.py", arguments, ANY_END, files=files)


def _config(rng: random.Random) -> Trial:
    """Call a command that reads the user's config."""
    config = {"control": "x", "remote_access_token_file": "y", "arguments": {"harness.py": {"threads": 1}}}
    arguments = rng.choice((("--flush",), ("-b", "{precious}/spec.json", "--control", NO_BUILD)))
    files = {"config/opduel/config.json": _changed_text(config, rng)}
    return Trial("config", "run_bench.py", arguments, ANY_END, files=files)


def _interpreter(rng: random.Random) -> Trial:
    """Give a program that is no Python in place of a build."""
    programs = [f"{{odd}}/python-{name}" for name in (*PROGRAMS, "none")]
    program = rng.choice((*programs, "/bin/true", "/bin/false", "/usr/bin/env", *ODD_PATHS))
    two = (("--control", NO_BUILD, "--treatment"), ("--treatment", program, "--control"))
    sides = rng.choice((("--single", "--treatment"), *two))
    return Trial("interpreter", "harness.py", ("-b", "{precious}/spec.json", *sides, program))


def _environment(rng: random.Random) -> Trial:
    """Set variables as a shell, a service or a mistake can set them."""
    places = ("", "relative", "/dev/null/x", "/proc/nothing", "{precious}/notes.txt", "x" * 5000)
    choices: tuple[tuple[str, tuple[str | None, ...]], ...] = (
        *((name, (*places, None)) for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "TMPDIR")),
        *((name, ("1", "0", "x")) for name in ("PYTHONSAFEPATH", "PYTHONINSPECT", "PYTHONDEVMODE")),
        ("PYTHONUTF8", ("1", "0")),  # any other value ends the interpreter before it runs a command
        ("PYTHONWARNINGS", ("error", "x:y:z")),
        ("PYTHONPATH", ("{odd}", "", ":::")),
        ("PYTHONIOENCODING", ("ascii", "utf-16", "latin-1:strict")),
        *((name, ("C", "de_DE.UTF-8", "xx_YY", "", "\udcff")) for name in ("LC_ALL", "LANG", "LANGUAGE")),
        ("PATH", ("", "/nonexistent", None)),
        ("COLUMNS", ("0", "-1", "x", "9" * 30)),
        ("TERM", ("", "dumb", "nosuch", None)),
        *((name, ("x", "@/dev/zero", " ", "\x01", "x" * 9000)) for name in OUR_VARIABLES),
        ("OPDUEL_NOTIFY_WEBHOOK", ("x", "@/dev/zero", "@{odd}/pipe", "http://[::1")),
        ("GIT_CONFIG_GLOBAL", ("{odd}/bytes", "{odd}/pipe", "/nonexistent")),
        *((name, ("x", "-1", "{odd}")) for name in ("GIT_DIR", "GIT_CONFIG_COUNT", "GIT_PYTHON_REFRESH")),
        ("UV_PYTHON", ("x",)),
    )  # fmt: skip
    chosen = dict(rng.choice(choices) for _ in range(rng.randint(1, 3)))
    variables = {name: rng.choice(values) for name, values in chosen.items()}
    script, arguments = rng.choice(
        (
            ("harness.py", ("-b", "nothing-of-this-name")),
            ("run_bench.py", ("--list", "softmax")),
            ("run_bench.py", ("--flush",)),
            ("repo_driver.py", ("--ab_testing", "-b", "smoke", "--remote_repository", "/nonexistent", "--dry_run")),
        )
    )
    return Trial("environment", script, arguments, ANY_END, environment=variables, fresh=True)


def _output(rng: random.Random) -> Trial:
    """Write to full disks, closed streams and files of limited size."""
    report = "{precious}/report.json"
    commands: tuple[tuple[str, tuple[str, ...]], ...] = (
        ("run_bench.py", ("--list", "exp")),
        ("run_bench.py", ("--help",)),
        ("run_bench.py", ("--convert", report, "--to", rng.choice(("md", "csv", "html")))),
        ("run_bench.py", ("--convert", report, "--to", "csv", "--output", "{scratch}/converted")),
        ("harness.py", ("-b", "nothing-of-this-name", "--round_log", "{scratch}/rounds")),
        ("repo_driver.py", ("--ab_testing", "-b", "{precious}/spec.json", "--remote_repository", "/nonexistent",
                            "--work_dir", "{scratch}/work", "--dry_run")),
        ("opduel.server", ("token", "add", "ci", "--scope", "read", "--database", "sqlite:///{scratch}/new.sqlite")),
    )  # fmt: skip
    script, arguments = rng.choice(commands)
    outputs = (rng.choice(("file", "full", "closed", "no reader")), rng.choice(("file", "file", "full", "closed")))
    limit = rng.choice((None, 0, 100, 5000)) if "full" not in outputs else None
    return Trial("output", script, arguments, ANY_END, outputs=outputs, file_limit=limit, fresh="closed" in outputs)


def _signal(rng: random.Random) -> Trial:
    """Send a signal while the command starts: it ends with 3, or with 2 if it was faster."""
    script, arguments = rng.choice(
        (
            ("harness.py", ("-b", "all", "--operators", "nothing-of-this-name")),
            ("run_bench.py", ("--list", "nothing-of-this-name")),
            ("repo_driver.py", ("--ab_testing", "-b", "all", "--operators", "nothing-of-this-name")),
        )
    )
    expected = frozenset({WRONG, NOT_DONE})
    return Trial("signal", script, arguments, expected, fresh=True, signal_after_s=rng.uniform(0, 3))


KINDS: Mapping[str, Callable[[random.Random], Trial]] = {
    "option": _option,
    "other command": _other_command,
    "spec": _spec,
    "inputs": _inputs,
    "report": _report,
    "config": _config,
    "interpreter": _interpreter,
    "output": _output,
    "environment": _environment,
    "signal": _signal,
}


def _changed_text(document: Any, rng: random.Random) -> str | bytes:
    """Return the document as JSON with one to three of its values or keys replaced, removed or renamed; sometimes the
    text is cut off, or has something inserted."""
    copy = json.loads(json.dumps(document))
    for _ in range(rng.randint(1, 3)):
        places = list(_places(copy))
        if not places:
            break
        holder, key = rng.choice(places)
        how = rng.random()
        if how < 0.6:
            holder[key] = deepcopy(rng.choice(JSON_VALUES))
        elif how < 0.8:
            del holder[key]
        elif isinstance(holder, dict):
            holder[rng.choice(("unknown", "", "x" * 500, "\u202e"))] = holder.pop(key)
        else:
            holder.append(deepcopy(rng.choice(JSON_VALUES)))
    return _mangled(json.dumps(copy), rng)


def _places(document: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every place in a document: its holder and its key."""
    entries = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for key, value in list(entries):
        yield document, key
        yield from _places(value)


def _mangled(text: str, rng: random.Random) -> str | bytes:
    """Return mostly the text itself, sometimes cut off, or with something inserted."""
    how, place = rng.random(), rng.randrange(len(text) + 1)
    if how < 0.7:
        return text
    before, after = text[:place].encode(), text[place:].encode()
    if how < 0.78:
        return before
    if how < 0.86:
        return before + rng.choice((b"\xff", b"\x00", b"\x1b[31m", b"\xef\xbb\xbf")) + after
    odd = ("[" * 100_000, "9" * 6000, "NaN", "&a [*a, *a]", "\n---\n", "!!python/object:os.system {}", ",,", "\u2028")
    return before + rng.choice(odd).encode() + after
