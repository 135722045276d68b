"""Answers to requests that fail: one line, as JSON or on a page, and never a traceback."""

from urllib.parse import urlencode

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, RedirectResponse, Response
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.exceptions import HTTPException as AnyHTTPException

from opduel.reporters.text import short_line
from opduel.server.access import LoginNeeded, is_api
from opduel.server.logs import logger
from opduel.server.templating import page
from opduel.support.validation import explain_problem

RETRY_AFTER_S = 30
DATABASE_AWAY = (OperationalError, InterfaceError, PoolTimeout)  # away, busy, or its disk is full
_LONGEST_DETAIL = 500


class Refused(HTTPException):
    """Raised for a report that is not accepted: ``status``, and one printable line of bounded length that says why."""

    def __init__(self, status: int, detail: str) -> None:
        """Keep ``detail``, which may hold untrusted text, as one printable line."""
        super().__init__(status, short_line(detail, _LONGEST_DETAIL))


def answer(request: Request, status: int, detail: str, headers: dict[str, str] | None = None) -> Response:
    """Return ``detail`` as JSON for programs, or as a page for browsers."""
    if is_api(request):
        return JSONResponse({"detail": detail}, status, headers)
    response: Response = page(request, "problem.html", status, code=status, detail=detail)
    response.headers.update(headers or {})
    return response


def add_error_handlers(app: FastAPI) -> None:
    """Register an answer for every exception that handlers raise."""
    app.add_exception_handler(AnyHTTPException, _http)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(LoginNeeded, _login)
    for kind in DATABASE_AWAY:
        app.add_exception_handler(kind, _unavailable)


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, AnyHTTPException)
    detail = short_line(str(error.detail), _LONGEST_DETAIL)
    return answer(request, error.status_code, detail, dict(error.headers or {}))


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return answer(request, 422, explain_problem(error.errors()[0], "the request", skipped=1))


async def _login(_request: Request, error: Exception) -> Response:
    assert isinstance(error, LoginNeeded)
    return RedirectResponse(f"/login?{urlencode({'next': error.target})}", 303)


async def _unavailable(request: Request, error: Exception) -> Response:
    return await _http(request, database_is_away(str(getattr(error, "orig", error))))


def database_is_away(reason: str) -> HTTPException:
    """Log ``reason``, and return the 503 that says that nothing was stored."""
    logger.error("the database can't be used: %s", short_line(reason, _LONGEST_DETAIL))
    return later("the database can't be used just now, and nothing was stored: try again later")


def later(detail: str) -> HTTPException:
    """Return a 503 with Retry-After."""
    return HTTPException(503, detail, {"Retry-After": str(RETRY_AFTER_S)})
