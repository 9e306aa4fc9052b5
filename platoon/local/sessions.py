"""Sessions and what they own: models in training and samplers. Plain records; the event loop alone touches them."""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from platoon.local.bases import Base
from platoon.local.checkpoints import Description
from platoon.local.promises import Turns
from platoon.local.refusals import NotFound, Refusal

if TYPE_CHECKING:
    from platoon.local.learner import Learner
    from platoon.local.sampling_engine import LiveSampler

MOST_EPHEMERAL_SAMPLERS = 64


@dataclass(eq=False)
class Session:
    """A client's session. Times are seconds since the epoch."""

    id: str
    user_metadata: dict[str, Any]
    display_name: str | None
    last_seen: float = field(default_factory=time.time)
    finished: bool = False


@dataclass(eq=False)
class Model:
    """A model in training. `learner` is set by the torch thread when the model has been made."""

    id: str
    base: Base
    rank: int
    train_groups: tuple[str, ...]
    user_metadata: dict[str, str]
    turns: Turns = field(default_factory=Turns)
    learner: Learner | None = None
    inflight: LiveSampler | None = None
    last_request: float = field(default_factory=time.time)

    @property
    def session_id(self) -> str:
        return self.id.split(":")[0]

    def ready(self) -> Learner:
        """Raises Refusal when making the model failed."""
        if self.learner is None:
            raise Refusal(f"model {self.id} could not be made; see its first request")
        return self.learner

    def describe(self, user_metadata: dict[str, str] | None) -> Description:
        return Description(self.base.name, self.rank, self.train_groups, self.user_metadata, user_metadata or {})


@dataclass(eq=False)
class SamplerRecord:
    """A sampling session. Without a model path it is ephemeral, or samples a base model."""

    id: str
    base: Base
    model_path: str | None
    live: LiveSampler

    @property
    def session_id(self) -> str:
        return self.id.split(":")[0]


class Registry:
    """Everything alive in one server, by id."""

    def __init__(self) -> None:
        self.sessions: dict[str, Session] = {}
        self.models: dict[str, Model] = {}
        self.samplers: OrderedDict[str, SamplerRecord] = OrderedDict()

    def new_session(self, user_metadata: dict[str, Any] | None, display_name: str | None) -> Session:
        """A session whose id no other server sharing the state directory has."""
        session = Session(secrets.token_hex(10), user_metadata or {}, display_name)
        self.sessions[session.id] = session
        return session

    def session(self, session_id: str) -> Session:
        """The live session of that id, seen now. Raises NotFound, or Refusal 410 when it is finished."""
        session = self.sessions.get(session_id)
        if session is None:
            raise NotFound(f"no session {session_id!r}")
        if session.finished:
            raise Refusal(f"session {session_id!r} is finished", status=410)
        session.last_seen = time.time()
        return session

    def model(self, model_id: str) -> Model:
        model = self.models.get(model_id)
        if model is None:
            raise NotFound(f"no model {model_id!r}: its session may be finished")
        model.last_request = time.time()
        self.session(model.session_id)
        return model

    def sampler(self, sampler_id: str) -> SamplerRecord:
        record = self.samplers.get(sampler_id)
        if record is None:
            raise NotFound(f"no sampling session {sampler_id!r}: it may be finished, or too many newer ones exist")
        self.samplers.move_to_end(sampler_id)
        return record

    def add_sampler(self, record: SamplerRecord) -> None:
        """Keeps a sampler; the least recently used one beyond the limit goes."""
        self.samplers[record.id] = record
        while len(self.samplers) > MOST_EPHEMERAL_SAMPLERS:
            self.samplers.popitem(last=False)

    def finish(self, session: Session) -> None:
        """Ends a session and lets go of what it owns. Its checkpoints stay."""
        session.finished = True
        self.models = {key: model for key, model in self.models.items() if model.session_id != session.id}
        for key in [key for key, record in self.samplers.items() if record.session_id == session.id]:
            del self.samplers[key]

    def silent_since(self, moment: float) -> list[Session]:
        """Live sessions that were last heard of before `moment`."""
        return [s for s in self.sessions.values() if not s.finished and s.last_seen < moment]
