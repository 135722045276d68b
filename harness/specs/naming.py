"""Names of cases that call functions: ``sort(1000, float64)`` says what is called with which inputs.

A name depends on its own inputs alone, so that a spec's cases keep theirs when others come and go.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from opduel.support.digests import cut

LONGEST = 100  # bytes of a name; a longer one is cut, and ends with a digest
_UNFIT = re.compile(r"[\s/]+|[^ -~]")  # in texts among the inputs


def call_name(operator: str, inputs: Mapping[str, Any], dtype: str) -> str:
    """Return ``sort(100000, kind=stable, float64)``: the function's last name, its inputs, and the dtype of arrays
    without one of their own, unless that is empty."""
    arguments = [*_arguments(inputs), *([dtype] if dtype else [])]
    return cut(f"{operator.rpartition('.')[2].strip('_')}({', '.join(arguments)})", LONGEST)


def _arguments(inputs: Mapping[str, Any]) -> Iterable[str]:
    """Yield the inputs in the order of the call. Values have their arguments' names; arrays and objects don't."""
    yield from (_text(value) for value in inputs.get("args") or ())
    for name, value in inputs.items():
        if name != "args":
            is_made = name == "self" or (isinstance(value, list | Mapping) and "value" not in value)
            yield _text(value) if is_made else f"{name}={_text(value)}"


def _text(value: Any) -> str:
    if isinstance(value, list):
        return _shape(value) if all(isinstance(size, int) for size in value) else f"[{_joined(value)}]"
    if not isinstance(value, Mapping):
        return _UNFIT.sub("_", str(value))
    if "shape" in value:
        return _array(value)
    if "tuple" in value:
        return f"({_joined(value['tuple'])})"
    for key in ("call", "function"):
        if key in value:
            arguments = [*map(_text, value.get("args") or ()), *_arguments(value.get("kwargs") or {})]
            name = value[key].rpartition(".")[2].strip("_")
            return f"{name}({', '.join(arguments)})" if arguments or key == "call" else name
    content = next(iter(value.values()), "")  # {"value": ...}, {"same_as": ...} and the like
    return _UNFIT.sub("_", content if isinstance(content, str) else json.dumps(content, separators=(",", ":")))


def _array(tensor: Mapping[str, Any]) -> str:
    """Return ``1000 int32 0..9`` or ``60x60 positive_definite``: the shape, and what else is said of an array."""
    words = [_shape(tensor["shape"]), *(tensor[key] for key in ("dtype", "sparse", "init") if tensor.get(key))]
    if tensor.get("low") is not None:
        words.append(f"{tensor['low']}..{tensor['high']}")
    if tensor.get("density") is not None:
        words.append(f"density={tensor['density']}")
    return " ".join(words)


def _shape(sizes: Iterable[int]) -> str:
    return "x".join(map(str, sizes)) or "scalar"


def _joined(values: Iterable[Any]) -> str:
    return ", ".join(map(_text, values))
