"""No command replaces a file that it reads: an output's name is checked against all inputs."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from opduel.commands.harness_options import HarnessOptions
from opduel.driver.catalogue.network import network_test
from opduel.harness.specs import members_of
from opduel.records import UsageError


def files_read(options: HarnessOptions, spec: Path | None) -> dict[str, list[Path]]:
    """The files that harness.py's options have it read, by option. A baseline is not among them: who names it as the
    output, too, wants it brought up to date."""
    paths_by_option: dict[str, list[Path]] = {
        "-b": [] if spec is None else [spec, *(members_of(spec) if spec.is_file() else ())],
        "--info": _paths([options.info] if options.info and not options.info.lstrip().startswith("{") else []),
        "--inputs": _paths(text[1:] for text in options.inputs or [] if text.startswith("@")),
        "--notify_webhook": _paths(text[1:] for text in options.reporting.notify_webhook if text.startswith("@")),
    }
    if token_file := options.reporting.remote_access_token_file:
        paths_by_option["--remote_access_token_file"] = _paths([token_file])
    if options.network is not None:
        files = network_test(options.network, {}).get("files", {})
        paths_by_option["--network"] = [Path(file["location"]) for file in files.values()]
    if options.round_log is not None:
        paths_by_option["--round_log"] = [options.round_log]
    return paths_by_option


def refuse_overwriting(read: Mapping[str, Iterable[Path]], option: str, written: Iterable[Path]) -> None:
    """Raise UsageError if ``option``, which writes these files, would replace one that another option reads."""
    inputs = {os.path.realpath(path): source for source, paths in read.items() for path in paths}
    for path in written:
        if source := inputs.get(os.path.realpath(path)):
            raise UsageError(f"{option} {path}: would replace the file of {source}: give another file")


def _paths(texts: Iterable[str]) -> list[Path]:
    return [Path(os.path.expanduser(text)) for text in texts]
