"""The subcommands of ``opduel``, and how messages name them in place of the scripts of a checkout."""

import re

# Name -> what it does, in the order in which the help shows them.
SUBCOMMANDS = {
    "compare": "measure two builds against each other",
    "measure": "measure one build alone",
    "local": "measure your own branch, before you open a pull request",
    "drive": "measure the commits of a repository, once or continuously",
    "bisect": "find the commit, or the release, that caused a change",
    "calibrate": "find out which changes this machine can detect",
    "list": "list all cases",
    "spec-from": "write a spec of the operator calls of a network",
    "conformance": "test whether a framework keeps what opduel relies on",
    "convert": "write a report in the format of another tool",
    "explain": "say why a case of a report changed",
    "send": "send reports on disk to a results server",
    "flush": "send the reports that wait for a results server",
    "fleet": "run the parts of a fleet of measuring hosts: worker, scheduler, certificates",
    "serve": "start the results server",
    "server": "manage the results server: migrate, token, alert, run",
    "python": "run Python in a build's environment, with opduel importable",
    "completion": "print a completion script for a shell",
}
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
