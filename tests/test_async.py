"""An `async def` test is run, whatever loop it asks for: one that fails fails."""

from __future__ import annotations

import asyncio

import pytest

from leasehold.faults.simulation.loop import VirtualLoop


class OwnLoop(VirtualLoop):
    pass


@pytest.mark.loop(kind=OwnLoop)
async def test_a_test_has_the_virtual_loop_that_it_names() -> None:
    await asyncio.sleep(1000)
    assert isinstance(asyncio.get_running_loop(), OwnLoop)


@pytest.mark.xfail(raises=ZeroDivisionError)
async def test_what_fails_on_virtual_time_fails() -> None:
    await asyncio.sleep(1000)
    assert isinstance(asyncio.get_running_loop(), VirtualLoop)
    raise ZeroDivisionError


@pytest.mark.real_time
@pytest.mark.xfail(raises=ZeroDivisionError)
async def test_what_fails_on_real_time_fails() -> None:
    await asyncio.sleep(0)
    assert not isinstance(asyncio.get_running_loop(), VirtualLoop)
    raise ZeroDivisionError
