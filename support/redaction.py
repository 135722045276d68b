"""Mask secrets in texts, command lines and variables, before they are stored or logged.

Texts are searched for what looks like a secret. That can miss one, so command lines and variables are treated the other
way round: only what is known to be harmless stays.
"""

import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import is_dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit, urlunsplit

T = TypeVar("T")
MASK = "***"
SHORTEST_SECRET = 8  # characters; shorter ones would be found everywhere in texts

# Names whose values are secret; the name of a file or folder that holds a secret is not one of them.
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
# An option and its value, as two words, unless the second is the next option, or a file that holds the secret (@FILE).
# Our own messages name --notify_webhook, and never show its address.
_OPTION = re.compile(rf"--?[\w-]{{0,80}}{_NAMES_SECRET}[\w-]{{0,80}}", re.I)
_OPTION_VALUE = re.compile(
    rf"(?<![\w-])(?!--notify_webhook )(--?[\w-]{{0,80}}{_NAMES_SECRET}[\w-]{{0,80}}[ \t]+)(?![-@])"
    r"(\"[^\"]*\"|'[^']*'|[^\s\"']+)",
    re.I,
)
# The first group is the text before the secret. Repetitions have an upper limit: a long text must not take its square.
_SECRET_PATTERNS = (
    re.compile(
        r"\b((?:proxy-)?authorization[\"']?\s*[:=]\s*[\"']?(?:(?:bearer|basic|token|digest|negotiate|apikey)\s+)?)"
        r"[^\s\"',;]+",
        re.I,
    ),
    re.compile(
        r"(?<![\w-])((?:x-[\w-]{0,80}(?:token|key|auth|secret)[\w-]{0,80}|private-token|job-token|api-?key):\s*)"
        r"[^\s\"']+",
        re.I,
    ),
    re.compile(r"\b((?:set-)?cookie:\s*)[^\"'\r\n]+", re.I),
    re.compile(r"\b(bearer\s+)[\w.~+/=-]{8,}", re.I),
    re.compile(r"((?<!\S)(?:-u|--user)[ =][\"']?)[^\s:\"']+:[^\s\"']+"),
    re.compile(r"(\bhooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/)\S+", re.I),
    re.compile(r"(\bdiscord(?:app)?\.com/api/webhooks/|\bapi\.telegram\.org/bot|\boffice\.com/webhook\w*/)\S+", re.I),
    re.compile(r"(-----BEGIN [A-Z ]*PRIVATE KEY-----)(?!\*\*\*)[\s\S]*?(?:-----END[A-Z ]*-----|\Z)"),
    # The tokens of known services, ours among them.
    re.compile(r"()\b(?:gh[pousr]_\w{16,}|github_pat_\w{20,}|gl(?:pat|dt|cbt|rt)-[\w-]{16,}|xox[a-z]-[\w-]{10,})"),
    re.compile(r"()\b(?:A[KS]IA[0-9A-Z]{16}|eyJ[\w-]{8,2000}\.[\w-]{8,}\.[\w-]*|opduel_[0-9a-f]{16}_[\w-]{43})"),
    re.compile(r"()\b(?:pypi-[\w-]{50,}|npm_\w{30,}|hf_\w{30,}|sk-[\w-]{20,}|AIza[\w-]{35})"),
)

# Variables that say how libraries compute, whose values belong in the report.
_HARMLESS_VARIABLES = (
    *("OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "BLIS_"),
    *("DNNL_", "ONEDNN_", "MKLDNN_", "MALLOC_", "GLIBC_TUNABLES"),
    *("CUDA_", "CUDNN_", "CUBLAS_", "NCCL_", "NVIDIA_"),
)

_MASKED_VALUES: set[str] = set()  # secrets that the user gave this process, from ``mask_everywhere``


def mask_everywhere(values: Iterable[str]) -> None:
    """Let ``redact`` mask these values, and each of their lines, from now on, except for short ones."""
    for value in values:
        lines = {value, *(line.strip() for line in value.splitlines())}
        _MASKED_VALUES.update(line for line in lines if len(line) >= SHORTEST_SECRET)


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """Return the text with everything masked that is, or looks like, a secret: ``secrets``, those of
    ``mask_everywhere`` and of the environment, passwords in addresses, headers that log in, tokens of known services,
    assignments to names such as PASSWORD, and values of options such as ``--token``. Known secrets are found as they
    are, as Python's repr shows them, and percent-encoded. The user name alone in an ssh address stays."""
    return _redact(text, _forms_of_secrets(secrets))


def _forms_of_secrets(secrets: Iterable[str] = ()) -> tuple[str, ...]:
    """Return all that stands for a known secret in a text, the longest secret first."""
    return _forms_of(frozenset(secrets) | _MASKED_VALUES | secrets_of(os.environ))


@lru_cache(maxsize=16)
def _forms_of(secrets: frozenset[str]) -> tuple[str, ...]:
    return tuple(
        form
        for secret in sorted(secrets - {""}, key=len, reverse=True)
        for form in (secret, repr(secret)[1:-1], quote(secret, safe="", errors="surrogateescape"))
    )


def _redact(text: str, forms_of_secrets: Iterable[str]) -> str:
    for form in forms_of_secrets:
        text = text.replace(form, MASK)
    for pattern in _SECRET_PATTERNS:
        text = pattern.sub(rf"\g<1>{MASK}", text)
    text = _ASSIGNED.sub(lambda match: match[1] + _mask(match[2]), text)
    text = _FIELD.sub(lambda match: match[1] + _mask(match[3]) + match[2], text)
    text = _OPTION_VALUE.sub(lambda match: match[1] + _mask(match[2]), text)
    text = _ADDRESS.sub(lambda match: _PARAMETER.sub(_mask_parameter, match[0]), text)
    return _USER_INFO.sub(_mask_user, text)


def redact_data(value: T) -> T:
    """Return plain data and dataclasses with every text redacted, and every text under a name such as PASSWORD, or
    after a word such as ``--token``, masked. The known secrets are collected once."""
    masked: T = _redact_data(value, _forms_of_secrets())
    return masked


def _redact_data(value: Any, forms_of_secrets: Sequence[str]) -> Any:
    def masked_entry(entry: Any, is_secret: bool) -> Any:
        return _mask(entry) if isinstance(entry, str) and is_secret else _redact_data(entry, forms_of_secrets)

    if isinstance(value, str):
        return _redact(value, forms_of_secrets)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(
            value, **{name: masked_entry(entry, is_secret_name(name)) for name, entry in vars(value).items()}
        )
    if isinstance(value, Mapping):
        return {name: masked_entry(entry, is_secret_name(str(name))) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        pairs = zip([None, *value], value, strict=False)
        entries = [masked_entry(entry, _belongs_to_secret_option(before, entry)) for before, entry in pairs]
        return entries if isinstance(value, list) else tuple(entries)
    return value


def redact_inputs(inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a case's inputs as they are stored: a program's command line redacted, and its variables masked unless
    they are harmless. Other cases' inputs stay, whose arguments may have names such as ``token_pattern``."""
    command, variables = inputs.get("command"), inputs.get("env")
    if not isinstance(command, list | tuple):
        return inputs
    stored = {**inputs, "command": redact_data(command)}
    if isinstance(variables, Mapping):
        stored["env"] = recorded_variables({name: str(value) for name, value in variables.items()})
    return stored


def secret_arguments(words: Sequence[str]) -> set[str]:
    """Return the values of a command line's options with secret names: ``--token VALUE``, ``--token=VALUE``."""
    followed = {word for before, word in pairwise(words) if _belongs_to_secret_option(before, word)}
    assigned = {word.partition("=")[2] for word in words if _OPTION.fullmatch(word.partition("=")[0])}
    return {word for word in followed | assigned if word and _mask(word) == MASK}


def secrets_of(variables: Mapping[str, str]) -> set[str]:
    """Return the values of variables with secret names, without those that are too short to be masked in texts.

    ``@FILE`` is not a secret, though the file holds one.
    """
    values = {variables[name] for name in variables if is_secret_name(name)}
    return {value for value in values if len(value) >= SHORTEST_SECRET and not value.startswith("@")}


def recorded_command(words: Sequence[str], harmless_options: Collection[str]) -> list[str]:
    """Return a command line as it is stored: program, names of options, and the redacted values of
    ``harmless_options``. All other words are masked."""
    recorded, option = list(words[:1]), ""
    for word in words[1:]:
        if not word.startswith("-") or re.match(r"-\.?[0-9]", word):
            recorded.append(redact(word) if option in harmless_options else MASK)
            continue
        is_long = word.startswith("--")
        option, has_value, value = word.partition("=") if is_long else (word[:2], word[2:], word[2:])
        stored_value = redact(value) if option in harmless_options else MASK
        recorded.append(f"{option}{'=' if is_long else ''}{stored_value}" if has_value else option)
    return recorded


def recorded_variables(variables: Mapping[str, str], harmless: Collection[str] = ()) -> dict[str, str]:
    """Return environment variables as they are stored: with the redacted values of ``harmless`` ones (names, or
    beginnings such as ``NAME_``) and of those that say how common libraries compute. All other values are masked."""
    prefixes = (*_HARMLESS_VARIABLES, *(name for name in harmless if name.endswith("_")))
    return {
        name: redact(value) if (name in harmless or name.startswith(prefixes)) and not is_secret_name(name) else MASK
        for name, value in variables.items()
    }


def bare_address(location: str) -> str:
    """Return a location without user, password, query and fragment, fit to be shown and stored."""
    if "://" not in location:
        return location
    try:
        parts = urlsplit(location)
    except ValueError:  # not an address
        return redact(location)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def without_user(address: str) -> str:
    """Return an address with everything before its last ``@`` masked: a password may contain any character."""
    scheme, separator, location = address.rpartition("://") if "://" in address else ("", "", address)
    _, at, host = location.rpartition("@")
    return f"{scheme}{separator}{MASK}@{host}" if at else address


@lru_cache(maxsize=10_000)  # of the environment's variables, for every text
def is_secret_name(name: str) -> bool:
    """Tell whether what has this name, a variable or an option, is likely to be a secret."""
    return _SECRET_NAME.search(name) is not None


def _belongs_to_secret_option(before: Any, word: Any) -> bool:
    return (
        isinstance(before, str)
        and isinstance(word, str)
        and _OPTION.fullmatch(before) is not None
        and not word.startswith(("-", "@"))
    )


def _mask(value: str) -> str:
    return value if _NO_SECRET.fullmatch(value) else MASK


def _mask_parameter(match: re.Match[str]) -> str:
    before, name, value = match.groups()
    return f"{before}{name}={_mask(value) if _SECRET_PARAMETER.search(name) else value}"


def _mask_user(match: re.Match[str]) -> str:
    scheme, user = match.groups()
    if "ssh" in scheme.lower() and ":" not in user:
        return match.group()
    return f"{scheme}{MASK}@"
