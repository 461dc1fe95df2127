"""The folder of delegations, its handler, and links as credentials of messages."""

import asyncio
import os
from dataclasses import replace
from pathlib import Path

import pytest

from leasehold.impl.actor.environment import CredentialRequest
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.handlers.handler import HandlerAction, NotBegun
from leasehold.impl.identity.envelope import Envelope
from leasehold.impl.identity.keys import PrivateKey
from leasehold.impl.identity.signed import Forged, Malformed, Unauthorised
from leasehold.impl.identity.trust import Identity, Trust, add
from leasehold.impl.lease.delegation import read_chain
from leasehold.impl.lease.delegations import DelegationHandler, Delegations, FolderFault, HandedOn, published_of
from leasehold.impl.lease.link_credentials import LinkCredentials, brings_links
from leasehold.spec import load

PROGRAM = compile_system(load("delegation"))
NAMES = ("site", "east", "west", "thief")
KEYS = {name: PrivateKey.generate() for name in NAMES}
TRUST = Trust()
for _name in NAMES:
    TRUST = add(TRUST, _name, "holder", KEYS[_name].public)
PEERS = {"holder[0]": "site", "holder[1]": "east", "holder[2]": "west"}
ROLES = ("holder", "holder")


def credentials(name):
    return LinkCredentials(PROGRAM, Identity(name, KEYS[name], TRUST))


FIELDS = {
    "units": 2,
    "start": 5,
    "end": 50,
    "serial": 1,
    "type": "gpu",
    "above": None,
    "above_serial": 0,
    "whole_units": 3,
    "whole_start": 5,
    "whole_end": 60,
}


def issued(by, receiver, message="delegate", metadata=None, run="site:1", **fields):
    given = {**FIELDS, **fields} if message == "delegate" else fields
    return credentials(by).issue([CredentialRequest(metadata or {}, message, receiver, run, 7, given)])[0]


def accepted(by, sender, text, message="delegate", machine="holder[0]", run="site:1", kept=None, **fields):
    envelope = Envelope(
        version=1,
        system="delegation",
        digest="x",
        sender=sender,
        receiver=by,
        lease=run,
        sending_machine=machine,
        receiving_machine="holder[1]",
        message=message,
        number=7,
        epoch=1,
        fields={**FIELDS, **fields} if message == "delegate" else fields,
        credential=text,
    )
    return credentials(by).accept(envelope, kept or {}, 5)


TEXT = issued("site", "east")
KEPT = accepted("east", "site", TEXT)
UNDER = {"units": 1, "end": 40, "above": 0, "above_serial": 1, "whole_units": 2, "whole_end": 50}


# Credentials


def test_only_the_system_of_delegations_brings_links():
    assert brings_links(PROGRAM)
    assert not brings_links(compile_system(load("two_phase_commit")))


def test_a_link_is_kept_under_the_machine_and_the_number_of_its_cut():
    assert KEPT == {"link 1 of holder[0]": TEXT}
    below = issued("east", "west", metadata=KEPT, **UNDER)
    kept = accepted("west", "east", below, machine="holder[1]", **UNDER)
    chain = read_chain(kept["link 1 of holder[1]"], TRUST, authority="site", holder="west", roles=ROLES)
    assert [(link.holder, link.units, link.end) for link in chain.links] == [
        ("site", 3, 60),
        ("east", 2, 50),
        ("west", 1, 40),
    ]


def test_a_message_that_is_sent_again_brings_the_same_link():
    assert issued("site", "east") == TEXT


def test_a_link_does_not_begin_before_what_it_is_cut_from_though_a_clock_is_behind():
    text = issued("site", "east", start=3)
    assert accepted("east", "site", text, start=3)
    assert read_chain(text, TRUST, roles=ROLES).last.start == 5


@pytest.mark.parametrize("field", [f for f in FIELDS if not f.startswith("above")])
def test_a_message_says_what_its_link_says(field):
    wrong = "disk" if field == "type" else FIELDS[field] + 1
    with pytest.raises(Unauthorised, match="delegate says"):
        accepted("east", "site", TEXT, **{field: wrong})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"by": "west"}, "handed on to east, and west shows the chain"),
        ({"sender": "thief"}, "the link is site's, and thief brings it"),
        ({"run": "site:2"}, "of the run site:1, not of site:2"),
        ({"text": None}, "brings nothing that its sender has signed"),
    ],
)
def test_a_link_that_is_not_for_this(change, words):
    with pytest.raises(Unauthorised, match=words):
        accepted(**{"by": "east", "sender": "site", "text": TEXT, **change})


def test_nobody_begins_a_chain_in_a_run_of_another():
    forged = issued("thief", "east")
    with pytest.raises(Unauthorised, match="the units are those of thief, which has not begun site:1"):
        accepted("east", "thief", forged)


def test_who_has_no_chain_hands_nothing_on():
    refused = issued("east", "west", **UNDER)
    assert isinstance(refused, Unauthorised)


def test_a_start_that_is_no_time_cannot_be_signed():
    assert isinstance(issued("site", "east", start="noon"), Malformed)


def test_what_is_given_back_brings_a_release():
    back = issued("east", "site", "returned", serial=1)
    assert accepted("site", "east", back, "returned", "holder[1]", serial=1) == {"release of link 1 of holder[1]": back}
    with pytest.raises(Unauthorised, match="the release is of link 1 of site:1"):
        accepted("site", "east", back, "returned", "holder[1]", serial=2)
    with pytest.raises(Unauthorised, match="brings nothing"):
        accepted("site", "east", None, "returned", "holder[1]", serial=1)
    forged = issued("thief", "site", "returned", serial=1)
    with pytest.raises(Unauthorised):
        accepted("site", "east", forged, "returned", "holder[1]", serial=1)
    with pytest.raises((Forged, Malformed)):
        accepted("site", "east", back[:-6] + "AAAAAA", "returned", "holder[1]", serial=1)
    assert issued("site", "east", "undelegate", serial=1) is None
    with pytest.raises(Malformed, match="takes no link"):
        accepted("east", "site", TEXT, "undelegate", serial=1)


def test_a_link_is_prolonged_by_the_same_one_with_a_later_end():
    longer = issued("site", "east", end=60)
    kept = accepted("east", "site", longer, kept=KEPT, end=60)
    assert kept == {"link 1 of holder[0]": longer}
    below = issued("east", "west", metadata=kept, **{**UNDER, "end": 55, "whole_end": 60})
    assert read_chain(below, TRUST, authority="site", roles=ROLES).last.end == 55
    assert accepted("east", "site", TEXT, kept=KEPT) == KEPT, "the same once more"


@pytest.mark.parametrize("changed", [{"units": 1}, {"start": 6}, {"type": "disk"}])
def test_a_link_of_the_same_number_says_nothing_else(changed):
    other = issued("site", "east", **{"end": 60, **changed})
    with pytest.raises(Unauthorised, match="link 1 of site:1 was for 2 units of gpu from 5, and is said again for"):
        accepted("east", "site", other, kept=KEPT, **{"end": 60, **changed})
    assert accepted("east", "site", issued("site", "east", serial=2, **changed), kept=KEPT, serial=2, **changed)


# The folder


def action(verb="publish", actor="east", number=1, **record):
    here = {
        "units": 2,
        "end": 50,
        "start": 5,
        "type": "gpu",
        "above": 0,
        "taken": (1, 0, 0),
        "given": (0, 2, 0),
        "until": (0, 50, 0),
        "cut": (0, 0, 0),
        "recalled": frozenset(),
    }
    return HandlerAction(
        verb,
        "site:1",
        "",
        1,
        {**here, **record},
        task=f"site:1/holder[{number}]/{verb}/3",
        actor=actor,
        peers=PEERS,
        credentials=KEPT,
    )


OF_SITE = {"units": 3, "end": 60, "above": None, "taken": (0, 0, 0), "given": (0, 2, 0), "cut": (0, 1, 0)}
LINKS = read_chain(TEXT, TRUST, roles=ROLES).links


def publish(folder: Path, *actions: HandlerAction) -> None:
    handler = DelegationHandler(str(folder))
    for one in actions:
        asyncio.run(handler.act(one))


def test_what_is_kept_for_tickets_is_read_with_its_chain(tmp_path):
    publish(tmp_path, action())
    (stock,) = Delegations(tmp_path, "east").stocks
    assert (stock.site, stock.type, stock.units, stock.start, stock.end) == ("site", "gpu", 2, 5, 50)
    assert read_chain(stock.chain, TRUST, holder="east", roles=ROLES).last == LINKS[1]
    assert Delegations(tmp_path, "west").stocks == ()


def test_publishing_again_writes_nothing(tmp_path):
    publish(tmp_path, action())
    before = sorted((f.name, os.stat(f).st_ino) for f in tmp_path.iterdir())
    publish(tmp_path, action())
    assert sorted((f.name, os.stat(f).st_ino) for f in tmp_path.iterdir()) == before
    assert published_of(action()) == published_of(action("withdraw"))


def test_releases_of_links_are_published_beside_what_is_held(tmp_path):
    back = [issued("east", "site", "returned", serial=n) for n in (1, 2)]
    kept = {f"release of link {n} of holder[1]": text for n, text in enumerate(back, 1)}
    one = action(actor="site", number=0, **OF_SITE)
    publish(tmp_path, one)
    assert not [*tmp_path.glob("*.releases")]
    publish(tmp_path, replace(one, credentials=kept), replace(one, credentials=kept))
    (file,) = tmp_path.glob("*.releases")
    assert file.read_text().splitlines() == back
    assert len(Delegations(tmp_path, "site").published) == 1


def test_no_tickets_are_cut_from_what_is_called_back(tmp_path):
    publish(tmp_path, action(recalled=frozenset({1})))
    reader = Delegations(tmp_path, "east")
    assert reader.stocks == ()
    assert [one.units for one in reader.called_back] == [2]


async def test_units_are_withdrawn_when_their_seller_says_so_and_not_before(tmp_path):
    handler = DelegationHandler(str(tmp_path), look_seconds=0.1, wait_seconds=1.0)
    called_back = action("withdraw", recalled=frozenset({1}))
    with pytest.raises(NotBegun, match="site:1: tickets are still out of 2 units"):
        await handler.act(called_back)
    reader = Delegations(tmp_path, "east")
    waiting = asyncio.create_task(handler.act(called_back))
    await asyncio.sleep(0.5)
    assert not waiting.done()
    reader.withdrawn(reader.called_back[0].name)
    assert (await waiting).well
    # What was said of these units says nothing of those that are kept for tickets next.
    with pytest.raises(NotBegun):
        await handler.act(action("withdraw", recalled=frozenset({1}), cut=(0, 1, 0)))
    assert not [*tmp_path.glob("*~1.0.withdrawn")]


async def test_where_nobody_sells_units_are_withdrawn_at_once(tmp_path):
    handler = DelegationHandler(str(tmp_path), sold=False)
    assert (await handler.act(action("withdraw", recalled=frozenset({1})))).well


def test_a_site_knows_which_of_its_links_stand(tmp_path):
    site = Delegations(tmp_path, "site")
    assert "it never handed them on" in site.revoked(LINKS[1])
    publish(tmp_path, action(actor="site", number=0, **OF_SITE))
    assert [one.out for one in site.published] == [(HandedOn("east", 1, 2, 50, False),)]
    assert site.revoked(LINKS[0]) is None
    assert site.revoked(LINKS[1]) is None
    assert Delegations(tmp_path, "east").revoked(LINKS[1]) is None  # not its own to say
    publish(tmp_path, action(actor="site", number=0, **{**OF_SITE, "recalled": frozenset({1})}))
    assert site.revoked(LINKS[1]) is None
    publish(tmp_path, action(actor="site", number=0, **{**OF_SITE, "given": (0, 0, 0)}))
    assert "were given back to site" in site.revoked(LINKS[1])
    publish(tmp_path, action(actor="site", number=0, **{**OF_SITE, "cut": (0, 2, 0)}))
    assert "were given back to site" in site.revoked(LINKS[1])
    publish(tmp_path, action(actor="site", number=0, **{**OF_SITE, "units": 0, "given": (0, 0, 0)}))
    assert site.revoked(LINKS[0])


def test_a_revoked_link_is_refused_with_its_chain(tmp_path):
    publish(tmp_path, action(actor="site", number=0, **{**OF_SITE, "given": (0, 0, 0)}))
    with pytest.raises(Unauthorised, match="the units of east were given back to site"):
        read_chain(TEXT, TRUST, authority="site", revoked=Delegations(tmp_path, "site").revoked, roles=ROLES)


def test_a_folder_that_is_not_there_yet_has_nothing(tmp_path):
    reader = Delegations(tmp_path / "later", "east")
    assert reader.stocks == ()
    publish(tmp_path / "later", action())
    assert reader.stocks


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    publish(tmp_path, action())
    file = next(tmp_path.glob("*.delegation"))
    file.write_text("{}")
    with pytest.raises(FolderFault, match=r"site:1~1\.delegation: is no delegation that was published"):
        Delegations(tmp_path, "east").look()


def test_a_folder_that_cannot_be_written_is_tried_again(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(NotBegun):
        publish(tmp_path / "file", action())


def test_a_handler_that_would_never_look_is_refused():
    with pytest.raises(ValueError, match="look_seconds is 0"):
        DelegationHandler("handed", look_seconds=0)
