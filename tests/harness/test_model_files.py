"""Files of networks: fetched from a real server, kept by checksum, never taken when they differ, unpacked with care."""

import gzip
import hashlib
import io
import socket
import stat
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from file_server import Answer, FileServer
from toy_bench import toy_case

from opduel.harness.models import Limits, fetch_files
from opduel.records import Case, ModelFile, RunError, UsageError

BODY = b"the network's weights" * 100
LIMITS = Limits(max_bytes=100_000, silence_s=20.0, whole_s=60.0, attempts=3, pause_s=0.01)
IMPATIENT = replace(LIMITS, silence_s=1.0)
SILENT = Answer(silent_s=60)


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def case_with(file: ModelFile) -> Case:
    return replace(toy_case("net"), files={"params": file})


def fetched(file: ModelFile, cache: Path, limits: Limits = LIMITS) -> bytes:
    """The content that the case gets."""
    (case,) = fetch_files([case_with(file)], cache, limits=limits)
    assert case.files["params"].path is not None
    return Path(case.files["params"].path).read_bytes()


def is_empty(cache: Path) -> bool:
    return not any(path.is_file() for path in cache.rglob("*"))


def test_a_file_is_fetched_once_whoever_asks(tmp_path: Path) -> None:
    messages: list[str] = []
    with FileServer(Answer(BODY)) as server:
        file = ModelFile(server.url(), sha256=sha256(BODY))
        cases = fetch_files([case_with(file), case_with(file)], tmp_path, messages.append, LIMITS)
        again = fetch_files([case_with(file)], tmp_path, messages.append, LIMITS)
        assert len(server.paths) == 1
    assert {case.files["params"].path for case in [*cases, *again]} == {
        str(tmp_path / f"sha256-{sha256(BODY)}" / "net.params")
    }
    assert messages == [f"fetching {file.location}"]


def test_what_is_kept_of_a_location_holds_no_secret(tmp_path: Path) -> None:
    with FileServer(Answer(BODY)) as server:
        secret = server.url().replace("://", "://user:hunter2@") + "?token=hunter2"
        (case,) = fetch_files([case_with(ModelFile(secret, sha256=sha256(BODY)))], tmp_path, limits=LIMITS)
        assert case.files["params"].location == server.url()


@pytest.mark.parametrize("altered", [b"", BODY[:-1], b"something else"])
def test_an_altered_file_in_the_cache_is_fetched_again(tmp_path: Path, altered: bytes) -> None:
    with FileServer(Answer(BODY)) as server:
        file = ModelFile(server.url(), md5=md5(BODY), filename="weights")
        assert fetched(file, tmp_path) == BODY
        (weights,) = (path for path in tmp_path.rglob("weights") if path.is_file())
        weights.write_bytes(altered)
        assert fetched(file, tmp_path) == BODY
        assert len(server.paths) == 2


def test_a_wrong_file_is_refused(tmp_path: Path) -> None:
    with FileServer(Answer(b"other")) as server, pytest.raises(UsageError) as caught:
        fetched(ModelFile(server.url(), sha256=sha256(BODY)), tmp_path)
    for words in ("net: files.params", server.url(), sha256(b"other"), sha256(BODY), "correct the checksum"):
        assert words in str(caught.value)
    assert is_empty(tmp_path)


def test_both_checksums_must_fit(tmp_path: Path) -> None:
    with FileServer(Answer(BODY)) as server, pytest.raises(UsageError, match=f"md5 {md5(BODY)}, not {md5(b'x')}"):
        fetched(ModelFile(server.url(), md5=md5(b"x"), sha256=sha256(BODY)), tmp_path)


@pytest.mark.parametrize(
    "trouble",
    [Answer(BODY, cut=7), Answer(BODY, cut=len(BODY)), Answer(status=503), Answer(status=429), SILENT],
    ids=["cut off", "empty", "503", "429", "silent"],
)
def test_trouble_that_passes_costs_an_attempt(tmp_path: Path, trouble: Answer) -> None:
    with FileServer(trouble, Answer(BODY)) as server:
        limits = IMPATIENT if trouble is SILENT else LIMITS
        assert fetched(ModelFile(server.url(), sha256=sha256(BODY)), tmp_path, limits) == BODY
        assert len(server.paths) == 2


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        (Answer(BODY, cut=7), "in 3 attempts .ProtocolError"),
        (Answer(status=503), "in 3 attempts .HTTPError 503"),
        (SILENT, "in 3 attempts .ReadTimeout"),
    ],
)
def test_trouble_that_stays_ends_the_run(tmp_path: Path, trouble: Answer, reason: str) -> None:
    with FileServer(trouble) as server:
        with pytest.raises(RunError, match=reason):
            fetched(ModelFile(server.url(), sha256=sha256(BODY)), tmp_path, IMPATIENT if trouble is SILENT else LIMITS)
        assert len(server.paths) == LIMITS.attempts
    assert is_empty(tmp_path)


def test_a_server_that_is_down(tmp_path: Path) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))  # and not listening
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/net"
        with pytest.raises(RunError, match=r"could not be fetched in 3 attempts \(ConnectionError"):
            fetched(ModelFile(url, sha256=sha256(BODY)), tmp_path)


def test_a_server_that_only_trickles_does_not_hold_it_for_ever(tmp_path: Path) -> None:
    with FileServer(Answer(BODY, trickle_s=0.05)) as server, pytest.raises(RunError, match=r"not there after 0\.5 s"):
        fetched(ModelFile(server.url(), sha256=sha256(BODY)), tmp_path, replace(LIMITS, whole_s=0.5))


@pytest.mark.parametrize("status", [401, 403, 404, 410])
def test_a_refusal_is_final(tmp_path: Path, status: int) -> None:
    with FileServer(Answer(status=status)) as server:
        with pytest.raises(UsageError, match=f"the server says {status}.*correct the location"):
            fetched(ModelFile(server.url(), sha256=sha256(BODY)), tmp_path)
        assert len(server.paths) == 1


@pytest.mark.parametrize("sized", [True, False])
def test_too_large_a_file_is_refused(tmp_path: Path, sized: bool) -> None:
    with FileServer(Answer(BODY, sized=sized)) as server, pytest.raises(UsageError, match="more than 1000 bytes"):
        fetched(ModelFile(server.url(), sha256=sha256(BODY)), tmp_path, replace(LIMITS, max_bytes=1000))
    assert is_empty(tmp_path)


def test_a_way_out_of_http_is_not_taken(tmp_path: Path) -> None:
    away = Answer(status=302, headers={"Location": "file:///etc/passwd"})
    with FileServer(away) as server, pytest.raises(UsageError, match="InvalidSchema"):
        fetched(ModelFile(server.url(), sha256=sha256(BODY)), tmp_path)


def test_secrets_are_not_shown(tmp_path: Path) -> None:
    with FileServer(Answer(status=404)) as server:
        url = server.url("net?token=hush").replace("http://", "http://me:hush@")
        with pytest.raises(UsageError) as caught:
            fetched(ModelFile(url, sha256=sha256(BODY)), tmp_path)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("as_url", [True, False])
def test_a_local_file(tmp_path: Path, as_url: bool) -> None:
    path = tmp_path / "a net.params"
    path.write_bytes(BODY)
    file = ModelFile(path.as_uri() if as_url else str(path), sha256=sha256(BODY))
    assert fetched(file, tmp_path / "cache") == BODY
    path.unlink()
    assert fetched(file, tmp_path / "cache") == BODY, "it is in the cache"


def test_local_files_that_can_not_be_had(tmp_path: Path) -> None:
    (tmp_path / "wrong").write_bytes(b"wrong")
    for location, words in (
        (tmp_path / "absent", "No such file"),
        (tmp_path, "Is a directory"),
        (tmp_path / "wrong", f"has sha256 {sha256(b'wrong')}, not {sha256(BODY)}"),
    ):
        with pytest.raises(UsageError, match=words):
            fetched(ModelFile(str(location), sha256=sha256(BODY)), tmp_path / "cache")


def test_a_cache_that_can_not_be_written(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(UsageError, match=r"cannot be used .*--model_cache"):
        fetched(ModelFile(str(tmp_path / "x"), sha256=sha256(BODY)), tmp_path / "cache")


def made_tar(fill: Callable[[tarfile.TarFile], object], mode: str = "w:gz") -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=mode) as archive:  # type: ignore[call-overload]
        fill(archive)
    return stream.getvalue()


def add_member(
    archive: tarfile.TarFile, name: str, content: bytes = b"", kind: bytes = tarfile.REGTYPE, to: str = ""
) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname = len(content), kind, to
    archive.addfile(info, io.BytesIO(content))


def made_zip(*members: tuple[str, bytes, int]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content, mode in members:
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, content)
    return stream.getvalue()


def unpacked(tmp_path: Path, content: bytes, member: str, limits: Limits = LIMITS) -> bytes:
    (tmp_path / "net.archive").write_bytes(content)
    file = ModelFile(str(tmp_path / "net.archive"), sha256=sha256(content), member=member)
    return fetched(file, tmp_path / "cache", limits)


def plain(archive: tarfile.TarFile) -> None:
    add_member(archive, "readme", b"hello")
    add_member(archive, "model/net.params", BODY)


@pytest.mark.parametrize(
    "content",
    [
        made_tar(plain, "w"),
        made_tar(plain, "w:gz"),
        made_tar(plain, "w:bz2"),
        made_tar(plain, "w:xz"),
        made_zip(("readme", b"hello", 0), ("model/net.params", BODY, stat.S_IFREG | 0o644)),
    ],
    ids=["tar", "tar.gz", "tar.bz2", "tar.xz", "zip"],
)
def test_a_member_of_an_archive(tmp_path: Path, content: bytes) -> None:
    assert unpacked(tmp_path, content, "model/net.params") == BODY
    (member,) = (tmp_path / "cache").rglob("member-*")
    member.write_bytes(b"altered")
    assert unpacked(tmp_path, content, "model/net.params") == BODY, "unpacked again each time"
    with pytest.raises(UsageError, match=r"has no file absent: it has readme, model/net\.params"):
        unpacked(tmp_path, content, "absent")


def hostile(kind: bytes) -> bytes:
    return made_tar(lambda archive: add_member(archive, "net", kind=kind, to="/etc/passwd"))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (hostile(tarfile.SYMTYPE), "has no file net: it has nothing"),
        (hostile(tarfile.LNKTYPE), "has no file net"),
        (hostile(tarfile.CHRTYPE), "has no file net"),
        (hostile(tarfile.FIFOTYPE), "has no file net"),
        (hostile(tarfile.DIRTYPE), "has no file net"),
        (made_tar(lambda archive: add_member(archive, "net", bytes(200_000))), "more than 100000 bytes"),
        (made_tar(plain)[:-30], "not a readable archive"),
        (gzip.compress(b"no tar"), "not a readable archive"),
        (made_tar(plain, "w:bz2")[:20] + b"damaged", "not a readable archive"),
        (b"no archive", "not a readable archive"),
        (b"", "not a readable archive"),
        (made_zip(("net", bytes(200_000), 0)), "more than 100000 bytes"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",  # archives hold the time: names must not
)
def test_hostile_and_broken_archives_are_refused(tmp_path: Path, content: bytes, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        unpacked(tmp_path, content, "net")
    assert "\n" not in str(caught.value)
    assert [path.name for path in (tmp_path / "cache").rglob("*") if path.is_file()] == ["net.archive"]


def test_a_member_that_climbs_stays_in_the_cache(tmp_path: Path) -> None:
    content = made_tar(lambda archive: add_member(archive, "../../climbed", BODY))
    assert unpacked(tmp_path, content, "../../climbed") == BODY
    assert not list(tmp_path.rglob("climbed"))
