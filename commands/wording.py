"""Messages and help for an installed opduel: they name its subcommands in place of a checkout's scripts."""

import re

# The scripts, which an installed opduel lacks, as messages name them, and what to call instead.
SCRIPTS = (
    (re.compile(r"run_bench\.py --(list|flush|send|convert|calibrate)\b"), r"opduel \1"),
    (re.compile(r"run_bench\.py --spec_from\b"), "opduel spec-from"),
    (re.compile(r"(?:python3 )?repo_driver\.py\b"), "opduel drive"),
    (re.compile(r"(?:python3 )?(?:harness|run_bench)\.py\b"), "opduel compare"),
    (re.compile(r"(?:\.venv/bin/)?python -m opduel\.server\b"), "opduel server"),
    (re.compile(r"run `make setup`(?: again)?"), "install opduel again"),
)


def with_subcommands(text: str, name: str) -> str:
    """A message or help text of the subcommand ``name``, with subcommands where it names the scripts."""
    text = re.sub(r"(?:harness|repo_driver|run_bench)\.py(?: --\w+)? --help", f"opduel {name} --help", text)
    text = re.sub(rf"(^|error: )--{name}: ", r"\1", text)  # the option of run_bench.py that it stands for
    for pattern, subcommand in SCRIPTS:
        text = pattern.sub(subcommand, text)
    return text
