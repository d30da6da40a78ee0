"""The server: one process, one socket, on the loopback address and nowhere else."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from dipsmith.errors import UsageError
from dipsmith.studio.app import build
from dipsmith.studio.gate import HEADERS, Session
from dipsmith.studio.workspace import Workspace

LOOPBACK = "127.0.0.1"


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
    listening: socket.socket
    session: Session

    @classmethod
    def on(cls, workspace: Workspace, port: int) -> Studio:
        """Take a port of the loopback address; 0 takes any free one."""
        if not 0 <= port <= 65535:
            raise UsageError(f"--port is {port}, expected 0 to 65535")
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((LOOPBACK, port))
        except OSError as error:
            listening.close()
            raise UsageError(
                f"port {port} cannot be used ({error.strerror}); choose another --port, or 0 for any"
            ) from None
        return cls(workspace, listening, Session())

    @property
    def port(self) -> int:
        """The port that was taken."""
        return int(self.listening.getsockname()[1])

    @property
    def address(self) -> str:
        """Where to enter, with the one-time token."""
        return f"http://{LOOPBACK}:{self.port}/enter?token={self.session.token}"

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
        self.listening.listen(128)
        ready()
        uvicorn.Server(config).run(sockets=[self.listening])
