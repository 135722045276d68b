"""Style sheets and scripts: the files of two folders, and one more, known by name at the start; no other file ever."""

import hashlib
from functools import cache
from pathlib import Path

from fastapi import APIRouter, HTTPException
from fastapi.responses import Response

_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".txt": "text/plain; charset=utf-8",
}
_HERE = Path(__file__).resolve().parent
_REPORTERS = _HERE.parent / "reporters"
_FOLDERS = (_REPORTERS / "assets", _HERE / "static")
_SHARED = (_REPORTERS / "html" / "draw.js",)  # of the HTML report
_FOR_A_YEAR = "public, max-age=31536000, immutable"

router = APIRouter(include_in_schema=False)


@cache
def assets() -> dict[str, tuple[bytes, str]]:
    """Every asset by name: its content, and the first 16 digits of its SHA-256."""
    found = {}
    for path in (*(path for folder in _FOLDERS for path in sorted(folder.glob("*"))), *_SHARED):
        if path.suffix in _TYPES and path.is_file():
            content = path.read_bytes()
            found[path.name] = (content, hashlib.sha256(content).hexdigest()[:16])
    return found


def asset_url(name: str) -> str:
    """Where the asset ``name`` is to be had; the address changes with what it holds.

    Raises:
        KeyError: there is no such asset.
    """
    return f"/assets/{name}?v={assets()[name][1]}"


@router.get("/assets/{name}")
def asset(name: str, v: str = "") -> Response:
    """An asset. One that is asked for by its digest may be kept for ever."""
    if name not in assets():
        raise HTTPException(404, "there is no such file")
    content, digest = assets()[name]
    caching = _FOR_A_YEAR if v == digest else "no-cache"
    return Response(content, media_type=_TYPES[Path(name).suffix], headers={"Cache-Control": caching})
