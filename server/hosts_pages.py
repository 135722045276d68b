"""The pages of hosts: which need attention, and one host's noise over its runs."""

from fastapi import APIRouter, Request
from fastapi.responses import Response

from opduel.server.access import CanRead, database_of
from opduel.server.api import require_found
from opduel.server.hosts import COMPARED, count_hosts, find_host, list_hosts
from opduel.server.pages import PageNumber, page_of, words_of

router = APIRouter(include_in_schema=False)


@router.get("/hosts")
def hosts_page(request: Request, _reader: CanRead, page: PageNumber = 1) -> Response:
    """Show hosts page by page, those seen last first."""
    with database_of(request).reading() as session:
        total = count_hosts(session)
        pages = max(1, -(-total // COMPARED))
        page = min(page, pages)
        hosts = list_hosts(session, COMPARED, (page - 1) * COMPARED)
        return page_of(request, "hosts.html", hosts=hosts, total=total, page=page, pages=pages)


@router.get("/hosts/{host:path}")
def host_page(request: Request, _reader: CanRead, host: str) -> Response:
    """Show one host: what it measured, and its noise over time."""
    with database_of(request).reading() as session:
        return page_of(request, "host.html", host=require_found(find_host(session, words_of(host)), "host"))
