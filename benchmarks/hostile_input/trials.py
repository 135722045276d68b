"""Hostile input: a table of commands with the exit codes that are right, and the values drawn at random for each."""

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from benchmarks.hostile_input.world import ODD, PROGRAMS, REPORT, SPEC
from opduel.commands.driver_options import driver_parser
from opduel.commands.options import harness_parser
from opduel.reporters.formats import FORMATS

WRONG, NOT_DONE = 2, 3
WRONG_USAGE, NOTHING_MEASURED = frozenset({WRONG}), frozenset({WRONG, NOT_DONE})
ANY_END = frozenset({0, WRONG, NOT_DONE})
TEXTS = (
    *("", " ", "\t\n", "-1", "0", "1e309", "nan", "inf", "9" * 5000, "x" * 20_000, "a b" * 9_000, "{", "[]"),
    *("\x1b[31mred\x1b[0m\x07", "\u00e9\u2603\u202e", "\udcff", '"', "$(id)", "; exit 1", "../../../etc/passwd"),
    *("null", "'", "@", "@/dev/zero", "|", "a=b", "=", "==", "mxnet==", "==1.9.1", "--", "-", "%s%n", "\\", "*", "["),
    *("http://", "http://[::1", "https://me:secret@127.0.0.1:9/x?y#z", "file:///etc", "1,2,3", "json="),
)  # fmt: skip
SECRETS = ("secret",)  # of TEXTS, that no output may show
PATHS = (  # in place of a file's name
    *(f"{{odd}}/{name}" for name in ODD),
    *("/dev/zero", "/dev/full", "/dev/stdin", "/dev/tty", "/proc/self/mem", "/proc/self/environ", "/", "."),
    *("{precious}/notes.txt", "x" * 300, "a/" * 3000, "~nobody-of-this-name/x"),
)
NO_BUILD = "{scratch}/no-build/bin/python"  # doesn't exist, so that the command ends after it has checked its options
DOCUMENT = "{scratch}/document"
CHOICES: Mapping[str, Sequence[str]] = {  # name in braces -> what may stand there
    "text": TEXTS,
    "path": PATHS,
    "any": (*TEXTS, *PATHS),
    "python": (*PATHS, "/bin/true", "/usr/bin/env", *(f"{{odd}}/python-{name}" for name in (*PROGRAMS, "none"))),
    "format": (*FORMATS,),
    "page": ("md", "csv", "html"),
    "spec": ("{precious}/spec.json",),
    "report": ("{precious}/report.json",),
    "none": (NO_BUILD,),
    "repository": ("--remote_repository={scratch}/no-repository",),
    "server": ("http://127.0.0.1:9/x|c",),
    "database": ("sqlite:///{scratch}/new.sqlite",),
}
EXP_INPUTS = f"harness.py --operators nd.exp --inputs @{DOCUMENT} --control {{none}} --treatment {{none}}"
SIDE = {"commit": "a", "programs": {"program": {"location": NO_BUILD}}}
CONFIG = {"control": "x", "remote_access_token_file": "y", "arguments": {"harness.py": {"threads": 1}}}


@dataclass(frozen=True)
class Row:
    """A command to try with hostile input, and the right exit codes.

    ``command``: a script of the checkout or a module, and its arguments. Names of ``CHOICES`` in braces stand for a
    random value, ``{option}`` for any option of the script with one. ``document``: it is changed at random, and written
    to ``file`` in the trial's folder.
    """

    kind: str
    command: str
    expected: frozenset[int] = ANY_END
    document: Any = None
    file: str = "document"


ROWS = (
    Row("option", "harness.py -b {spec} --control {none} --treatment {none} {option}", WRONG_USAGE),
    Row("option", "harness.py -b {spec} --single --treatment {none} {option}", WRONG_USAGE),
    Row("option", "repo_driver.py --ab_testing --dry_run -b {spec} {repository} {option}", NOTHING_MEASURED),
    Row("other command", "run_bench.py --list {text}"),
    Row("other command", "run_bench.py --list -b {any}"),
    Row("other command", "run_bench.py --convert {any} --to {format}"),
    Row("other command", "run_bench.py --convert {report} --to {text}"),
    Row("other command", "run_bench.py --convert {report} --to {format} --output {any}"),
    Row("other command", "run_bench.py --convert {report} --to md --output {report}"),
    Row("other command", "run_bench.py --flush --remote_access_token_file {any} --remote_reporter {server}"),
    Row("other command", "run_bench.py --flush --spool {path}"),
    Row("other command", "run_bench.py --send {path} --remote_reporter {server}"),
    Row("other command", "run_bench.py --spec_from {any} --build {none}"),
    Row("other command", "run_bench.py --spec_from {precious}/network.json --build {none} --shape {text}"),
    Row("other command", "run_bench.py --calibrate --control {none} --time_budget {any}"),
    Row("other command", "run_bench.py --calibrate --control {none} -b {any}"),
    Row("other command", "repo_driver.py --bisect_releases {any} -b {spec} --dry_run"),
    Row("other command", "opduel.server token add {text} --scope read --database sqlite:///{path}"),
    Row("other command", "opduel.server token list --database {text}"),
    Row("other command", "opduel.server token {text} --database {text}"),
    Row("other command", "opduel.server run remove {text} --database {database}"),
    Row("other command", "opduel.server --commit_url {text} --port many"),
    Row("spec", "harness.py -b {scratch}/spec.json --single --treatment {none}", WRONG_USAGE, SPEC, "spec.json"),
    Row("spec", "harness.py -b {scratch}/spec.yaml --single --treatment {none}", WRONG_USAGE, SPEC, "spec.yaml"),
    Row("inputs", EXP_INPUTS, WRONG_USAGE, {"data": [8, 8]}),
    Row("inputs", EXP_INPUTS, WRONG_USAGE, {"lhs": [2], "rhs": {"value": 3}}),
    Row("inputs", f"harness.py -b {{spec}} --info {DOCUMENT}", WRONG_USAGE, {"control": SIDE, "treatment": SIDE}),
    *(
        Row("report", f"run_bench.py --convert {DOCUMENT} --to {name}{side}", document=json.loads(REPORT))
        for name in FORMATS
        for side in (" --side control" if FORMATS[name].sides == "one" else "",)
    ),
    Row("config", "run_bench.py --flush", document=CONFIG, file="config/opduel/config.json"),
    Row("config", "run_bench.py -b {spec} --control {none}", document=CONFIG, file="config/opduel/config.json"),
    Row("interpreter", "harness.py -b {spec} --single --treatment {python}", WRONG_USAGE),
    Row("interpreter", "harness.py -b {spec} --control {none} --treatment {python}", WRONG_USAGE),
    Row("interpreter", "harness.py -b {spec} --control {python} --treatment {python}", WRONG_USAGE),
    Row("output", "run_bench.py --list exp"),
    Row("output", "run_bench.py --help"),
    Row("output", "run_bench.py --convert {report} --to {page}"),
    Row("output", "run_bench.py --convert {report} --to csv --output {scratch}/converted"),
    Row("output", "harness.py -b nothing-of-this-name --round_log {scratch}/rounds"),
    Row("output", "repo_driver.py --ab_testing --dry_run -b {spec} {repository}"),
    Row("output", "opduel.server token add ci --scope read --database {database}"),
    Row("environment", "harness.py -b nothing-of-this-name"),
    Row("environment", "run_bench.py --list softmax"),
    Row("environment", "run_bench.py --flush"),
    Row("environment", "repo_driver.py --ab_testing --dry_run -b smoke {repository}"),
    # A signal while the command starts: it ends with 3, or with 2 if it was faster.
    Row("signal", "harness.py -b all --operators nothing-of-this-name", NOTHING_MEASURED),
    Row("signal", "run_bench.py --list nothing-of-this-name", NOTHING_MEASURED),
    Row("signal", "repo_driver.py --ab_testing -b all --operators nothing-of-this-name", NOTHING_MEASURED),
)
KINDS = tuple(dict.fromkeys(row.kind for row in ROWS))
OPTIONS = {
    script: [name for action in parser()._actions if action.nargs != 0 for name in action.option_strings]
    for script, parser in (("harness.py", harness_parser), ("repo_driver.py", driver_parser))
}
PLACES = ("", "relative", "/dev/null/x", "/proc/nothing", "{precious}/notes.txt", "x" * 5000, None)
LANGUAGES = ("C", "de_DE.UTF-8", "xx_YY", "", "\udcff")
TOKENS = ("x", "@/dev/zero", " ", "\x01", "x" * 9000)
VARIABLES: Mapping[str, Sequence[str | None]] = {  # as a shell, a service or a mistake can set them; None: not at all
    **dict.fromkeys(("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "TMPDIR"), PLACES),
    **dict.fromkeys(("PYTHONSAFEPATH", "PYTHONINSPECT", "PYTHONDEVMODE"), ("1", "0", "x")),
    "PYTHONUTF8": ("1", "0"),  # any other value ends the interpreter before it runs a command
    "PYTHONWARNINGS": ("error", "x:y:z"),
    "PYTHONPATH": ("{odd}", "", ":::"),
    "PYTHONIOENCODING": ("ascii", "utf-16", "latin-1:strict"),
    **dict.fromkeys(("LC_ALL", "LANG", "LANGUAGE"), LANGUAGES),
    "PATH": ("", "/nonexistent", None),
    "COLUMNS": ("0", "-1", "x", "9" * 30),
    "TERM": ("", "dumb", "nosuch", None),
    **dict.fromkeys(("OPDUEL_REMOTE_ACCESS_TOKEN", "OPDUEL_DATABASE", "OPDUEL_GIT_TOKEN"), TOKENS),
    "OPDUEL_NOTIFY_WEBHOOK": ("x", "@/dev/zero", "@{odd}/pipe", "http://[::1"),
    "GIT_CONFIG_GLOBAL": ("{odd}/bytes", "{odd}/pipe", "/nonexistent"),
    **dict.fromkeys(("GIT_DIR", "GIT_CONFIG_COUNT", "GIT_PYTHON_REFRESH"), ("x", "-1", "{odd}")),
    "UV_PYTHON": ("x",),
}
JSON_VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 0.5, 1e308, 2**31, 2**63, 2**64, "", "x" * 3000, "\x00", "\ud800", [], {}, [[]], [{}]),
    *({"value": None}, {"a": {"b": [1, 2]}}, [1] * 500, "mxnet", "nd.exp", "{ID}", {"shape": [2**40]}),
)  # fmt: skip
INSERTIONS = (
    *(b"\xff", b"\x00", b"\x1b[31m", b"\xef\xbb\xbf", b"[" * 100_000, b"9" * 6000, b"NaN", b"&a [*a, *a]"),
    *(b"\n---\n", b"!!python/object:os.system {}", b",,", b"\xe2\x80\xa8"),
)  # fmt: skip


@dataclass(frozen=True)
class Trial:
    """A command with the values that were drawn.

    ``files``: path in its folder -> content. ``environment``: None removes a variable. ``outputs``: the kinds of
    standard output and standard error: "file", "full" (disk), "closed" or "no reader". ``file_limit``: bytes of any
    file that it writes. ``signal_after_s``: seconds from the command's first lines to a signal. In arguments and
    variables ``{scratch}`` is its folder, ``{odd}`` the folder of odd files in it, ``{precious}`` one that must not
    change.
    """

    kind: str
    script: str
    arguments: tuple[str, ...]
    expected: frozenset[int] = WRONG_USAGE
    files: Mapping[str, bytes] = field(default_factory=dict)
    environment: Mapping[str, str | None] = field(default_factory=dict)
    outputs: tuple[str, str] = ("file", "file")
    file_limit: int | None = None
    signal_after_s: float | None = None


def draw_trials(seed: int, count: int) -> list[Trial]:
    """Return ``count`` trials of each kind, the same for the same seed."""
    trials = []
    for kind in KINDS:
        rng, rows = random.Random(f"{seed}/{kind}"), [row for row in ROWS if row.kind == kind]
        trials += [_draw(rng.choice(rows), rng) for _ in range(count)]
    return trials


def _draw(row: Row, rng: random.Random) -> Trial:
    script, *words = row.command.split()
    arguments = [argument for word in words for argument in _draw_arguments(word, script, rng)]
    files = {} if row.document is None else {row.file: _changed_bytes(row.document, rng)}
    environment: dict[str, str | None] = {}
    outputs, file_limit, signal_after_s = ("file", "file"), None, None
    if row.kind == "environment":
        environment = {name: rng.choice(VARIABLES[name]) for name in rng.sample([*VARIABLES], rng.randint(1, 3))}
    elif row.kind == "output":
        outputs = (rng.choice(("file", "full", "closed", "no reader")), rng.choice(("file", "file", "full", "closed")))
        file_limit = rng.choice((None, 0, 100, 5000)) if "full" not in outputs else None
    elif row.kind == "signal":
        signal_after_s = rng.uniform(0, 3)
    return Trial(
        row.kind, script, tuple(arguments), row.expected, files, environment, outputs, file_limit, signal_after_s
    )


def _draw_arguments(word: str, script: str, rng: random.Random) -> tuple[str, ...]:
    """Return the arguments that a word of a row's command stands for."""
    if word == "{option}":
        option, value = rng.choice(OPTIONS[script]), rng.choice(CHOICES["any"])
        return (f"{option}={value}",) if rng.random() < 0.5 and option.startswith("--") else (option, value)
    for name, values in CHOICES.items():
        word = word.replace(f"{{{name}}}", rng.choice(values))
    return (word,)


def _changed_bytes(document: Any, rng: random.Random) -> bytes:
    """Return the document as JSON with one to three of its values or keys replaced, removed or renamed; sometimes the
    text is cut off, or has something inserted."""
    changed = json.loads(json.dumps(document))
    for _ in range(rng.randint(1, 3)):
        places = list(_places(changed))
        if not places:
            break
        holder, key = rng.choice(places)
        change = rng.random()
        if change < 0.6:
            holder[key] = deepcopy(rng.choice(JSON_VALUES))
        elif change < 0.8:
            del holder[key]
        elif isinstance(holder, dict):
            holder[rng.choice(("unknown", "", "x" * 500, "\u202e"))] = holder.pop(key)
        else:
            holder.append(deepcopy(rng.choice(JSON_VALUES)))
    text, change = json.dumps(changed).encode(), rng.random()
    place = rng.randrange(len(text) + 1)
    if change < 0.7:
        return text
    if change < 0.78:
        return text[:place]
    return text[:place] + rng.choice(INSERTIONS) + text[place:]


def _places(document: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every place in a document: its holder and its key."""
    if isinstance(document, dict | list):
        for key in [*document] if isinstance(document, dict) else range(len(document)):
            yield document, key
            yield from _places(document[key])
