"""Documents of earlier versions in the words of this one: the only place that knows the old keys.

Reports, single-build reports and golden manifests carry their version. Entries of a round log carry none, and are
recognised by their keys. What is not as it should be is left as it is: whoever reads the document says what is wrong
with it.
"""

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, get_args, get_origin

from opduel.records.case import SAMPLED
from opduel.records.configuration import SEPARATORS, RunConfiguration, kinds

_STAGES = {"screen": "screening", "own": "confirmation"}
_RUN_KEYS = {"trust": "validity", "sentinels": "aa_cases", "broken": "aborted", "stopped": "stop_reason"}
# Options that a command line may spell in another way than by the name of the configuration's field.
_SPELLINGS = {
    "-b": "benchmark_file",
    "-p": "platform",
    "--platforms": "platform",
    "--int64-tensor": "int64_tensor",
}
# Keys of ``run`` that say the same, also of what no command line had.
_BESIDE = ("env", "alpha", "threads", "inject", "platform", "user_identifier", "run_type", "golden", "profiler")
_OLD_ENTRY = re.compile(r'"(screen|own|last_words|sentinels)"')


def configuration_of(run: Mapping[str, Any]) -> RunConfiguration:
    """What a run was asked for: as its report has it, or as far as other keys of a report without it say."""
    kept, command = run.get("configuration"), run.get("command")
    if isinstance(kept, Mapping):
        return RunConfiguration.of(kept)
    words = [str(word) for word in command] if isinstance(command, list | tuple) else []
    found: dict[str, Any] = {name: run[name] for name in _BESIDE if run.get(name) is not None}
    found |= {"breakdown": run.get("breakdown") == "all", **({"program": words[0]} if words else {})}
    for place, word in enumerate(words):
        option, equals, value = word.partition("=")
        name = _SPELLINGS.get(option, option[2:] if option.startswith("--") else "")
        if name not in kinds() or name in ("program", "env", "regressed_types"):
            continue
        if kinds()[name] is bool:
            found[name] = not equals
        elif equals or place + 1 < len(words):
            _add(found, name, value if equals else words[place + 1])
    return RunConfiguration.of(found)


def _add(found: dict[str, Any], name: str, text: str) -> None:
    """Add what ``text`` says of the option ``name``; nothing if it says nothing that the option could mean."""
    kind = kinds()[name]
    with suppress(ValueError):
        if name == "threshold":
            metric, equals, share = text.rpartition("=")
            names = [metric] if equals else SAMPLED
            found[name] = {**found.get(name, {}), **dict.fromkeys(names, _share(share))}
        elif name == "inject":
            found[name] = _share(text)
        elif float in (kind, *get_args(kind)):
            found[name] = float(text)
        elif int in (kind, *get_args(kind)):
            found[name] = int(text)
        elif get_origin(kind) is tuple:
            found[name] = [*found.get(name, []), *(text.split(SEPARATORS[name]) if name in SEPARATORS else [text])]
        else:
            found[name] = text


def _share(text: str) -> float:
    return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)


def upgraded_report(document: Mapping[str, Any]) -> dict[str, Any]:
    """A report (``report.json``) of version 1 as one of version 2. ``document`` is not changed."""
    found = dict(document)
    found["schema_version"] = 2
    _change(found, "run", _run)
    _change(found, "comparisons", _each(_comparison))
    return found


def upgraded_single(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document of a single-build run of version 1 as one of version 2."""
    found = dict(document)
    found["schema_version"] = 2
    _change(found, "run", _run)
    _change(found, "cases", _each(_with_failure))
    return found


def upgraded_golden(document: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest of golden outputs of version 1 as one of version 2."""
    found = dict(document)
    found["schema_version"] = 2
    _change(found, "cases", lambda cases: {case: _object(_with_failure)(one) for case, one in cases.items()})
    return found


def upgraded_entry(text: str) -> str:
    """An entry of a round log (``opduel.harness.checkpoint``); without old keys, or damaged, it stays as it is."""
    if not _OLD_ENTRY.search(text):
        return text
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return json.dumps(_entry(document)) if isinstance(document, dict) else text


def _entry(document: Mapping[str, Any]) -> dict[str, Any]:
    found = _renamed(document, {"sentinels": "aa_cases"})
    for key in ("planned", "unmeasured"):
        _change(found, key, _each_named)
    _change(found, "result", _round_result)
    return found


def _each_named(value: Any) -> Any:
    """Pairs of a case's id and a stage."""
    if not isinstance(value, list):
        return value
    return [[one[0], _stage(one[1])] if isinstance(one, list) and len(one) == 2 else one for one in value]


def _round_result(value: dict[str, Any]) -> dict[str, Any]:
    found = _renamed(value, {"sentinels": "aa_cases"})
    _change(found, "samples", _each(_sample))
    for key in ("refused", "lost"):
        _change(found, key, lambda failures: {case: _object(_failure)(one) for case, one in failures.items()})
    _change(found, "lost_worker", _failure)
    _change(found, "aa_cases", _round_result)
    return found


def _run(value: dict[str, Any]) -> dict[str, Any]:
    found = _renamed(value, _RUN_KEYS)
    _change(found, "validity", _validity)
    _change(found, "looks", _looks)
    _change(found, "incidents", _each(_with_failure))
    return found


def _validity(value: dict[str, Any]) -> dict[str, Any]:
    found = _renamed(value, {"trusted": "valid", "sentinels": "aa_checks"})
    _change(found, "aa_checks", _each(_with_samples))
    return found


def _looks(value: dict[str, Any]) -> dict[str, Any]:
    found = _renamed(value, _STAGES)
    _change(found, "by_metric", lambda metrics: {metric: _object(_looks)(one) for metric, one in metrics.items()})
    return found


def _comparison(value: dict[str, Any]) -> dict[str, Any]:
    found = _with_samples(_with_failure(value))
    if "decided_on" in found:
        found["decided_on"] = _stage(found["decided_on"])
    _change(found, "verification", lambda again: _with_samples(_with_failure(again)))
    return found


def _with_failure(value: dict[str, Any]) -> dict[str, Any]:
    found = dict(value)
    _change(found, "failure", _failure)
    return found


def _with_samples(value: dict[str, Any]) -> dict[str, Any]:
    found = dict(value)
    _change(found, "samples", _each(_sample))
    return found


def _failure(value: dict[str, Any]) -> dict[str, Any]:
    return _renamed(value, {"last_words": "output_tail"})


def _sample(value: dict[str, Any]) -> dict[str, Any]:
    return {**value, "stage": _stage(value["stage"])} if "stage" in value else value


def _stage(value: Any) -> Any:
    return _STAGES.get(value, value) if isinstance(value, str) else value


def _renamed(value: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """In the order of ``value``."""
    return {names.get(key, key): one for key, one in value.items()}


def _object(change: Callable[[dict[str, Any]], Any]) -> Callable[[Any], Any]:
    return lambda value: change(value) if isinstance(value, dict) else value


def _each(change: Callable[[dict[str, Any]], Any]) -> Callable[[Any], Any]:
    return lambda value: [_object(change)(one) for one in value] if isinstance(value, list) else value


def _change(found: dict[str, Any], key: str, change: Callable[[Any], Any]) -> None:
    """Replace the value of ``key``, if it is there and an object or a list."""
    if isinstance(found.get(key), dict | list):
        with suppress(AttributeError, TypeError):  # a list where an object belongs, or the other way round
            found[key] = change(found[key])
