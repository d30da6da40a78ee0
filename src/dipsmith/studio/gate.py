"""The gate: who may speak to the studio, and what every answer carries.

A page on this machine can be reached by every web site that its owner visits. So each request passes, in this
order: its Host is one of ours (else a name that points here would do: DNS rebinding); its Origin and Sec-Fetch-Site,
where the browser sends them, are ours; its cookie is the session's, which was exchanged once for the token in the
address that the terminal printed; and whatever changes something, or answers with data for a script, shows
the page's own token in a header, which no other site can set. Every answer, refusals included, carries the same
security headers: nothing but this server's own files is loaded, run, framed or sent.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), usb=()",
    "Cache-Control": "no-store",
}
SAFE = ("GET", "HEAD")
TOKEN_HEADER = "x-dipsmith-token"  # noqa: S105 - the header's name
MOST_BODY = 8 << 20
"""Bytes of a request other than an upload, which has its own limit."""


@dataclass
class Session:
    """The secrets of one server: the one-time token, the cookie it is exchanged for, the token of its pages."""

    token: str | None = field(default_factory=lambda: secrets.token_urlsafe(32))
    cookie: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    page_token: str = field(default_factory=lambda: secrets.token_urlsafe(32))

    def enter(self, offered: str) -> bool:
        """Use the one-time token up; False if it is wrong or was used before."""
        if self.token is None or not hmac.compare_digest(offered.encode(), self.token.encode()):
            return False
        self.token = None
        return True


@dataclass(frozen=True, eq=False)
class Gate:
    """The outermost layer of the application."""

    app: ASGIApp
    session: Session
    port: int

    @property
    def cookie_name(self) -> str:
        """Two studios on one machine have cookies of their own."""
        return f"dipsmith-{self.port}"

    @property
    def hosts(self) -> tuple[str, str]:
        """What a browser may call us."""
        return f"127.0.0.1:{self.port}", f"localhost:{self.port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through or refuse it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        guarded = _with_headers(send)
        answer = self._answer(scope, Headers(scope=scope))
        if answer is None:
            await self.app(scope, _limited(scope, receive), guarded)
        else:
            await answer(scope, receive, guarded)

    def _answer(self, scope: Scope, headers: Headers) -> Response | None:
        """The answer to a request that does not get through; None for one that does."""
        if len(headers.getlist("host")) != 1 or headers["host"] not in self.hosts:
            return refusal(421, "This address is not the studio's: open the one that the terminal printed.")
        own = f"http://{headers['host']}"
        if any(origin != own for origin in headers.getlist("origin")):
            return refusal(403, "Another site asked for this page; the studio answers only its own pages.")
        site = headers.get("sec-fetch-site", "none")
        if scope["path"] == "/enter":
            return self._enter(scope, site)
        if site not in ("same-origin", "none"):
            return refusal(403, "Another site asked for this page; open the studio's address yourself.")
        if not self._known(headers):
            return refusal(
                401, "This browser has no session: open the address that 'dipsmith studio' printed last."
            )
        script = scope["path"].startswith("/api/")
        if scope["method"] not in SAFE and "origin" not in headers:
            return refusal(403, "The request does not say where it comes from; use the studio's pages.")
        if scope["method"] not in SAFE or script:
            offered = headers.get(TOKEN_HEADER, "")
            if not hmac.compare_digest(offered.encode("latin-1"), self.session.page_token.encode()):
                return refusal(403, "The page's token is missing or old: reload the page.")
        length = headers.get("content-length", "0")
        if not scope["path"].startswith("/api/upload/") and (not length.isdigit() or int(length) > MOST_BODY):
            return refusal(413, "The request is too large.")
        return None

    def _enter(self, scope: Scope, site: str) -> Response:
        asked = parse_qs(scope["query_string"].decode("latin-1"))
        if scope["method"] != "GET" or not self.session.enter(asked.get("token", [""])[0]):
            return refusal(
                403, "This token is wrong or was used before: start 'dipsmith studio' again for a new one."
            )
        answer: Response
        if site in ("none", "same-origin"):
            answer = RedirectResponse("/", 303)
        else:
            # Opened by a link on another page (a terminal in the browser): the cookie is kept from requests
            # that such a page began, so the next one is begun here.
            answer = HTMLResponse(
                '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url=/">'
                '<title>dipsmith studio</title><a href="/">Open the studio</a>'
            )
        answer.set_cookie(self.cookie_name, self.session.cookie, httponly=True, samesite="strict", path="/")
        return answer

    def _known(self, headers: Headers) -> bool:
        jar: SimpleCookie = SimpleCookie()
        try:
            jar.load("; ".join(headers.getlist("cookie")))
        except CookieError:
            return False
        offered = jar[self.cookie_name].value if self.cookie_name in jar else ""
        return hmac.compare_digest(offered.encode(), self.session.cookie.encode())


def refusal(status: int, why: str) -> Response:
    """One sentence that says what to do."""
    return HTMLResponse(
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>dipsmith studio</title><p>{why}</p></html>',
        status,
    )


def _with_headers(send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            held = list(message.get("headers", []))
            named = {name.lower() for name, _ in held}
            for name, value in HEADERS.items():
                if name.lower().encode() not in named:
                    held.append((name.lower().encode(), value.encode()))
            message = {**message, "headers": held}
        await send(message)

    return sent


def _limited(scope: Scope, receive: Receive) -> Receive:
    """Stop a body that grows beyond what it may be, whatever it said of its length."""
    if scope["path"].startswith("/api/upload/"):
        return receive
    seen = 0

    async def received() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        return {"type": "http.disconnect"} if seen > MOST_BODY else message

    return received
