"""Chains of delegations (SHARP): a site believes them by their signatures, and who overcommits is convicted."""

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leasehold.impl.identity.keys import PrivateKey, Purpose, base64_of, unbase64
from leasehold.impl.identity.signed import (
    Ended,
    Forged,
    Malformed,
    NotForMe,
    Refusal,
    TooLarge,
    Unauthorised,
    UnknownSender,
)
from leasehold.impl.identity.trust import Trust, add, revoke, rotate
from leasehold.impl.lease import ticket as tickets
from leasehold.impl.lease.delegation import (
    LONGEST,
    convict,
    cut,
    is_release,
    proofs,
    read_chain,
    read_release,
    release,
    stock,
)

NAMES = {"site": "authority", "annex": "authority", "east": "broker", "west": "broker", "thief": "broker"}
KEYS = {name: PrivateKey.generate() for name in (*NAMES, "tenant")}
TRUST = Trust()
for _name, _kind in {**NAMES, "tenant": "service_manager"}.items():
    TRUST = add(TRUST, _name, f"{_kind}, holder", KEYS[_name].public)

TERM = {"start": 0, "end": 100}
STOCK = stock(KEYS["site"], site=TRUST.find("site"), at=0, lease="site:1", resource="vm", units=8, **TERM)


def below(above, holder, by=None, trust=TRUST, **terms):
    """A chain with one more link, which its holder has signed, or somebody else."""
    whose = by or read_chain(above, trust, at=0).last.holder
    return cut(KEYS[whose], above, holder=trust.find(holder), at=0, **{"serial": 1, "units": 4, **TERM, **terms})


EAST = below(STOCK, "east")
WEST = below(EAST, "west", units=2, end=50)


def refusal(text, error, words, **asked):
    with pytest.raises(error) as refused:
        read_chain(text, asked.pop("trust", TRUST), at=0, **asked)
    assert type(refused.value) is error
    assert words in refused.value.reason


def ticket(chain, broker, units=2, end=50, lease="tenant:1", serial=1, start=0, **changes):
    properties = {"chain": chain, "start": start}
    terms = {"issuer": broker, "authority": "site", "lease": lease, "serial": serial, "resource": "vm"} | changes
    return tickets.issue(
        KEYS[broker], holder=TRUST.find("tenant"), at=0, units=units, end=end, properties=properties, **terms
    )


def altered(text, at=-1, **changes):
    """A chain in which one link's body says something else, under the signature that was there."""
    links = text.split(",")
    prefix, key, signature, body = links[at].split(".")
    said = {**json.loads(unbase64(body)), **changes}
    links[at] = ".".join((prefix, key, signature, base64_of(json.dumps(said).encode())))
    return ",".join(links)


# Sound chains


def test_a_site_verifies_a_whole_chain_offline():
    chain = read_chain(WEST, TRUST, authority="site", holder="west", lease="site:1", now=0, at=0)
    assert [link.holder for link in chain.links] == ["site", "east", "west"]
    assert (chain.last.units, chain.last.end, chain.last.authority) == (2, 50, "site")
    assert chain.text == WEST


def test_a_link_that_is_signed_again_is_cut_from_by_the_same_digest():
    # Ed25519 has one signature for a body, but a signature shared by several (merkle.py) differs.
    body = unbase64(STOCK.split(".")[3])
    shared = KEYS["site"].sign_all(Purpose.DELEGATION, [body, b"another"])[0]
    again = ".".join((*STOCK.split(".")[:2], base64_of(shared), STOCK.split(".")[3]))
    assert again != STOCK
    assert read_chain(",".join((again, EAST.split(",")[1])), TRUST, at=0).last.holder == "east"


# Attacks on one chain


def test_a_chain_for_another_site():
    refusal(WEST, NotForMe, "units of site, and this is annex", authority="annex")


def test_a_site_does_not_begin_a_chain_about_another_sites_units():
    forged = cut(KEYS["site"], STOCK, holder=TRUST.find("site"), at=0, serial=1, units=8, **TERM).split(",")[1]
    refusal(forged, Unauthorised, "not cut from the one before it")
    refusal(altered(STOCK, authority="annex"), Forged, "not that of site")


def test_a_broker_does_not_begin_a_chain():
    alone = stock(KEYS["thief"], site=TRUST.find("thief"), at=0, lease="thief:1", resource="vm", units=8, **TERM)
    refusal(alone, Unauthorised, "cannot speak for 'authority'")
    refusal(EAST.split(",")[1], Unauthorised, "begins with a link of site for east")


def test_more_units_than_it_was_given():
    refusal(below(EAST, "west", units=5), Unauthorised, "east has 4 units, and hands on 5")


@pytest.mark.parametrize("term", [{"end": 101}, {"start": 100}, {"start": 60, "end": 60}])
def test_longer_than_it_was_given(term):
    refusal(below(EAST, "west", **term), Unauthorised, "east has the units from 0 to 100, and hands them on from")


def test_earlier_than_it_was_given():
    later = below(STOCK, "east", start=10)
    refusal(below(later, "west", start=9), Unauthorised, "from 10 to 100, and hands them on from 9")


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ({"resource": "gpu"}, "for units of type gpu, and is cut from vm"),
        ({"authority": "annex"}, "about units of annex, and is cut from those of site"),
        ({"lease": "site:2"}, "of the run site:2, and is cut from one of site:1"),
    ],
)
def test_another_kind_than_it_was_given(field, words):
    refusal(below(EAST, "west", **field), Unauthorised, words)


@pytest.mark.parametrize(("now", "who"), [(50, "west"), (100, "site")])
def test_a_term_that_is_over(now, who):
    chain = {"west": WEST, "site": STOCK}[who]
    refusal(chain, Ended, f"the term of the units of {who} ended at {now}", now=now)
    read_chain(chain, TRUST, now=now - 1, at=0)


def test_replayed_by_another_holder():
    refusal(EAST, Unauthorised, "handed on to east, and thief shows the chain", holder="thief")


def test_replayed_for_another_run():
    refusal(EAST, Unauthorised, "of the run site:1, not of site:2", lease="site:2")


def test_a_link_under_another_chain():
    smaller = below(STOCK, "east", units=1, serial=2)
    moved = ",".join((*smaller.split(","), WEST.split(",")[-1]))
    refusal(moved, Unauthorised, "east has 1 units, and hands on 2")
    alike = ",".join((*below(STOCK, "east", serial=2).split(","), WEST.split(",")[-1]))
    refusal(alike, Unauthorised, "not cut from the one before it")


def test_a_link_that_somebody_else_cuts():
    refusal(below(EAST, "thief", by="thief"), Forged, "none of east")
    refusal(below(EAST, "thief", by="thief", issuer="thief"), Unauthorised, "handed on to east")


def test_a_forged_link_of_a_broker_under_a_broker():
    refusal(altered(WEST, units=4), Forged, "not that of east")
    forged = below(WEST, "thief", by="thief", issuer="west")
    refusal(forged, Forged, "none of west")


def test_a_broker_hands_nothing_on_to_itself():
    refusal(below(EAST, "east"), Unauthorised, "east has handed the units on to itself")


def test_nobody_but_brokers_is_handed_units():
    refusal(below(EAST, "tenant"), Unauthorised, "cannot speak for 'broker'")


def test_a_stranger_in_a_chain():
    refusal(WEST, UnknownSender, "no actor 'east'", trust=Trust({n: a for n, a in TRUST.actors.items() if n != "east"}))


def test_a_key_that_was_taken_away():
    fingerprint = KEYS["east"].public.fingerprint
    refusal(WEST, Unauthorised, "not (or no longer) a key of east", trust=revoke(TRUST, "east", fingerprint))
    new = PrivateKey.generate()
    read_chain(WEST, rotate(TRUST, "east", new.public), at=0)


def test_a_delegation_that_was_revoked():
    def revoked(link):
        return "it was given back" if link.holder == "east" else None

    refusal(WEST, Unauthorised, "it was given back", revoked=revoked)
    read_chain(STOCK, TRUST, revoked=revoked, at=0)


def test_a_ticket_is_no_link_and_a_link_no_ticket():
    refusal(ticket(EAST, "east"), Malformed, "form of a link")
    with pytest.raises(Malformed):
        tickets.read_ticket(STOCK, TRUST, at=0)


def test_chains_have_an_end():
    chain = EAST
    for n in range(LONGEST - 2):
        chain = below(chain, ("west", "east")[n % 2])
    assert len(read_chain(chain, TRUST, at=0).links) == LONGEST
    longer = cut(KEYS["east"], chain, holder=TRUST.find("west"), at=0, serial=1, units=1, **TERM)
    refusal(longer, Malformed, f"{LONGEST} are accepted")
    refusal("x" * 70_000, TooLarge, "are accepted")


@given(st.data())
def test_no_character_of_a_chain_can_be_changed(data):
    at = data.draw(st.integers(0, len(WEST) - 1))
    character = data.draw(st.characters(codec="ascii").filter(lambda c: c != WEST[at]))
    with pytest.raises(Refusal):
        read_chain(WEST[:at] + character + WEST[at + 1 :], TRUST, at=0)


# Tickets that are cut from a chain


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"units": 5}, "for 5 units, and east has 4"),
        ({"end": 101}, "for 0 to 101, and east has the units for 0 to 100"),
        ({"resource": "gpu"}, "for gpu, and its chain for vm"),
        ({"authority": "annex"}, "for the site annex, and its chain is of site"),
    ],
)
def test_a_ticket_says_no_more_than_its_chain(changes, words):
    with pytest.raises(Unauthorised, match=words):
        convict([ticket(EAST, "east", **changes)], TRUST, at=0)


def test_a_ticket_of_a_broker_that_does_not_hold_its_chain():
    with pytest.raises(Unauthorised, match="the ticket is thief's, and its chain hands the units on to east"):
        convict([ticket(EAST, "thief")], TRUST, at=0)


def test_a_ticket_without_a_chain_proves_nothing():
    with pytest.raises(Malformed, match="carries no chain"):
        convict([ticket(None, "east")], TRUST, at=0)


# Convictions


def test_two_links_that_are_too_much_together_convict_who_cut_them():
    first, second = below(EAST, "west", units=3), below(EAST, "thief", units=2, start=20)
    (found,) = convict([first, second], TRUST, at=0)
    assert (found.accused, found.authority, found.units, found.promised, found.time) == ("east", "site", 4, 5, 20)
    assert found.papers == (0, 1)
    assert found.cleared_by == ("thief", "west")
    (proof,) = proofs([found], [first, second])
    assert proof["papers"] == [first, second]
    assert convict(proof["papers"], TRUST, at=0) == [found]


def test_a_site_that_puts_more_out_than_it_has_is_convicted():
    (found,) = convict([below(STOCK, "east", units=5), below(STOCK, "west", units=4)], TRUST, at=0)
    assert (found.accused, found.units, found.promised) == ("site", 8, 9)


def test_tickets_and_links_count_together():
    papers = [below(EAST, "west", units=3), ticket(EAST, "east", units=2)]
    (found,) = convict(papers, TRUST, at=0)
    assert (found.accused, found.promised) == ("east", 5)


def test_a_broker_under_a_broker_is_convicted_and_who_handed_on_is_not():
    papers = [ticket(WEST, "west", lease=f"tenant:{n}") for n in (1, 2)]
    (found,) = convict(papers, TRUST, at=0)
    assert (found.accused, found.units, found.promised) == ("west", 2, 4)


def test_a_proof_has_no_more_papers_than_it_needs():
    papers = [ticket(EAST, "east", units=units, lease=f"tenant:{n}") for n, units in enumerate((1, 1, 4, 1))]
    (found,) = convict(papers, TRUST, at=0)
    assert found.papers == (0, 2)
    assert found.cleared_by == ("tenant",)


@pytest.mark.parametrize(
    "papers",
    [
        [below(EAST, "west", units=2), below(EAST, "thief", units=2)],
        [below(EAST, "west", end=40), below(EAST, "thief", start=40)],
        [below(EAST, "west"), below(EAST, "west")],
        [ticket(EAST, "east", units=3, serial=1, end=50), ticket(EAST, "east", units=4, serial=2, end=60)],
        [WEST, EAST, STOCK],
        [ticket(WEST, "west"), WEST],
    ],
    ids=["no more than it has", "one after the other", "twice the same", "an extension", "one chain", "below the link"],
)
def test_who_has_kept_its_word_is_not_convicted(papers):
    assert convict(papers, TRUST, at=0) == []


def test_a_link_that_was_signed_again_for_a_new_key_counts_once():
    new = PrivateKey.generate()
    trust = rotate(TRUST, "west", new.public)
    papers = [below(EAST, "west"), below(EAST, "west", trust=trust)]
    assert papers[0] != papers[1]
    assert convict(papers, trust, at=0) == []


def test_what_is_cut_from_both_forms_of_one_link_counts_together():
    trust = rotate(TRUST, "west", PrivateKey.generate().public)
    forms = [below(EAST, "west"), below(EAST, "west", trust=trust)]
    papers = [below(forms[0], "thief", trust=trust, units=3), below(forms[1], "east", trust=trust, units=3)]
    (found,) = convict(papers, trust, at=0)
    assert (found.accused, found.promised) == ("west", 6)


def test_what_was_given_back_does_not_count():
    papers = [below(EAST, "west"), below(EAST, "thief")]
    (found,) = convict(papers, TRUST, at=0)
    assert found.accused == "east"
    back = release(KEYS["west"], issuer="east", holder="west", lease="site:1", serial=1)
    assert read_release(back, TRUST, at=0).holder == "west"
    assert convict(papers, TRUST, [back], at=0) == []
    forged = release(KEYS["east"], issuer="east", holder="west", lease="site:1", serial=1)
    with pytest.raises(Forged):
        convict(papers, TRUST, [forged], at=0)
    of_another = release(KEYS["west"], issuer="east", holder="west", lease="site:1", serial=2)
    assert convict(papers, TRUST, [of_another], at=0) == [found]


def sold_twice():
    """Two tickets of all that east has: an honest broker has sold the second once the first had come back."""
    return [ticket(EAST, "east", units=4, end=50), ticket(EAST, "east", units=4, lease="tenant:2", end=60)]


def released(by="tenant", **terms):
    return tickets.release(
        KEYS[by], **{"issuer": "east", "holder": "tenant", "lease": "tenant:1", "before": 0, **terms}
    )


@pytest.mark.parametrize("before", [0, 51])
def test_a_ticket_that_was_given_back_does_not_count(before):
    (found,) = convict(sold_twice(), TRUST, at=0)
    assert (found.accused, found.cleared_by) == ("east", ("tenant",))
    assert convict(sold_twice(), TRUST, [released(before=before)], at=0) == []


@pytest.mark.parametrize(
    "terms",
    [{"lease": "tenant:3"}, {"issuer": "west"}, {"holder": "east", "by": "east"}, {"before": 50}],
    ids=["of another lease", "of another broker's", "of another holder's", "of earlier tickets than this one"],
)
def test_the_release_of_other_tickets_clears_nobody(terms):
    (found,) = convict(sold_twice(), TRUST, at=0)
    assert convict(sold_twice(), TRUST, [released(**terms)], at=0) == [found]


def test_a_release_of_tickets_that_their_holder_has_not_signed_is_refused():
    for forged in (released("east"), released()[:-8] + "AAAAAAAA", released().replace("ltr1", "lhr1")):
        with pytest.raises((Forged, Malformed)):
            convict(sold_twice(), TRUST, [forged], at=0)
    of_a_link = release(KEYS["tenant"], issuer="east", holder="tenant", lease="tenant:1", serial=1)
    assert len(convict(sold_twice(), TRUST, [of_a_link], at=0)) == 1
    assert [is_release(text) for text in (released(), of_a_link, EAST, *sold_twice())] == [True] * 2 + [False] * 3
    with pytest.raises(UnknownSender):
        convict(sold_twice(), Trust({n: a for n, a in TRUST.actors.items() if n != "tenant"}), [released()], at=0)


def test_a_smaller_ticket_counts_alone_once_the_larger_was_given_back():
    papers = [
        ticket(EAST, "east", units=4, end=40),
        ticket(EAST, "east", units=1, serial=2, end=50),
        ticket(EAST, "east", units=3, lease="tenant:2", end=50),
    ]
    assert [one.promised for one in convict(papers, TRUST, at=0)] == [7]
    assert convict(papers, TRUST, [released(before=50)], at=0) == []
    again = ticket(EAST, "east", units=1, lease="tenant:3", end=50)
    assert [one.promised for one in convict([*papers, again], TRUST, [released(before=50)], at=0)] == [5]
    assert convict([*papers, again], TRUST, [released(before=51)], at=0) == []


def test_a_link_that_was_prolonged_counts_once_and_for_as_long_as_it_lasts():
    papers = [below(EAST, "west", end=40), below(EAST, "west", end=80)]
    assert convict(papers, TRUST, at=0) == []
    (found,) = convict([*papers, below(EAST, "thief", start=60)], TRUST, at=0)
    assert (found.accused, found.promised, found.time) == ("east", 8, 60)
    under = [below(papers[0], "thief", units=3, end=40), below(papers[1], "thief", units=3, serial=2, end=80)]
    (found,) = convict(under, TRUST, at=0)
    assert (found.accused, found.promised) == ("west", 6)
    refusal(below(papers[0], "thief", end=41), Unauthorised, "west has the units from 0 to 40")


def test_a_conviction_names_everyone_whose_release_would_clear_the_accused():
    papers = [below(EAST, "west", units=3), below(EAST, "thief", units=2), below(STOCK, "west", units=4)]
    (found,) = convict(papers, TRUST, at=0)
    assert (found.accused, found.cleared_by) == ("east", ("thief", "west"))
    for name in found.cleared_by:
        back = release(KEYS[name], issuer="east", holder=name, lease="site:1", serial=1)
        assert convict(papers, TRUST, [back], at=0) == []
    other = release(KEYS["west"], issuer="site", holder="west", lease="site:1", serial=1)
    assert convict(papers, TRUST, [other], at=0) == [found]


# Random trees of splits


@st.composite
def trees(draw):
    """Chains of a random tree of splits that keeps to its limits, each with the issuer of its last link."""
    chains = [STOCK]
    left = {STOCK: 8}
    for serial in range(1, draw(st.integers(1, 6)) + 1):
        above = draw(st.sampled_from([chain for chain in chains if left[chain]]))
        whole = read_chain(above, TRUST, at=0).last
        holder = draw(st.sampled_from([n for n in ("east", "west", "thief") if n != whole.holder]))
        units = draw(st.integers(1, left[above]))
        start = draw(st.integers(whole.start, whole.end - 1))
        end = draw(st.integers(start + 1, whole.end))
        chain = below(above, holder, serial=serial, units=units, start=start, end=end)
        left[above] -= units
        left[chain] = units
        chains.append(chain)
    return chains


@given(trees())
@settings(max_examples=40, deadline=None)
def test_a_tree_of_splits_within_their_limits_is_sound_and_convicts_nobody(chains):
    for chain in chains:
        read_chain(chain, TRUST, authority="site", at=0)
    assert convict(chains, TRUST, at=0) == []


CHANGES = {
    "issuer": st.sampled_from(list(NAMES)),
    "holder": st.sampled_from(list(NAMES)),
    "authority": st.sampled_from(["site", "annex"]),
    "lease": st.sampled_from(["site:1", "site:2"]),
    "resource": st.sampled_from(["vm", "gpu"]),
    "units": st.integers(1, 10),
    "start": st.integers(0, 100),
    "end": st.integers(0, 101),
}


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_a_chain_with_one_link_that_was_signed_otherwise_is_accepted_iff_it_is_sound(data):
    """The signer of one link says something else, and those below are cut anew: only what it says can be wrong."""
    chain = data.draw(st.sampled_from([c for c in data.draw(trees()) if c != STOCK]))
    links = list(read_chain(chain, TRUST, at=0).links)
    at = data.draw(st.integers(1, len(links) - 1))
    field = data.draw(st.sampled_from(list(CHANGES)))
    changed = msgspec.structs.replace(links[at], **{field: data.draw(CHANGES[field])})
    signer = links[at].issuer
    links[at] = changed
    text = STOCK
    for n, link in enumerate(links[1:], 1):
        terms = {name: getattr(link, name) for name in CHANGES if name != "holder"}
        by = signer if n == at else link.issuer
        text = cut(KEYS[by], text, holder=TRUST.find(link.holder), at=0, serial=link.serial, **terms)
    above = links[at - 1]
    sound = (
        changed.issuer == above.holder
        and changed.holder in ("east", "west", "thief")
        and changed.holder != changed.issuer
        and (changed.authority, changed.lease, changed.resource) == (above.authority, above.lease, above.resource)
        and changed.units <= above.units
        and above.start <= changed.start < changed.end <= above.end
    )
    if at + 1 < len(links):
        next_one = links[at + 1]
        sound = (
            sound
            and next_one.issuer == changed.holder
            and next_one.units <= changed.units
            and changed.start <= next_one.start
            and next_one.end <= changed.end
        )
    if sound:
        read_chain(text, TRUST, at=0)
    else:
        with pytest.raises(Refusal):
            read_chain(text, TRUST, at=0)


@given(trees(), st.data())
@settings(max_examples=60, deadline=None)
def test_whoever_cuts_one_unit_too_many_is_convicted(chains, data):
    above = data.draw(st.sampled_from(chains))
    whole = read_chain(above, TRUST, at=0).last
    others = [n for n in ("east", "west", "thief") if n != whole.holder]
    one = below(above, others[0], serial=50, units=whole.units, start=whole.start, end=whole.end)
    two = below(above, others[1], serial=51, units=1, start=whole.end - 1, end=whole.end)
    assert [found.accused for found in convict([*chains, one, two], TRUST, at=0) if found.units == whole.units] != []
    assert whole.holder in {found.accused for found in convict([one, two], TRUST, at=0)}
