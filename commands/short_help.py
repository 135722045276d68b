"""The short help of subcommands and scripts: the most used options, from a file, as loading the parsers takes a second.

``python -m opduel.commands.short_help --write`` writes the file from the parsers.
"""

import json
import shutil
import textwrap
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("short_help.json")
# Subcommand or script -> what it is called with, and the options of its short help; None for all that it has.
SHORT: dict[str, tuple[str, str | None]] = {
    "compare": (
        "-b SPEC --control BUILD --treatment BUILD [OPTIONS]",
        "benchmark_file control treatment operators category dtype ctx directions metric threshold "
        "time_budget max_rounds verify busy_host seed json local_reporter html_reporter export_reporter "
        "remote_reporter notify_webhook github gitlab",
    ),
    "measure": (
        "-b SPEC --treatment BUILD [OPTIONS]",
        "benchmark_file treatment operators category dtype ctx directions rounds warmup runs profiler "
        "output_format output_file baseline threshold golden seed",
    ),
    "local": (
        "[PATH] [OPTIONS]",
        "benchmark_file branch remote_repository base_commit operators category time_budget local_reporter "
        "html_reporter regression dry_run",
    ),
    "drive": (
        "-b SPEC [OPTIONS]",
        "benchmark_file repo_dir remote_repository branch commit base_commit interval regression improved "
        "work_dir operators time_budget local_reporter remote_reporter notify_webhook dry_run",
    ),
    "bisect": (
        "-b SPEC (--bisect_releases A,B,... | --base_commit GOOD --commit BAD) [OPTIONS]",
        "benchmark_file bisect_releases base_commit commit repo_dir remote_repository operators improved "
        "time_budget work_dir local_reporter",
    ),
    "calibrate": (
        "[-b SPEC] [OPTIONS]",
        "benchmark_file treatment operators threshold time_budget max_rounds local_reporter",
    ),
    "list": ("[PATTERN] [OPTIONS OF opduel compare]", None),
    "spec-from": ("NETWORK [OPTIONS]", None),
    "conformance": ("-b SPEC --control BUILD [OPTIONS]", None),
    "convert": ("REPORT --to FORMAT [OPTIONS]", None),
    "explain": ("REPORT [CASE] [OPTIONS]", None),
    "send": ("REPORT ... --remote_reporter PLACE [OPTIONS]", None),
    "flush": ("[OPTIONS]", None),
    "fleet": ("SUBCOMMAND [OPTIONS]", None),
    "serve": ("[OPTIONS]", None),
    "server": ("SUBCOMMAND [OPTIONS]", None),
    "python": ("[--framework NAME] BUILD [SCRIPT | -c CODE] ...", None),
    "completion": ("SHELL", None),
    "harness.py": (
        "-b SPEC --control BUILD --treatment BUILD [OPTIONS]",
        "benchmark_file control treatment operators category dtype ctx directions metric threshold "
        "time_budget max_rounds verify busy_host seed json local_reporter html_reporter export_reporter "
        "remote_reporter notify_webhook github gitlab rounds output_format output_file",
    ),
    "repo_driver.py": (
        "--ab_testing -b SPEC [OPTIONS], or --local [PATH], or --bisect_releases A,B,...",
        "benchmark_file ab_testing local bisect_releases repo_dir remote_repository branch commit base_commit interval "
        "regression improved work_dir operators time_budget local_reporter remote_reporter notify_webhook dry_run",
    ),
    "run_bench.py": ("-b SPEC [OPTIONS]", None),
}


def short_help(name: str) -> str:
    """The short help of a subcommand, or of a script."""
    entry: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))[name]
    width = max(40, min(shutil.get_terminal_size().columns, 120) - 2)
    called, options = SHORT[name]
    program = name if name.endswith(".py") else f"opduel {name}"
    lines = [f"Usage: {program} {called}", "", *textwrap.wrap(entry["description"], width), ""]
    for heading, described in entry["groups"].items():
        lines.append(f"{heading[:1].upper()}{heading[1:]}:")
        for option in described:
            lines += _option(option["names"], option["help"], width)
        lines.append("")
    lines += [*entry["epilog"].splitlines(), ""] if entry["epilog"] else []
    lines += [f"All options: {program} --help-all"] if options is not None else []
    return "\n".join(lines).rstrip() + "\n"


def _option(names: str, words: str, width: int) -> list[str]:
    """One option: the names, and its help beside or below them."""
    indent = " " * 32
    text = textwrap.wrap(words, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)
    beside = f"  {names}"
    if len(beside) < len(indent) - 1 and text:
        return [beside.ljust(len(indent)) + text[0].lstrip(), *text[1:]]
    return [beside, *text]


def short_help_text() -> str:
    """What the file should hold: the parsers' options, by subcommand and group."""
    from opduel.commands.subcommand_parsers import described_options

    dests_by_name = {name: None if options is None else options.split() for name, (_, options) in SHORT.items()}
    return json.dumps({name: described_options(name, dests_by_name[name]) for name in SHORT}, indent=1) + "\n"


if __name__ == "__main__":
    import sys

    if sys.argv[1:] == ["--write"]:
        FILE.write_text(short_help_text(), encoding="utf-8")
    else:
        sys.stdout.write(short_help_text())
