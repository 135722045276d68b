"""From which pages forms are accepted: our own, whatever a browser says of them, and whatever it leaves out."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from results_server import RunningServer, running_server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Yield a server without runs."""
    with running_server(tmp_path_factory.mktemp("forms")) as running:
        yield running


HERE = "{here}"


@pytest.mark.parametrize(
    ("headers", "accepted"),
    [
        ({"Origin": HERE}, True),
        ({"Origin": HERE, "Sec-Fetch-Site": "same-origin"}, True),
        ({"Sec-Fetch-Site": "same-origin"}, True),
        ({"Referer": HERE + "/login?next=/"}, True),
        ({"Origin": "https://evil.example"}, False),
        ({"Origin": "https://evil.example", "Sec-Fetch-Site": "none"}, False),
        ({"Origin": "https://evil.example", "Sec-Fetch-Site": "same-origin"}, False),
        ({"Origin": "https://evil.example", "Referer": HERE + "/login"}, False),
        ({"Origin": HERE, "Sec-Fetch-Site": "cross-site"}, False),
        ({"Origin": HERE, "Sec-Fetch-Site": "same-site"}, False),
        ({"Origin": HERE + "0"}, False),  # another port
        ({"Origin": "http://127.0.0.1.evil.example"}, False),
        ({"Origin": "null"}, False),
        ({"Origin": ""}, False),
        ({"Origin": "http://[x"}, False),
        ({"Referer": "https://evil.example/?" + HERE}, False),
        ({"Referer": HERE + "@evil.example/"}, False),
        ({}, False),
    ],
)
@pytest.mark.parametrize("form", ["/login", "/logout"])
def test_a_form_counts_from_our_own_pages_alone(
    server: RunningServer, form: str, headers: dict[str, str], accepted: bool
) -> None:
    """Whatever the browser says of it: every word that it says has to fit, and it has to say one."""
    sent = {name: value.replace(HERE, server.url) for name, value in headers.items()}
    with server.client(None) as client:
        answer = client.post(form, data={"token": server.read_token}, headers=sent)
    assert answer.status_code == (303 if accepted else 403)
    assert ("Set-Cookie" in answer.headers) == accepted


def test_behind_tls_a_form_comes_by_tls(tmp_path: Path) -> None:
    with running_server(tmp_path, behind_proxy=True) as server, server.client(None) as client:
        codes = []
        for origin in ("https://results.example.org", "http://results.example.org"):
            for proto in ("https", "http"):
                headers = {"Origin": origin, "Host": "results.example.org", "X-Forwarded-Proto": proto}
                codes.append(client.post("/login", data={"token": server.read_token}, headers=headers).status_code)
    assert codes == [303, 303, 403, 303]
