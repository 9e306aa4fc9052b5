"""Runs one group so that whatever it does, it settles: a fault of the group is an output, never an exception."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from platoon.errors import ConfigError
from platoon.train.credit.protocol import CreditEstimatorError
from platoon.train.dispatch.draw import Draw
from platoon.train.task_records.fates import Verdict
from platoon.train.workflow.output import GroupOutput

log = logging.getLogger(__name__)

# Pauses before a group that gave no result runs again; their number bounds the attempts.
RETRY_PAUSES_S = (1.0, 5.0)


async def run_group_guarded(
    draw: Draw,
    attempt: Callable[[], Awaitable[GroupOutput]],
    *,
    now: Callable[[], float],
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    pauses_s: Sequence[float] = RETRY_PAUSES_S,
) -> GroupOutput:
    """The output of the first attempt that gave anything, else that of the last.

    A configuration error inside a group and an estimator's are the run's, and are raised; so is a cancellation.
    """
    began = now()
    output = await _once(attempt, began, now)
    for number, pause_s in enumerate(pauses_s, start=2):
        if not output.gave_nothing:
            break
        log.warning(
            "task %s of entry %s at position %d gave no result (%s); attempt %d of %d in %g s",
            *(draw.task_id, draw.entry, draw.position, output.cause, number, len(pauses_s) + 1, pause_s),
        )
        await sleep(pause_s)
        output = await _once(attempt, began, now)
    return output


async def _once(attempt: Callable[[], Awaitable[GroupOutput]], began: float, now: Callable[[], float]) -> GroupOutput:
    try:
        return await attempt()
    except (ConfigError, CreditEstimatorError):
        raise
    except Exception as error:
        log.exception("a group failed")
        return GroupOutput(None, None, (), Verdict.FAILED, now() - began, error=f"{type(error).__name__}: {error}")
