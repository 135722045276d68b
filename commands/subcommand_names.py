"""The subcommands of ``opduel``."""

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
