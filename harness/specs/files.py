"""A file that a case needs, as a spec names it: where it is, its checksum, its name in the cache."""

import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from opduel.harness.specs.fields import StrictModel, field_error, optional, text
from opduel.records import ModelFile
from opduel.support.text import show

MD5_PATTERN = r"^[0-9a-f]{32}$"
SHA256_PATTERN = r"^[0-9a-f]{64}$"
FILENAME_PATTERN = r"^[A-Za-z0-9_][A-Za-z0-9._+=@-]{0,99}$"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_SCHEMES = ("file", "http", "https")


def _location(value: Any) -> Any:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"is {show(value)}: use a path, or a URL that begins with file://, http:// or https://")
    scheme = _SCHEME.match(value)
    if scheme and scheme[1].lower() not in _SCHEMES:
        raise ValueError(f"begins with {show(scheme[0])}: use a path, file://, http:// or https://")
    return value


class File(StrictModel):
    """One file, in AI-PEP's words: location, filename, md5."""

    location: Annotated[str, BeforeValidator(_location), WithJsonSchema({"type": "string", "minLength": 1})] = Field(
        description="A path, relative to the spec's folder or absolute, or a URL: file://, http://, https://."
    )
    sha256: Annotated[str, *text(SHA256_PATTERN, "use the 64 digits, in lower case, that sha256sum prints")] | None = (
        optional("Checksum of the file at the location, which may be an archive.")
    )
    md5: Annotated[str, *text(MD5_PATTERN, "use the 32 digits, in lower case, that md5sum prints")] | None = optional(
        "The MD5 checksum of the same file, instead of sha256 or in addition."
    )
    filename: (
        Annotated[str, *text(FILENAME_PATTERN, "use a name of letters, digits and any of . _ + = @ -, no path")] | None
    ) = optional("Its name in the cache. Default: the last part of the location.")
    member: Annotated[str, Field(min_length=1, max_length=1000)] | None = optional(
        "For an archive (.tar, .tar.gz, .zip): the file in it to use."
    )

    @model_validator(mode="after")
    def _has_checksum(self) -> "File":
        if self.sha256 is None and self.md5 is None:
            raise field_error("sha256", "is missing: add it, or md5, as sha256sum or md5sum prints it")
        return self

    @property
    def is_path(self) -> bool:
        """Whether the location is a path, and no URL."""
        return _SCHEME.match(self.location) is None

    def below(self, folder: Path) -> "File":
        """Return the same file, its location counted from ``folder`` if it is a relative path, and not a word's."""
        return (
            self
            if not self.is_path or self.location.startswith("{")
            else self.model_copy(update={"location": str(folder / self.location)})
        )

    def record(self) -> ModelFile:
        """Return the file as a case has it: not fetched yet."""
        return ModelFile(self.location, self.md5, self.sha256, self.filename, self.member)
