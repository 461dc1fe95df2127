"""Sessions of a page."""

from leasehold.cli.operations.access import PageAccess, same_secret


def test_a_token_begins_one_session() -> None:
    access = PageAccess()
    token = access.token
    assert access.begin(token + "x") is None
    assert access.begin("") is None
    assert access.token == token
    session = access.begin(token)
    assert session is not None
    assert session.number == 1
    assert access.begin(token) is None
    other = access.begin(access.token)
    assert other is not None
    assert other.number == 2
    assert len({token, session.cookie, session.key, other.cookie, other.key}) == 5


def test_a_session_is_known_by_its_cookie_alone() -> None:
    access = PageAccess()
    assert access.session("") is None
    session = access.begin(access.token)
    assert session is not None
    assert access.session(session.cookie) is session
    assert access.session(session.key) is None
    assert access.session(access.token) is None
    assert not any(secret in repr(session) for secret in (session.cookie, session.key))


def test_any_text_can_be_compared() -> None:
    assert same_secret("é", "é")
    assert not same_secret("\udc80", "?!")
