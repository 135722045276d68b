"""Names of functions as compilers write them for ``__PRETTY_FUNCTION__``, in checks that report where they failed."""

import re

LONGEST_ARGUMENTS = 80  # characters of template arguments that are shown
_PRETTY = re.compile(r"[A-Za-z_][\w:<>,*&\[\] ~={}()#.]*\)(?: const)?(?: \[with .*\])?$")
_COMMON_LIBRARIES = re.compile(r"(?:std|gsl|__gnu_cxx|Eigen|absl|boost)::")
_VALUES = re.compile(r" \[with (.*)\]$")


def is_pretty_function(text: str) -> bool:
    """Return whether a text is the name of a function of a namespace or class, other than of a common library."""
    return (
        len(text) > 8 and bool(_PRETTY.match(text)) and "::" in text and not _COMMON_LIBRARIES.match(_qualified(text))
    )


def short_function(pretty: str) -> str:
    """Return ``lib::Sum<float>::run`` of ``void lib::Sum<T>::run(int) [with T = float]``, with ``<...>`` for long
    template arguments."""
    values, name = _VALUES.search(pretty), _qualified(pretty)
    for parameter, value in re.findall(r"(?:\w+ )*?(\w+) = ([^;]+)", values[1]) if values else ():
        name = re.sub(rf"(?<=[<, ]){parameter}(?=[>,])", value.strip(), name)
    return _without_long_arguments(name)


def without_arguments(name: str) -> str:
    """Return a name without template arguments."""
    name = _qualified(name) if ")" in name else name
    while (shorter := re.sub(r"<[^<>]*>", "", name)) != name:
        name = shorter
    return name


def _qualified(pretty: str) -> str:
    """Return a function's name without its return type, its parameters and the values of template parameters."""
    text = _VALUES.sub("", pretty)
    text = text[: _last_outside_brackets(text, "(", "()")]
    return text[1 + _last_outside_brackets(text, " *&", "<>()", missing=-1) :]


def _last_outside_brackets(text: str, characters: str, brackets: str, missing: int | None = None) -> int:
    """Return where the last of some characters is that no brackets enclose, by default the end if there is none."""
    depth = 0
    for at in range(len(text) - 1, -1, -1):
        depth += (text[at] in brackets[1::2]) - (text[at] in brackets[::2])
        if text[at] in characters and depth == 0:
            return at
    return len(text) if missing is None else missing


def _without_long_arguments(name: str) -> str:
    shortened, depth, start = "", 0, 0
    for character in name:
        depth += character == "<"
        if depth == 1 and character == "<":
            start = len(shortened)
        shortened += character
        depth -= character == ">"
        if depth == 0 and character == ">" and len(shortened) - start > LONGEST_ARGUMENTS:
            shortened = shortened[:start] + "<...>"
    return shortened
