"""Secrets taken out of texts, command lines and variables: what is stored or logged passes through here first.

Texts are searched for what looks like a secret. That can miss one, so command lines and variables work the other way
round: only what is known to be harmless is kept.
"""

import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

MASK = "***"
SHORTEST_SECRET = 8  # characters of a secret that is looked for in texts: "x" would be found everywhere

# A name that says that its value is a secret; one of a file or folder that holds it says so of the content only.
_NAMES_SECRET = (
    r"(?:token|secret|passw(?:or)?d|passphrase|credential|webhook|api[_-]?key|access[_-]?key|private[_-]?key|signature)"
    r"(?![\w.-]{0,80}(?:file|path|dir|directory|folder)\b)"
)
_SECRET_NAME = re.compile(_NAMES_SECRET, re.I)
_SECRET_PARAMETER = re.compile(rf"{_NAMES_SECRET}|^(?:key|sig|auth|code|pwd)$", re.I)
_NO_SECRET = re.compile(r"[0-9]{1,7}|true|false|null|none|on|off|yes|no|\*\*\*", re.I)

_USER_INFO = re.compile(r"(?<![a-z0-9+.-])([a-z][a-z0-9+.-]*:/{1,2})([^\s/'\"]*)@", re.I)
_ADDRESS = re.compile(r"\bhttps?://[^\s'\"<>]+", re.I)
_PARAMETER = re.compile(r"([?&;])([\w.~-]+)=([^&;#]+)")
_ASSIGNED = re.compile(rf"(?<![\w.-])([\w.-]{{0,80}}{_NAMES_SECRET}[\w.-]{{0,80}}=[\"']?)([^\s\"',;&]+)", re.I)
_FIELD = re.compile(rf"(?<![\w.-])([\w.-]{{0,80}}{_NAMES_SECRET}[\w.-]{{0,80}}[\"']\s*:\s*([\"']))(.*?)(\2)", re.I)
# An option and its value, as two words.  What follows may instead be the next option, or a file that holds the secret
# (@FILE).  Of --notify_webhook our own messages speak, and these never show the address.
_OPTION = re.compile(rf"--?[\w-]{{0,80}}{_NAMES_SECRET}[\w-]{{0,80}}", re.I)
_OPTION_VALUE = re.compile(
    rf"(?<![\w-])(?!--notify_webhook )(--?[\w-]{{0,80}}{_NAMES_SECRET}[\w-]{{0,80}}[ \t]+)(?![-@])"
    r"(\"[^\"]*\"|'[^']*'|[^\s\"']+)",
    re.I,
)
_SAID = (  # what comes before the secret is the first group
    re.compile(
        r"\b((?:proxy-)?authorization[\"']?\s*[:=]\s*[\"']?(?:(?:bearer|basic|token|digest|negotiate|apikey)\s+)?)"
        r"[^\s\"',;]+",
        re.I,
    ),
    re.compile(
        r"(?<![\w-])((?:x-[\w-]*(?:token|key|auth|secret)[\w-]*|private-token|job-token|api-?key):\s*)[^\s\"']+", re.I
    ),
    re.compile(r"\b((?:set-)?cookie:\s*)[^\"'\r\n]+", re.I),
    re.compile(r"\b(bearer\s+)[\w.~+/=-]{8,}", re.I),
    re.compile(r"((?<!\S)(?:-u|--user)[ =][\"']?)[^\s:\"']+:[^\s\"']+"),
    re.compile(r"(\bhooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/)\S+", re.I),
    re.compile(r"(\bdiscord(?:app)?\.com/api/webhooks/|\bapi\.telegram\.org/bot|\boffice\.com/webhook\w*/)\S+", re.I),
    re.compile(r"(-----BEGIN [A-Z ]*PRIVATE KEY-----)(?!\*\*\*)[\s\S]*?(?:-----END[A-Z ]*-----|\Z)"),
    # The tokens of known services, ours among them.
    re.compile(r"()\b(?:gh[pousr]_\w{16,}|github_pat_\w{20,}|gl(?:pat|dt|cbt|rt)-[\w-]{16,}|xox[a-z]-[\w-]{10,})"),
    re.compile(r"()\b(?:A[KS]IA[0-9A-Z]{16}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*|opduel_[0-9a-f]{16}_[\w-]{43})"),
    re.compile(r"()\b(?:pypi-[\w-]{50,}|npm_\w{30,}|hf_\w{30,}|sk-[\w-]{20,}|AIza[\w-]{35})"),
)

# Variables that say how libraries compute: whoever sets one wants to read its value in the report.
_HARMLESS_VARIABLES = (
    *(
        "OMP_",
        "GOMP_",
        "KMP_",
        "MKL_",
        "OPENBLAS_",
        "BLIS_",
        "DNNL_",
        "ONEDNN_",
        "MKLDNN_",
        "MALLOC_",
        "GLIBC_TUNABLES",
    ),
    *("CUDA_", "CUDNN_", "CUBLAS_", "NCCL_", "NVIDIA_"),
)


_GIVEN: set[str] = set()  # what the user gave this process to keep: mask_everywhere adds to it


def mask_everywhere(values: Iterable[str]) -> None:
    """From now on ``redact`` masks these values, and each of their lines, wherever they occur: all but short ones,
    which would be found everywhere."""
    for value in values:
        lines = {value, *(line.strip() for line in value.splitlines())}
        _GIVEN.update(line for line in lines if len(line) >= SHORTEST_SECRET)


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """The text without what is, or looks like, a secret: the given ones, those of ``mask_everywhere``, those in the
    environment, user names and passwords in addresses, headers that log in, tokens of known services, assignments to
    names such as PASSWORD, values of options such as ``--token``.

    A given secret is found as it is, as Python shows it, and percent-encoded. The bare user name of an ssh address
    stays.
    """
    known = {*secrets, *_GIVEN, *secrets_of(os.environ)} - {""}
    for secret in sorted(known, key=len, reverse=True):
        for form in (secret, repr(secret)[1:-1], quote(secret, safe="", errors="surrogateescape")):
            text = text.replace(form, MASK)
    for pattern in _SAID:
        text = pattern.sub(rf"\g<1>{MASK}", text)
    text = _ASSIGNED.sub(lambda found: found[1] + _masked(found[2]), text)
    text = _FIELD.sub(lambda found: found[1] + _masked(found[3]) + found[2], text)
    text = _OPTION_VALUE.sub(lambda found: found[1] + _masked(found[2]), text)
    text = _ADDRESS.sub(lambda found: _PARAMETER.sub(_mask_parameter, found[0]), text)
    return _USER_INFO.sub(_mask_user, text)


def redacted(value: Any) -> Any:
    """Plain data with every text in it redacted, and every text under a name such as PASSWORD, or after a word such as
    ``--token``, masked."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {
            name: _masked(entry) if isinstance(entry, str) and _SECRET_NAME.search(str(name)) else redacted(entry)
            for name, entry in value.items()
        }
    if isinstance(value, list | tuple):
        found = [
            _masked(entry) if isinstance(entry, str) and _belongs_to_secret_option(before, entry) else redacted(entry)
            for before, entry in zip([None, *value], value, strict=False)
        ]
        return found if isinstance(value, list) else tuple(found)
    return value


def redacted_inputs(inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    """A case's inputs as they are stored: those of a program without the values of its variables, unless these can hold
    no secret, and with its command line redacted. Others may have a name such as ``token_pattern`` and stay."""
    command, variables = inputs.get("command"), inputs.get("env")
    if not isinstance(command, list | tuple):
        return inputs
    found = {**inputs, "command": redacted(command)}
    if isinstance(variables, Mapping):
        found["env"] = recorded_variables({name: str(value) for name, value in variables.items()})
    return found


def secret_arguments(words: Sequence[str]) -> set[str]:
    """The values in a command line that its options' names call secret: ``--token VALUE``, ``--token=VALUE``."""
    followed = {word for before, word in pairwise(words) if _belongs_to_secret_option(before, word)}
    assigned = {word.partition("=")[2] for word in words if _OPTION.fullmatch(word.partition("=")[0])}
    return {word for word in followed | assigned if word and _masked(word) == MASK}


def secrets_of(variables: Mapping[str, str]) -> set[str]:
    """The values of those variables whose names say that they are secret, without those too short to be looked for.

    ``@FILE`` is no secret, though the file holds one.
    """
    return {
        value
        for name, value in variables.items()
        if len(value) >= SHORTEST_SECRET and not value.startswith("@") and _SECRET_NAME.search(name)
    }


def recorded_command(words: Sequence[str], kept: Collection[str]) -> list[str]:
    """A command line as it is stored: program, names of options, and the values of the options ``kept``, redacted.

    Every other value is masked, and so is what belongs to no option.
    """
    recorded, option = list(words[:1]), ""
    for word in words[1:]:
        if not word.startswith("-") or _is_number(word):
            recorded.append(redact(word) if option in kept else MASK)
            continue
        option, equals, value = word.partition("=") if word.startswith("--") else (word[:2], word[2:3], word[2:])
        separator = "=" if word.startswith("--") else ""
        recorded.append(option + separator * bool(equals) + (redact(value) if option in kept else MASK) * bool(equals))
    return recorded


def recorded_variables(variables: Mapping[str, str], known: Collection[str] = ()) -> dict[str, str]:
    """Environment variables as they are stored: the values of those that ``known`` names, or of which it holds the
    beginning (``NAME_``), and of those that say how common libraries compute. Every other value is masked.
    """
    begin = (*_HARMLESS_VARIABLES, *(name for name in known if name.endswith("_")))
    return {
        name: redact(value) if (name in known or name.startswith(begin)) and not _SECRET_NAME.search(name) else MASK
        for name, value in variables.items()
    }


def bare_address(location: str) -> str:
    """A location fit to be shown and kept: without user, password, query and fragment."""
    if "://" not in location:
        return location
    try:
        parts = urlsplit(location)
    except ValueError:  # it is none
        return redact(location)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def without_user(address: str) -> str:
    """One address with all masked that stands before its last ``@``: a password may hold any character."""
    scheme, separator, rest = address.rpartition("://") if "://" in address else ("", "", address)
    _, at, host = rest.rpartition("@")
    return f"{scheme}{separator}{MASK}@{host}" if at else address


def _belongs_to_secret_option(before: Any, word: str) -> bool:
    return isinstance(before, str) and _OPTION.fullmatch(before) is not None and not word.startswith(("-", "@"))


def _masked(value: str) -> str:
    return value if _NO_SECRET.fullmatch(value) else MASK


def _mask_parameter(found: re.Match[str]) -> str:
    before, name, value = found.groups()
    return f"{before}{name}={_masked(value) if _SECRET_PARAMETER.search(name) else value}"


def _mask_user(found: re.Match[str]) -> str:
    scheme, user = found.groups()
    if "ssh" in scheme.lower() and ":" not in user:
        return found.group()
    return f"{scheme}{MASK}@"


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
