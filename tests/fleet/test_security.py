"""Certificates: made, renewed, and refused in one line."""

import stat
from pathlib import Path

import pytest

from opduel.fleet.security import AUTHORITY, AUTHORITY_KEY, CERTIFICATE, KEY, make_certificates, security_of
from opduel.records import UsageError


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    certificates = tmp_path_factory.mktemp("fleet") / "certificates"
    make_certificates(certificates, 30)
    return certificates


def copied(folder: Path, place: Path) -> Path:
    place.mkdir()
    for path in folder.iterdir():
        (place / path.name).write_bytes(path.read_bytes())
    return place


def test_keys_are_for_their_owner_alone(folder: Path) -> None:
    for name in (KEY, AUTHORITY_KEY):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600


def test_connections_are_encrypted_in_both_directions(folder: Path) -> None:
    security = security_of(folder)
    assert security.require_encryption is True
    for role in ("client", "worker", "scheduler"):
        assert security.get_tls_config_for_role(role)["ca_file"] == str(folder / AUTHORITY)


def test_a_new_certificate_is_of_the_same_authority(folder: Path, tmp_path: Path) -> None:
    place = copied(folder, tmp_path / "again")
    make_certificates(place, 60)
    assert (place / AUTHORITY).read_bytes() == (folder / AUTHORITY).read_bytes()
    assert (place / CERTIFICATE).read_bytes() != (folder / CERTIFICATE).read_bytes()
    security_of(place)


def test_what_is_wrong_is_said_in_one_line(folder: Path, tmp_path: Path) -> None:
    def refused(name: str, *names: str, content: bytes = b"", days: int | None = None) -> str:
        place = copied(folder, tmp_path / name)
        for file_name in names:
            (place / file_name).write_bytes(content)
        if days is not None:
            make_certificates(place, days)
        with pytest.raises(UsageError) as caught:
            security_of(place)
        return str(caught.value)

    other = tmp_path / "other"
    make_certificates(other, 30)
    for name, file_name, content in (
        ("damaged", CERTIFICATE, b"x"),
        ("key", KEY, (other / KEY).read_bytes()),
        ("authority", AUTHORITY, (other / AUTHORITY).read_bytes()),
    ):
        assert "cannot be read, or do not belong together" in refused(name, file_name, content=content)
    assert "expired on" in refused("expired", days=0) or "expired on" in refused("older", days=-2)
    (other / CERTIFICATE).unlink()
    with pytest.raises(UsageError, match=r"fleet\.pem is missing: make them with: opduel fleet certificates"):
        security_of(other)
    with pytest.raises(UsageError, match=r"is missing"):
        security_of(Path("x" * 300))


def test_half_an_authority_is_refused(folder: Path, tmp_path: Path) -> None:
    place = copied(folder, tmp_path / "half")
    (place / AUTHORITY_KEY).unlink()
    with pytest.raises(UsageError, match="has only one of"):
        make_certificates(place, 1)
