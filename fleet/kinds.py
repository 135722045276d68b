"""Kinds of hosts: a short name of what decides a host's speed and code paths."""

import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from opduel.fleet.job import KIND_RESOURCE, tag_resource
from opduel.harness.machine.host import PROC, cpu_info, gpu_models
from opduel.records.case import KIND_NAME
from opduel.support.digests import cut

FEATURES = ("avx", "avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile", "asimd", "sve")
_STEPS = (FEATURES[:6], FEATURES[6:])  # a processor with one of them usually has those before it
_LONGEST = 64
_NOISE = re.compile(r"\((r|tm)\)|\b(cpu|processor)\b", re.IGNORECASE)


def features_of(cpuinfo: Mapping[str, str]) -> list[str]:
    """Return those of ``FEATURES`` that the processor has."""
    flags = set(cpuinfo.get("flags", cpuinfo.get("Features", "")).split())
    return [feature for feature in FEATURES if feature in flags]


def host_kind(proc: Path = PROC) -> str:
    """Return this machine's kind: its processor's model, instructions, and GPU model.

    Such as ``intel-xeon-platinum-8375c-2.90ghz+avx512_vnni``: of the instructions only the newest, or all if the
    machine hides some of the older ones.
    """
    cpuinfo = cpu_info(proc)
    parts = [cpuinfo.get(name) for name in ("CPU implementer", "CPU part")]
    model = cpuinfo.get("model name") or " ".join([platform.machine(), *filter(None, parts)])
    words = [_NOISE.sub(" ", model), *_newest(features_of(cpuinfo)), *dict.fromkeys(gpu_models(proc))]
    return cut("+".join(re.sub(r"[^a-z0-9._]+", "-", word.lower()).strip("-") for word in words), _LONGEST)


def kind_of(resources: Mapping[str, object], platforms: Sequence[str]) -> str | None:
    """Return the kind of a host with these resources: with ``platforms`` (tags), the last of them that it has, so that
    a special tag can follow a general one, as in ``avx2,avx512f``. None if it has none."""
    if platforms:
        return next((tag for tag in reversed(platforms) if tag_resource(tag) in resources), None)
    marked = (name.removeprefix(KIND_RESOURCE) for name in resources if name.startswith(KIND_RESOURCE))
    return next((name for name in marked if KIND_NAME.fullmatch(name)), None)


def _newest(features: Iterable[str]) -> list[str]:
    """Return the last of the features if all before it are there, else all."""
    own = list(features)
    is_gapless = own and any(tuple(own) == steps[: len(own)] for steps in _STEPS)
    return own[-1:] if is_gapless else own
