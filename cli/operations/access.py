"""Sessions of a page: each begins with a token that was printed where the server runs.

A token begins one session, and another takes its place. The browser keeps the session in a cookie that scripts cannot
read and that no other site's request carries. What changes something also needs the page's own key, which only the page
was told, and the page's origin.
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass, field

SECRET_BYTES = 32


def _secret() -> str:
    return secrets.token_urlsafe(SECRET_BYTES)


@dataclass(frozen=True)
class PageSession:
    """A session.

    Attributes:
        number: counted from 1.
        cookie: by which its browser is known.
        key: that its page sends with each action.
    """

    number: int
    cookie: str = field(default_factory=_secret, repr=False)
    key: str = field(default_factory=_secret, repr=False)


class PageAccess:
    """The sessions of a server.

    Attributes:
        token: begins the next session.
    """

    def __init__(self) -> None:
        self.token = _secret()
        self._sessions: list[PageSession] = []

    def begin(self, token: str) -> PageSession | None:
        """Begins a session, if the token is the right one, which then is none any more."""
        if not same_secret(token, self.token):
            return None
        self.token = _secret()
        session = PageSession(len(self._sessions) + 1)
        self._sessions.append(session)
        return session

    def session(self, cookie: str) -> PageSession | None:
        """The session of a cookie."""
        return next((session for session in self._sessions if same_secret(cookie, session.cookie)), None)


def same_secret(given: str, secret: str) -> bool:
    """Compares in a time that does not tell how much of a secret was right."""
    return hmac.compare_digest(given.encode(errors="replace"), secret.encode())
