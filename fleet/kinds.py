"""Kinds of hosts: what decides a host's speed and code paths, as a short name; and of which kind a host is."""

import hashlib
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from opduel.fleet.job import KIND_RESOURCE, tag_resource
from opduel.harness.host import PROC, gpu_models, text_of
from opduel.records.case import KIND_NAME

FEATURES = ("avx", "avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile", "asimd", "sve")
_STEPS = (FEATURES[:6], FEATURES[6:])  # of each, processors usually have those before what they have
_LONGEST = 64
_NOISE = re.compile(r"\((r|tm)\)|\b(cpu|processor)\b", re.IGNORECASE)


def features_of(cpuinfo: str) -> list[str]:
    """Of ``FEATURES`` those that the processor has, by the text of ``/proc/cpuinfo``."""
    found = set((_value(cpuinfo, "flags") or _value(cpuinfo, "Features")).split())
    return [feature for feature in FEATURES if feature in found]


def host_kind(proc: Path = PROC) -> str:
    """This machine's kind: its processor's model, the instructions that it has, and its GPU's model.

    ``intel-xeon-platinum-8375c-2.90ghz+avx512_vnni``: of the instructions the newest are named, or all where the
    machine hides some of those before.
    """
    cpuinfo = text_of(proc / "cpuinfo")
    parts = [_value(cpuinfo, name) for name in ("CPU implementer", "CPU part")]
    model = _value(cpuinfo, "model name") or " ".join([platform.machine(), *filter(None, parts)])
    words = [_NOISE.sub(" ", model), *_newest(features_of(cpuinfo)), *dict.fromkeys(gpu_models(proc))]
    return _short("+".join(re.sub(r"[^a-z0-9._]+", "-", word.lower()).strip("-") for word in words))


def kind_of(resources: Mapping[str, object], platforms: Sequence[str]) -> str | None:
    """The kind of a host with these resources: of ``platforms`` (tags) the last one that it has, if any are given, so
    that what is special can be named after what is general: ``avx2,avx512f``. None: it is of none of them."""
    if platforms:
        return next((tag for tag in reversed(platforms) if tag_resource(tag) in resources), None)
    marked = (name.removeprefix(KIND_RESOURCE) for name in resources if name.startswith(KIND_RESOURCE))
    return next((name for name in marked if KIND_NAME.fullmatch(name)), None)


def _value(cpuinfo: str, name: str) -> str:
    """What the first processor says of itself by this name; empty where it says nothing."""
    found = re.search(rf"^{name}\s*:\s*(.*)$", cpuinfo, re.MULTILINE)
    return found[1].strip() if found else ""


def _newest(features: Iterable[str]) -> list[str]:
    """The last of the features, where all before it are there, too; else all."""
    own = list(features)
    whole = own and any(tuple(own) == steps[: len(own)] for steps in _STEPS)
    return own[-1:] if whole else own


def _short(name: str) -> str:
    """The name, of which a digest stands for the end where it is long."""
    if len(name) <= _LONGEST:
        return name
    return f"{name[: _LONGEST - 9]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
