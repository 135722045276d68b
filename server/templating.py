"""HTML from templates: every value is escaped, and assets are named with what they hold, so that they may be cached."""

from pathlib import Path

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from opduel.server.access import COOKIE
from opduel.server.assets import asset_url

ENVIRONMENT = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
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
