"""The server: one process, on the loopback addresses and nowhere else.

A browser may take a host under `localhost` for either loopback address, so the port is taken on both: otherwise somebody
else could take it on the one that is tried first.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable
from dataclasses import dataclass

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from dipsmith.errors import UsageError
from dipsmith.studio.app import build
from dipsmith.studio.gate import ENTER, HEADERS
from dipsmith.studio.session import PLAIN_HOST, Session
from dipsmith.studio.workspace import Workspace

LOOPBACKS = ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))
ABSENT = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)
"""What a machine without this loopback address says."""
TRIES = 20
"""Any port that is free on one address may be taken on the other; so several are tried."""


class _Protocol(H11Protocol):
    """HTTP as uvicorn speaks it, except that a request it cannot even parse is refused with our headers too."""

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP."""
        headers = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
        headers += [(b"Content-Type", b"text/plain; charset=utf-8"), (b"Connection", b"close")]
        for event in (
            h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
            h11.Data(data=b"This is not a request that the studio understands."),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


@dataclass(frozen=True, eq=False)
class Studio:
    """A studio that is about to listen."""

    workspace: Workspace
    listening: tuple[socket.socket, ...]
    session: Session

    @classmethod
    def on(cls, workspace: Workspace, port: int, *, plain: bool = False) -> Studio:
        """Take a port of the loopback addresses; 0 takes any free one.

        With `plain` it answers as 127.0.0.1 instead of under a random name: for browsers that do not know such names.
        """
        if not 0 <= port <= 65535:
            raise UsageError(f"--port is {port}, expected 0 to 65535")
        session = Session(host=PLAIN_HOST) if plain else Session()
        for _ in range(1 if port else TRIES):
            try:
                return cls(workspace, _bound(port), session)
            except OSError as error:
                why = error.strerror
        raise UsageError(f"port {port} cannot be used ({why}); choose another --port, or 0 for any")

    @property
    def port(self) -> int:
        """The port that was taken."""
        return int(self.listening[0].getsockname()[1])

    @property
    def address(self) -> str:
        """Where to enter; who enters needs the token or the code besides."""
        return f"http://{self.session.host}:{self.port}{ENTER}"

    def serve(self, ready: Callable[[], None]) -> None:
        """Serve until interrupted; `ready` is called once requests are answered."""
        config = uvicorn.Config(
            build(self.workspace, self.session, self.port),
            http=_Protocol,
            ws="none",
            loop="asyncio",
            lifespan="off",
            log_level="critical",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=2,
        )
        for taken in self.listening:
            taken.listen(128)
        ready()
        uvicorn.Server(config).run(sockets=list(self.listening))


def _bound(port: int) -> tuple[socket.socket, ...]:
    """The same port on every loopback address that the machine has, or OSError."""
    taken: list[socket.socket] = []
    try:
        for family, address in LOOPBACKS:
            try:
                made = socket.socket(family, socket.SOCK_STREAM)
                taken.append(made)
                made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                made.bind((address, taken[0].getsockname()[1] if len(taken) > 1 else port))
            except OSError as error:
                if family == socket.AF_INET or error.errno not in ABSENT:
                    raise
                taken = taken[:1]
    except OSError:
        for made in taken:
            made.close()
        raise
    return tuple(taken)
