"""HTML from templates, with every value escaped; and assets: style sheets and scripts of a fixed list, whose URLs have
a digest of their content, so that browsers may cache them."""

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
    """Return every asset by name: its content, and the first 16 digits of its SHA-256."""
    asset_by_name = {}
    for path in (*(path for folder in _FOLDERS for path in sorted(folder.glob("*"))), *_SHARED):
        if path.suffix in _TYPES and path.is_file():
            content = path.read_bytes()
            asset_by_name[path.name] = (content, hashlib.sha256(content).hexdigest()[:16])
    return asset_by_name


def asset_url(name: str) -> str:
    """Return the URL of the asset ``name``, which changes with its content. Raises KeyError: there is no such asset."""
    return f"/assets/{name}?v={assets()[name][1]}"


@router.get("/assets/{name}")
def asset(name: str, v: str = "") -> Response:
    """Return an asset. With the digest of its content in the query it may be cached for a year."""
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
    """Return the page that ``template`` (a file in templates/) makes of ``values``, and of ``has_cookie``: whether the
    browser has a login, valid or not."""
    values.setdefault("has_cookie", bool(request.cookies.get(COOKIE)))
    return HTMLResponse(ENVIRONMENT.get_template(template).render(request=request, **values), status)


def redirect_with_cookie(request: Request, target: str, cookie: str, value: str, lasts: timedelta) -> Response:
    """Return a redirection to ``target`` that sets a cookie which neither scripts nor other sites can use."""
    response = RedirectResponse(target, 303)
    is_tls = request.url.scheme == "https"
    seconds = int(lasts.total_seconds())
    response.set_cookie(cookie, value, max_age=seconds, httponly=True, samesite="strict", secure=is_tls)
    return response
