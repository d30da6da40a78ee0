"""The gate: who may speak to the studio, and what every answer carries.

A page on this machine can be reached by every web site that its owner visits, and by every user of the machine. So each
request passes, in this order: its Host is the session's own (else a name that points here would do: DNS rebinding); its
Origin and Sec-Fetch-Site, where the browser sends them, are ours; and it shows the session's two secrets, the cookie
and the pages' own in a header, which no other site and no other port can send. Without secrets there is only
what holds none: the package's static files and the shell, an empty page whose script fetches the page's content with
the header, or asks for the code. Every answer, refusals included, carries the same security headers: nothing but
this server's own files is loaded, run, framed or sent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dipsmith.studio.session import Session

HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
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
MOST_OFFERED = 1000
"""Bytes of what someone who is not in yet may send."""
PAGE = re.compile(r"/|/ledger|/p/[a-z0-9-]+/(schema|check|plan|run|release|questions|compare|ledger)(/[a-z0-9-]+)?")
"""The addresses that a browser opens by itself; it gets the shell."""
STATIC = re.compile(r"/static/[a-z]+\.(js|css|svg)")
ENTER = "/enter"
NO_PAGE = (
    "No page opens at this address: begin on the first page. A tab that has not entered opens the address that "
    "'dipsmith studio' printed last."
)
"""What is said to whoever shows no secret, whether there is something at the address or not."""


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

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through or refuse it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        guarded = _with_headers(send)
        answer = self._answer(scope, Headers(scope=scope))
        if answer is None and scope["path"] == ENTER:
            answer = await self._enter(Request(scope, receive))
        if answer is None:
            await self.app(scope, _limit_body(scope, receive), guarded)
        else:
            await answer(scope, receive, guarded)

    def _answer(self, scope: Scope, headers: Headers) -> Response | None:
        """The answer to a request that does not get through; None for one that does."""
        if len(headers.getlist("host")) != 1 or headers["host"] != f"{self.session.host}:{self.port}":
            return refusal(421, "This address is not the studio's: open the one that the terminal printed.")
        own = f"http://{headers['host']}"
        if any(origin != own for origin in headers.getlist("origin")):
            return refusal(403, "Another site asked for this page; the studio answers only its own pages.")
        path, safe = scope["path"], scope["method"] in SAFE
        if path == ENTER and safe:
            return shell()
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            return refusal(403, "Another site asked for this page; open the studio's address yourself.")
        if not safe and "origin" not in headers:
            return refusal(403, "The request does not say where it comes from; use the studio's pages.")
        if path == ENTER or (safe and STATIC.fullmatch(path)):
            return None
        offered = headers.get(TOKEN_HEADER, "")
        if not offered and safe and PAGE.fullmatch(path):
            return shell()
        if not self.session.knows(Request(scope).cookies.get(self.cookie_name, ""), offered):
            return refusal(401, NO_PAGE)
        length = headers.get("content-length", "0")
        if not path.startswith("/api/upload/") and (not length.isdigit() or int(length) > MOST_BODY):
            return refusal(413, "The request is too large.")
        return None

    async def _enter(self, request: Request) -> Response:
        """Exchange the token or the code, once, for the cookie and the pages' secret."""
        offered = b""
        async for chunk in request.stream():
            offered += chunk
            if len(offered) > MOST_OFFERED:
                return refusal(413, "The request is too large.")
        try:
            found = json.loads(offered)
        except ValueError:
            found = None
        offer = found.get("offer") if request.method == "POST" and isinstance(found, dict) else None
        if not isinstance(offer, str) or not self.session.enter(offer):
            return JSONResponse({"error": self._why_not()}, 403)
        answer = JSONResponse({"secret": self.session.page_token})
        answer.set_cookie(self.cookie_name, self.session.cookie, httponly=True, samesite="strict", path="/")
        return answer

    def _why_not(self) -> str:
        if self.session.entered:
            return "A browser has entered already; start 'dipsmith studio' again to enter with another one."
        if self.session.tries < 1:
            return "Too many wrong codes: start 'dipsmith studio' again for a new one."
        left = self.session.tries
        return f"This is not the code; {left} {'try is' if left == 1 else 'tries are'} left."


def shell() -> Response:
    """The page without content that a browser gets who opens an address; the same for everyone."""
    return HTMLResponse(files("dipsmith.studio").joinpath("static", "shell.html").read_text("utf-8"))


def refusal(status: int, why: str) -> Response:
    """One sentence that says what to do, and the way back, in the studio's own dress."""
    head = '<meta name="viewport" content="width=device-width, initial-scale=1"><title>dipsmith studio</title>'
    dress = '<link rel="icon" href="/static/mark.svg"><link rel="stylesheet" href="/static/studio.css">'
    bar = '<header><a class="mark" href="/">dipsmith <span>studio</span></a></header>'
    said = f'<h1>This cannot be shown</h1><p class="lead">{why}</p><p><a class="go" href="/">To the first page</a></p>'
    return HTMLResponse(
        f'<!doctype html><html lang="en"><head><meta charset="utf-8">{head}{dress}</head>'
        f"<body>{bar}<main>{said}</main></body></html>",
        status,
    )


def _with_headers(send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            # When a file was written tells how long the run took that wrote it.
            del headers["last-modified"], headers["etag"]
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sent


def _limit_body(scope: Scope, receive: Receive) -> Receive:
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
