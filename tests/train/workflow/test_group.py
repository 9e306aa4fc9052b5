from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import numpy as np
import pytest

from platoon.core.outcome import Outcome
from platoon.errors import ConfigError, Problem
from platoon.rows.merge import Call, TrajectoryCalls
from platoon.train.checkpoints.kept_groups import GroupStore
from platoon.train.credit.group import GroupCredit
from platoon.train.credit.keyed import KeyedCredit
from platoon.train.credit.protocol import Credit, CreditEstimator, CreditEstimatorError, CreditGroup
from platoon.train.task_records.fates import Verdict
from platoon.train.workflow.group import GroupRolloutWorkflow
from platoon.train.workflow.output import GroupOutput
from platoon.train.workflow.protocol import GroupRequest, GroupSettings, MemberRequest
from platoon.train.workflow.stored import from_stored, to_stored

pytestmark = pytest.mark.unit

REQUEST = GroupRequest(1, 0, 0, "default", "task")


@dataclass(frozen=True)
class Played:
    """A rollout as `episodes` gives it."""

    outcome: Outcome
    trajectories: tuple[TrajectoryCalls, ...] = ()
    rollout_id: str = "r"
    seconds: dict[str, float] = field(default_factory=lambda: {"total": 1.0})
    tokens: dict[str, int] = field(default_factory=lambda: {"prompt": 2, "completion": 1})
    calls: int = 1


def agent(reward: float, role: str = "root", policy: str = "main", version: int = 0, depth: int = 0) -> TrajectoryCalls:
    prompt, action = np.array([1, 2], np.uint32), np.array([3], np.uint32)
    return TrajectoryCalls(0, 0, role, depth, reward, [Call(prompt, action, np.array([-0.5], np.float32), policy, version)])


def scored(reward: float, *more: TrajectoryCalls, key: str = "reward", version: int = 0) -> Played:
    return Played(Outcome("scored", {key: reward}, key), (agent(reward, version=version), *more))


class FreeLease:
    @asynccontextmanager
    async def rollout(self, index: int):
        yield 0.0


def group_settings(size: int, **more: object) -> GroupSettings:
    values = {
        "min_successful": 1,
        "trained": frozenset({"main"}),
        "policies": ("main", "helper"),
        "roles": ("root", "worker"),
        "member_limit_s": 30.0,
    }
    return GroupSettings(group_size=size, **{**values, **more})  # type: ignore[arg-type]


def play(
    rollouts: list[Played | Exception | Callable[[], Awaitable[Played]]],
    credit: CreditEstimator | None = None,
    **more: object,
) -> GroupOutput:
    async def run_member(request: MemberRequest) -> Played:
        rollout = rollouts[request.member]
        if isinstance(rollout, Exception):
            raise rollout
        return rollout if isinstance(rollout, Played) else await rollout()

    workflow = GroupRolloutWorkflow(group_settings(len(rollouts), **more), run_member, credit or GroupCredit())
    return asyncio.run(asyncio.wait_for(workflow.run(REQUEST, FreeLease()), 20))


def infra(status: str) -> Played:
    return Played(Outcome.infra("sandbox_start", status))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rollouts", "more", "verdict"),
    [
        ([scored(1.0), scored(0.0)], {}, Verdict.TRAINED),
        ([scored(1.0), scored(1.0)], {}, Verdict.UNIFORM),
        ([scored(1.0), infra("error"), infra("timeout")], {}, Verdict.UNIFORM),
        ([scored(1.0), scored(0.0, key="score")], {}, Verdict.REWARD_KEY_MISMATCH),
        ([RuntimeError("no"), RuntimeError("no")], {}, Verdict.NO_RESULTS),
        ([infra("invalid"), infra("error")], {}, Verdict.NO_COMPLETED_ROOT),
        ([scored(1.0), scored(0.0), infra("error")], {"min_successful": 3}, Verdict.BELOW_MIN),
        ([scored(1.0), scored(0.0), infra("error")], {"min_successful": 2}, Verdict.TRAINED),
        ([Played(Outcome("scored", {"reward": 1.0}))] * 2, {}, Verdict.NO_DATUMS),
    ],
)
def test_verdicts(rollouts: list[Played], more: dict[str, object], verdict: Verdict) -> None:
    result = play(list(rollouts), **more)
    assert result.verdict is verdict
    assert (result.block is not None) == (verdict in (Verdict.TRAINED, Verdict.UNIFORM))
    assert len(result.members) == len(rollouts)


def test_a_fault_is_never_a_reward_and_gives_no_rows() -> None:
    result = play([scored(1.0), infra("error"), scored(0.0), infra("invalid")])
    assert [member.reward for member in result.members] == [1.0, None, 0.0, None]
    assert result.block is not None
    assert result.block.row_member.tolist() == [0, 2]
    assert result.values_R is not None
    assert result.values_R.tolist() == [0.5, -0.5]
    assert result.metrics["credit/baseline/avg"] == 0.5


def test_rows_and_values_do_not_depend_on_who_settles_first() -> None:
    def later(rollout: Played, turns: int) -> Callable[[], Awaitable[Played]]:
        async def played() -> Played:
            for _ in range(turns):
                await asyncio.sleep(0)
            return rollout

        return played

    rollouts = [scored(0.1, version=3), scored(0.7, version=4), scored(0.2)]
    outputs = [play([later(item, turns) for item, turns in zip(rollouts, order, strict=True)]) for order in ((0, 5, 9), (9, 0, 4))]
    digests = {item.block.digest() for item in outputs if item.block is not None}
    assert len(digests) == 1
    assert outputs[0].values_R is not None
    assert outputs[0].values_R.tobytes() == outputs[1].values_R.tobytes()  # type: ignore[union-attr]
    assert outputs[0].members[0].versions == {"main": (3, 3)}


def test_credit_keyed_worked_example() -> None:
    """Roots 1.0 and 0.0; workers 0.8 and 0.4 under root 0, 0.0 under root 1."""
    rollouts = [
        scored(1.0, agent(0.8, "worker", depth=1), agent(0.4, "worker", depth=1)),
        scored(0.0, agent(0.0, "worker", depth=1)),
    ]
    expected = {
        KeyedCredit(("task", "role")): [0.5, 0.4, 0.0, -0.5, -0.4],
        KeyedCredit(("task", "role"), leave_one_out=True): [1.0, 0.6, 0.0, -1.0, -0.6],
        GroupCredit(): [0.5, 0.3, -0.1, -0.5, -0.5],
        GroupCredit(leave_one_out=True): [1.0, 0.8, 0.4, -1.0, -1.0],
    }
    for credit, values in expected.items():
        result = play(list(rollouts), credit)
        assert result.values_R == pytest.approx(values), credit


def test_agents_of_frozen_policies_count_as_peers_and_give_no_rows() -> None:
    helpers = [agent(reward, "worker", "helper", depth=1) for reward in (0.2, 0.6)]
    result = play([scored(1.0, helpers[0]), scored(0.0, helpers[1])], KeyedCredit(("policy",)))
    assert result.block is not None
    assert result.block.row_trajectory.tolist() == [0, 0]
    assert result.values_R is not None
    assert result.values_R.tolist() == [0.5, -0.5]


def test_a_straggler_is_censored_and_its_cleanup_awaited() -> None:
    cleaned: list[bool] = []

    async def slow() -> Played:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
            cleaned.append(True)
        raise AssertionError

    result = play([scored(1.0), scored(0.0), slow], straggler_timeout_s=0.02)
    assert (result.members[2].status, result.members[2].straggler, result.members[2].trainable) == ("cancelled", True, False)
    assert (cleaned, result.verdict) == ([True], Verdict.TRAINED)


def test_u86_a_rollout_that_never_answers_ends_at_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platoon.train.workflow.group.CLEANUP_LIMIT_S", 0.01)
    release = asyncio.Event()

    async def deaf() -> Played:
        while not release.is_set():
            try:
                await asyncio.wait_for(release.wait(), 0.05)
            except (asyncio.CancelledError, TimeoutError):
                continue
        return scored(1.0)

    async def scenario() -> GroupOutput:
        async def run_member(request: MemberRequest) -> Played:
            return await deaf() if request.member else scored(1.0)

        workflow = GroupRolloutWorkflow(group_settings(2, member_limit_s=0.02), run_member, GroupCredit())
        output = await asyncio.wait_for(workflow.run(REQUEST, FreeLease()), 10)
        release.set()
        await asyncio.sleep(0.1)
        return output

    result = asyncio.run(scenario())
    assert (result.members[1].status, result.members[1].failure_kind) == ("timeout", "no_answer")
    assert "no answer within" in str(result.members[1].reason)


def test_a_configuration_error_ends_the_group_and_its_other_members() -> None:
    ended: list[str] = []

    async def waits() -> Played:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("cancelled")
        raise AssertionError

    with pytest.raises(ConfigError, match="refused key"):
        play([waits, ConfigError(Problem("refused key"))])
    assert ended == ["cancelled"]


def test_an_estimator_that_fails_names_itself_and_the_entry() -> None:
    class Broken:
        def assign(self, group: CreditGroup) -> Credit:
            raise ZeroDivisionError("division by zero")

    with pytest.raises(CreditEstimatorError, match=r"'default'.*Broken: division by zero"):
        play([scored(1.0), scored(0.0)], Broken())


def test_a_stored_group_comes_back_bit_for_bit_and_is_stored_once(tmp_path) -> None:
    result = play([scored(0.1), scored(0.7, version=2), infra("timeout")])
    store = GroupStore(tmp_path / "groups")
    digest = store.save(to_stored(result, (1, 0)))
    files = {path.name: path.read_bytes() for path in store.directory.iterdir()}
    assert store.save(to_stored(result, (1, 0))) == digest
    assert {path.name: path.read_bytes() for path in store.directory.iterdir()} == files
    back = from_stored(store.load(digest))
    assert back.members == result.members
    assert (back.verdict, back.metrics, back.seconds) == (result.verdict, result.metrics, result.seconds)
    assert back.block is not None
    assert result.block is not None
    assert back.block.digest() == result.block.digest()
    assert back.values_R is not None
    assert back.values_R.tobytes() == result.values_R.tobytes()  # type: ignore[union-attr]


def test_a_damaged_or_missing_group_is_named_and_pruning_keeps_what_is_referred_to(tmp_path) -> None:
    store = GroupStore(tmp_path / "groups")
    kept, gone = (store.save(to_stored(play([scored(0.1), scored(reward)]), (1, 0))) for reward in (0.7, 0.8))
    assert store.prune({kept}) == 2
    assert from_stored(store.load(kept)).verdict is Verdict.TRAINED
    with pytest.raises(Exception, match="not there"):
        store.load(gone)
    assert store.save(to_stored(from_stored(store.load(kept)), (1, 1))) != kept
    store.discard(store.save(to_stored(from_stored(store.load(kept)), (1, 1))))
    for suffix in (".json", ".arrow"):
        path = next(path for path in store.directory.iterdir() if path.suffix == suffix)
        whole = path.read_bytes()
        path.chmod(0o644)
        path.write_bytes(whole[:-9])
        with pytest.raises(Exception, match=f"{path.name}: "):
            store.load(kept)
        path.write_bytes(whole)
