from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from platoon.train.dispatch.permits import PermitPool

pytestmark = pytest.mark.unit


def test_a_large_group_is_never_overtaken() -> None:
    pool = PermitPool(4)
    first, large, small = (pool.lease(count, rolling=False) for count in (3, 4, 1))
    assert (first.granted, large.granted, small.granted) == (3, 0, 0)
    first.close()
    assert (large.granted, small.granted) == (4, 0)
    large.close()
    large.close()
    assert (small.granted, pool.free) == (1, 3)


def test_a_rolling_lease_returns_each_permit_when_its_rollout_ends() -> None:
    async def scenario() -> None:
        pool = PermitPool(2)
        lease = pool.lease(2, rolling=True)
        behind = pool.lease(2, rolling=True)
        assert (lease.granted, behind.granted) == (2, 0)
        async with lease.rollout(0) as waited_s:
            assert waited_s == 0.0
        assert behind.granted == 1
        lease.close()
        assert behind.granted == 2

    asyncio.run(scenario())


def test_a_rollout_waits_for_its_permit_and_a_cancelled_one_leaves_it_to_others() -> None:
    async def scenario() -> None:
        pool = PermitPool(1)
        holder, lease = pool.lease(1, rolling=True), pool.lease(1, rolling=True)

        async def use() -> None:
            async with lease.rollout(0):
                pass

        waiting = asyncio.create_task(use())
        await asyncio.sleep(0)
        holder.close()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        lease.close()
        assert pool.free == 1

    asyncio.run(scenario())


def test_misuse_of_a_lease_is_refused() -> None:
    async def scenario() -> None:
        lease = PermitPool(2).lease(2, rolling=True)
        with pytest.raises(IndexError):
            async with lease.rollout(2):
                pass
        async with lease.rollout(0):
            pass
        with pytest.raises(RuntimeError, match="already"):
            async with lease.rollout(0):
                pass

    asyncio.run(scenario())
    with pytest.raises(ValueError, match="never fits"):
        PermitPool(2).lease(3, rolling=False)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 4), st.booleans(), st.integers(0, 3)), min_size=1, max_size=12), st.integers(4, 6))
def test_no_permit_is_lost_or_made(plan: list[tuple[int, bool, int]], size: int) -> None:
    """Groups of any size, rolling or whole, some cancelled at any point: never more run than permits, and all come back."""

    async def scenario() -> None:
        pool = PermitPool(size)
        running, most = 0, 0

        async def group(count: int, rolling: bool, cancel_after: int) -> None:
            nonlocal running, most
            lease = pool.lease(count, rolling=rolling)

            async def member(index: int) -> None:
                nonlocal running, most
                async with lease.rollout(index):
                    running += 1
                    most = max(most, running)
                    try:
                        for _ in range(index + 1):
                            await asyncio.sleep(0)
                    finally:
                        running -= 1

            members = [asyncio.create_task(member(index)) for index in range(count)]
            for _ in range(cancel_after):
                await asyncio.sleep(0)
            if cancel_after:
                members[-1].cancel()
            await asyncio.gather(*members, return_exceptions=True)
            lease.close()

        await asyncio.gather(*(group(*item) for item in plan))
        assert most <= size
        assert (pool.free, pool.waiting, running) == (size, 0, 0)

    asyncio.run(scenario())
