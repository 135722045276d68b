"""HTML from templates, in which every value is escaped; and style sheets and scripts: the files of two folders, and one
more, known by name at the start, no other file ever. They are named with what they hold, so that they may be cached."""

import hashlib
from datetime import timedelta
from functools import cache
from pathlib import Path

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from opduel.server.access import COOKIE

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


ENVIRONMENT = Environment(
    loader=FileSystemLoader(_HERE / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
ENVIRONMENT.globals["asset"] = asset_url


def page(request: Request, template: str, status: int = 200, **values: object) -> HTMLResponse:
    """The page that ``template`` (a file in templates/) makes of ``values``; it knows ``has_cookie``, too: whether
    the browser has a login, valid or not, that it may want to end."""
    values.setdefault("has_cookie", bool(request.cookies.get(COOKIE)))
    return HTMLResponse(ENVIRONMENT.get_template(template).render(request=request, **values), status)


def leading_to(request: Request, target: str, cookie: str, value: str, lasts: timedelta) -> Response:
    """An answer that leads to ``target``, and sets a cookie that neither scripts nor other sites use."""
    response = RedirectResponse(target, 303)
    is_tls = request.url.scheme == "https"
    seconds = int(lasts.total_seconds())
    response.set_cookie(cookie, value, max_age=seconds, httponly=True, samesite="strict", secure=is_tls)
    return response
