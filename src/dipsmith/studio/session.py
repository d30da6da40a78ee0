"""A session: what one start of the studio lets in, and by which secrets.

One browser enters, once, with either of two one-time secrets: a token that only a file of the user's own holds, or a code
that the terminal shows and the user types. It gets a cookie, which its scripts cannot read, and the pages' secret, which
only scripts of these pages can read and send. Each request that shows or changes anything needs both: the cookie alone
reaches other servers on the same host name, because browsers ignore ports there; the pages' secret never leaves its
origin. The host name is new and random with every start, so that no other server is called like it.
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass, field

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Crockford's: no letter that looks like another or like a digit."""
_AS_TYPED = str.maketrans({"-": "", " ": "", "O": "0", "I": "1", "L": "1"})
CODE_LENGTH = 10
MOST_TRIES = 5
PLAIN_HOST = "127.0.0.1"


def _secret() -> str:
    return secrets.token_urlsafe(32)


def _code(length: int = CODE_LENGTH) -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(length))


@dataclass
class Session:
    """The secrets of one server, and `host`, the only host name that is answered, without the port.

    `token` and `code` let one browser in, once: whichever is used first, both are used up. `cookie` and `page_token` are what
    it shows from then on, together. `tries` are the wrong tokens and codes that are still borne; at none left nobody
    enters any more.
    """

    # a name that browsers take for this machine and that no other server has
    host: str = field(default_factory=lambda: f"{_code(16).lower()}.localhost")
    token: str = field(default_factory=_secret)
    code: str = field(default_factory=_code)
    cookie: str = field(default_factory=_secret)
    page_token: str = field(default_factory=_secret)
    tries: int = MOST_TRIES
    entered: bool = False

    @property
    def shown_code(self) -> str:
        """The code as people read it."""
        return f"{self.code[: CODE_LENGTH // 2]}-{self.code[CODE_LENGTH // 2 :]}"

    def enter(self, offered: str) -> bool:
        """Use token or code up; False if it is wrong, was used before, or too many were wrong."""
        if self.entered or self.tries < 1:
            return False
        typed = offered.upper().translate(_AS_TYPED)
        if not (_same(offered, self.token) or _same(typed, self.code)):
            self.tries -= 1
            return False
        self.entered = True
        return True

    def knows(self, cookie: str, page_token: str) -> bool:
        """Whether a request shows both secrets."""
        return all([_same(cookie, self.cookie), _same(page_token, self.page_token)])


def _same(offered: str, secret: str) -> bool:
    return hmac.compare_digest(offered.encode("utf-8", "replace"), secret.encode())
