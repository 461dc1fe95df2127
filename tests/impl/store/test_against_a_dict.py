"""Every store against the dumbest twin there is, a dict: hypothesis chooses the commits, closings and crashes."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from leasehold.impl.store import mariadb, memory, owned, postgresql, sqlite
from leasehold.impl.store.store import Batch, Busy, Fenced, RecordKey

TEXTS = st.sampled_from(["", "a", "a ", "B", "é", "\U0001f600", "\uffff"]) | st.text(
    st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8
)
KEYS = st.builds(RecordKey, TEXTS, TEXTS)
WORDS = st.dictionaries(TEXTS.filter(bool), st.binary(max_size=20), max_size=3)


class Twins(RuleBasedStateMachine):
    """One store and one dict; `place` is set by the test."""

    place: Any = None

    def __init__(self) -> None:
        super().__init__()
        self.owner = f"actor {uuid4()}"  # each run has one of its own
        self.place.renew()
        self.loop = asyncio.new_event_loop()
        self.store = self.place.store()
        self.epoch = self.run(self.store.open(self.owner))
        self.records: dict[RecordKey, bytes] = {}
        self.words: dict[str, bytes] = {}
        self.events: dict[int, bytes] = {}
        self.fresh = False  # whether the store was compared since the last change

    def run(self, call: Any) -> Any:
        return self.loop.run_until_complete(call)

    @rule(puts=st.dictionaries(KEYS, st.binary(max_size=50), max_size=6), drops=st.sets(KEYS, max_size=3), words=WORDS)
    def commit(self, puts: dict[RecordKey, bytes], drops: set[RecordKey], words: dict[str, bytes]) -> None:
        drops -= puts.keys()
        self.run(self.store.commit(Batch(puts, drops, words)))
        self._apply(puts, drops, words)

    @precondition(lambda self: self.records)
    @rule(data=st.data())
    def change_what_is_there(self, data: st.DataObject) -> None:
        keys = data.draw(st.lists(st.sampled_from(sorted(self.records)), unique=True, max_size=4))
        puts, drops = dict.fromkeys(keys[::2], b"changed"), set(keys[1::2])
        self.run(self.store.commit(Batch(puts, drops)))
        self._apply(puts, drops, {})

    @rule(added=st.lists(st.binary(max_size=20), max_size=4), share=st.floats(0, 1), puts=st.booleans())
    def append_and_prune(self, added: list[bytes], share: float, puts: bool) -> None:
        last = max(self.events, default=0)
        until = int(share * (last if added else max(0, last - 1)))
        records = {RecordKey("a", "m"): b"with events"} if puts else {}
        self.run(self.store.commit(Batch(records, events=added, prune_events_to=until)))
        self.events |= enumerate(added, last + 1)
        self.events = {at: body for at, body in self.events.items() if at > until}
        self._apply(records, set(), {})

    @rule()
    def close_and_open(self) -> None:
        self.run(self.store.close())
        self._open_again(self.store)

    @rule()
    def second_owner(self) -> None:
        second = self.place.store(patience=0)
        try:
            self.run(second.open(self.owner))
        except Busy:
            return
        finally:
            self.run(second.close())
        raise AssertionError("two owners at once")

    @rule(late=KEYS)
    def takeover(self, late: RecordKey) -> None:
        old, self.store = self.store, self.place.store()
        self.run(self.place.lose_lock(old))
        self._open_again(self.store)
        try:
            self.run(old.commit(Batch(puts={late: b"late"})))
        except Fenced:
            return
        finally:
            self.run(old.close())
        raise AssertionError("the old owner could commit")

    @invariant()
    def same(self) -> None:
        if not self.fresh:
            found = self.run(self._everything())
            assert found == sorted(self.records.items())
            assert self.run(self.store.metadata()) == self.words
            assert self.run(self._events()) == list(self.events.items())
            first, last = self.run(self.store.event_range())
            assert (first, last) == (min(self.events, default=1), max(self.events, default=0))
            self.fresh = True

    def teardown(self) -> None:
        self.run(self.store.close())
        self.run(self.loop.shutdown_asyncgens())
        self.loop.close()

    async def _everything(self) -> list[tuple[RecordKey, bytes]]:
        return [item async for item in self.store.records()]

    async def _events(self) -> list[tuple[int, bytes]]:
        return [item async for item in self.store.events()]

    def _open_again(self, store: Any) -> None:
        epoch = self.run(store.open(self.owner))
        assert epoch > self.epoch
        self.epoch, self.fresh = epoch, False

    def _apply(self, puts: dict[RecordKey, bytes], drops: set[RecordKey], words: dict[str, bytes]) -> None:
        self.records = {key: body for key, body in {**self.records, **puts}.items() if key not in drops}
        self.words = {name: body for name, body in {**self.words, **words}.items() if body}
        self.fresh = False


def test_every_store_is_like_a_dict_that_survives(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its records are read in pages of two, so that these end at every place: amid a lease, at the last record."""
    for module in (owned, memory, sqlite, postgresql, mariadb):
        monkeypatch.setattr(module, "PAGE", 2)
    examples = 40 if place.kind == "memory" else 12
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        type("Twins", (Twins,), {"place": place}),
        settings=settings(
            max_examples=examples,
            stateful_step_count=15,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
