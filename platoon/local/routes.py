"""The HTTP face: each route of the protocol as one short handler over `LocalService`."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Any, TypeVar

from aiohttp import web
from pydantic import ValidationError

from platoon.local import requests
from platoon.local.bases import all_bases
from platoon.local.checkpoints import KINDS, CheckpointId, CheckpointInfo, DamagedCheckpoint
from platoon.local.promises import Promise
from platoon.local.refusals import Category, NotFound, Refusal
from platoon.local.sampling_requests import sample
from platoon.local.service import TRAIN_GROUPS, LocalService
from platoon.local.wire import MEDIA_TYPE, decode_forward_backward

SERVICE = web.AppKey("service", LocalService)
POLL_S = 25.0
SPOKEN_SDK = "0.38."

B = TypeVar("B", bound=requests.Body)
Request = web.Request
Response = web.StreamResponse


async def body_of(request: Request, model: type[B]) -> B:
    """The request's JSON body. Raises Refusal 422 naming the fields at fault."""
    try:
        return model.model_validate_json(await request.read() or b"{}")
    except ValidationError as error:
        faults = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors(include_url=False))
        raise Refusal(f"{request.path}: {faults}", status=422) from error


def answer(promise: Promise) -> Response:
    return web.json_response(promise.answer)


def stamp(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat()


# Sessions


async def client_config(request: Request) -> Response:
    """The client's own defaults suit, but for compression, which costs more than it saves on loopback."""
    response = web.json_response({"proto_compress_fwdbwd": False, "sample_use_retrieve_futures": False})
    # The SDK opens a connection for this request alone and never closes it: the server does.
    response.force_close()
    return response


async def dynamic_config(request: Request) -> Response:
    return web.json_response({"refresh_interval_sec": 300, "sample_cancel_enabled": True})


async def create_session(request: Request) -> Response:
    body = await body_of(request, requests.CreateSession)
    session = request.app[SERVICE].registry.new_session(body.user_metadata, body.display_name)
    created = {"type": "create_session", "session_id": session.id}
    if not body.sdk_version.startswith(SPOKEN_SDK):
        created["warning_message"] = f"the local service speaks the protocol of tinker {SPOKEN_SDK}*, this is {body.sdk_version}"
    return web.json_response(created)


async def session_heartbeat(request: Request) -> Response:
    body = await body_of(request, requests.SessionHeartbeat)
    request.app[SERVICE].registry.session(body.session_id)
    return web.json_response({"type": "session_heartbeat"})


async def finish_session(request: Request) -> Response:
    registry = request.app[SERVICE].registry
    session = registry.sessions.get(request.match_info["session"])
    if session is None:
        raise NotFound(f"no session {request.match_info['session']!r}")
    registry.finish(session)
    return web.Response(status=204)


async def get_session(request: Request) -> Response:
    registry = request.app[SERVICE].registry
    session = registry.sessions.get(request.match_info["session"])
    if session is None:
        raise NotFound(f"no session {request.match_info['session']!r}")
    return web.json_response(
        {
            "training_run_ids": [key for key, model in registry.models.items() if model.session_id == session.id],
            "sampler_ids": [key for key, record in registry.samplers.items() if record.session_id == session.id],
            "user_metadata": {key: str(value) for key, value in session.user_metadata.items()},
            "display_name": session.display_name,
        }
    )


async def list_sessions(request: Request) -> Response:
    return web.json_response({"sessions": list(request.app[SERVICE].registry.sessions)})


async def telemetry(request: Request) -> Response:
    return web.json_response({"status": "accepted"})


async def healthz(request: Request) -> Response:
    return web.json_response({"status": "ok"})


async def capabilities(request: Request) -> Response:
    models = [
        {"model_name": b.name, "max_context_length": b.shape.max_context, "trainable": True, "sampleable": True}
        for b in all_bases().values()
    ]
    return web.json_response({"supported_models": models})


async def whoami(request: Request) -> Response:
    return web.json_response({"user_urn": "local:user", "org_urn": "local:organization"})


# Training


async def create_model(request: Request) -> Response:
    return answer(request.app[SERVICE].create_model(await body_of(request, requests.CreateModel)))


async def load_weights(request: Request) -> Response:
    body = await body_of(request, requests.LoadWeights)
    service = request.app[SERVICE]
    return answer(service.load_new_run(body) if body.model_id is None else service.load_into(body))


async def get_info(request: Request) -> Response:
    body = await body_of(request, requests.ModelRequest)
    service = request.app[SERVICE]
    model = service.registry.model(body.model_id)
    directory = str(service.tokens(model.base).directory.resolve())
    return web.json_response(
        {
            "type": "get_info",
            "model_id": model.id,
            "model_data": {"arch": "platoon-tiny", "model_name": model.base.name, "tokenizer_id": directory},
            "is_lora": False,
            "model_name": model.base.name,
            "optimizer_config": {"type": "adamw"},
        }
    )


async def forward_backward(request: Request) -> Response:
    return answer(request.app[SERVICE].forward_backward(decode_forward_backward(await request.read())))


async def optim_step(request: Request) -> Response:
    return answer(request.app[SERVICE].optim_step(await body_of(request, requests.OptimStep)))


async def save_weights(request: Request) -> Response:
    return answer(request.app[SERVICE].save_weights(await body_of(request, requests.SaveWeights)))


async def save_weights_for_sampler(request: Request) -> Response:
    return answer(request.app[SERVICE].save_for_sampler(await body_of(request, requests.SaveWeightsForSampler)))


# Sampling and promises


async def create_sampling_session(request: Request) -> Response:
    body = await body_of(request, requests.CreateSamplingSession)
    sampler_id = await request.app[SERVICE].create_sampling_session(body)
    return web.json_response({"type": "create_sampling_session", "sampling_session_id": sampler_id})


async def get_sampler(request: Request) -> Response:
    record = request.app[SERVICE].registry.sampler(request.match_info["sampler"])
    found: dict[str, Any] = {"sampler_id": record.id, "base_model": record.base.name}
    return web.json_response(found | ({"model_path": record.model_path} if record.model_path else {}))


async def asample(request: Request) -> Response:
    return answer(sample(request.app[SERVICE], await body_of(request, requests.Sample)))


async def retrieve_future(request: Request) -> Response:
    """Holds the request until the outcome is there or `POLL_S` have passed."""
    body = await body_of(request, requests.RetrieveFuture)
    promise = request.app[SERVICE].promises.find(body.request_id)
    if promise is None:
        raise Refusal(f"no promise {body.request_id!r}: it was fetched long ago, or made by an earlier server", status=410)
    await asyncio.wait([promise.future], timeout=POLL_S)
    if not promise.future.done():
        waiting = {"type": "try_again", "request_id": body.request_id, "queue_state": "active"}
        return web.json_response(waiting, status=408)
    promise.fetched_at = time.monotonic()
    if promise.future.cancelled():
        return web.json_response({"error": "cancelled", "category": Category.USER})
    error = promise.future.exception()
    if error is not None:
        category = error.category if isinstance(error, Refusal) else Category.SERVER
        return web.json_response({"error": str(error) or repr(error), "category": category})
    outcome = promise.future.result()
    if isinstance(outcome, bytes):
        return web.Response(body=outcome, content_type=MEDIA_TYPE)
    return web.json_response(outcome)


async def cancel_future(request: Request) -> Response:
    """Stops a sample request; what is no longer known, or is a training operation, is left alone."""
    body = await body_of(request, requests.RetrieveFuture)
    promise = request.app[SERVICE].promises.find(body.request_id)
    if promise is not None and promise.on_cancel is not None and not promise.future.done():
        promise.on_cancel()
        promise.resolve(Refusal("cancelled"))
    return web.Response(status=204)


# Checkpoints and runs


def checkpoint_row(info: CheckpointInfo) -> dict[str, Any]:
    row = {
        "checkpoint_id": info.id.checkpoint_id,
        "checkpoint_type": KINDS[info.id.kind],
        "time": stamp(info.created_at),
        "tinker_path": info.id.path,
        "size_bytes": info.size_bytes,
        "public": False,
        "user_metadata": dict(info.description.user_metadata),
    }
    return row if info.expires_at is None else row | {"expires_at": stamp(info.expires_at)}


def damaged_row(found: DamagedCheckpoint) -> dict[str, Any]:
    """A damaged checkpoint, marked in its metadata: it can be deleted, and loading it is refused."""
    row = {
        "checkpoint_id": found.id.checkpoint_id,
        "checkpoint_type": KINDS[found.id.kind],
        "time": stamp(found.modified_at),
        "tinker_path": found.id.path,
        "size_bytes": found.size_bytes,
        "public": False,
        "user_metadata": {"damaged": found.reason},
    }
    return row if found.expires_at is None else row | {"expires_at": stamp(found.expires_at)}


def rows_of_run(service: LocalService, run_id: str) -> list[dict[str, Any]]:
    """Damaged checkpoints, then whole ones, oldest first: the last one is the newest that loads."""
    damaged, whole = service.store.damaged_of_run(run_id), service.store.of_run(run_id)
    return [*map(damaged_row, damaged), *map(checkpoint_row, whole)]


def run_row(service: LocalService, run_id: str) -> dict[str, Any]:
    """What is known of a run: from the model when it lives here, else from its newest checkpoint."""
    infos = service.store.of_run(run_id)
    model = service.registry.models.get(run_id)
    if model is None and not infos:
        raise NotFound(f"no training run {run_id!r}")
    description = model.describe(None) if model is not None else infos[-1].description
    row: dict[str, Any] = {
        "training_run_id": run_id,
        "base_model": description.base_model,
        "model_owner": "local",
        "is_lora": False,
        "last_request_time": stamp(model.last_request if model is not None else infos[-1].created_at),
        "user_metadata": dict(description.run_metadata),
    }
    for key, kind in (("last_checkpoint", "weights"), ("last_sampler_checkpoint", "sampler_weights")):
        if of_kind := [info for info in infos if info.id.kind == kind]:
            row[key] = checkpoint_row(of_kind[-1])
    return row


def page(request: Request, rows: list[Any], limit: int) -> tuple[list[Any], dict[str, int]]:
    try:
        offset, count = int(request.query.get("offset", 0)), int(request.query.get("limit", limit))
    except ValueError:
        raise Refusal("limit and offset are whole numbers", status=422) from None
    offset, count = max(offset, 0), max(count, 0)
    return rows[offset : offset + count], {"offset": offset, "limit": count, "total_count": len(rows)}


async def training_runs(request: Request) -> Response:
    service = request.app[SERVICE]
    rows = []
    for run_id in sorted({*service.store.runs(), *service.registry.models}):
        try:
            rows.append(run_row(service, run_id))
        except NotFound:
            continue  # Only expired or deleted checkpoints are left of it.
    shown, cursor = page(request, rows, 20)
    return web.json_response({"training_runs": shown, "cursor": cursor})


async def training_run(request: Request) -> Response:
    return web.json_response(run_row(request.app[SERVICE], request.match_info["run"]))


async def run_checkpoints(request: Request) -> Response:
    return web.json_response({"checkpoints": rows_of_run(request.app[SERVICE], request.match_info["run"])})


async def all_checkpoints(request: Request) -> Response:
    service = request.app[SERVICE]
    rows = [row for run_id in service.store.runs() for row in rows_of_run(service, run_id)]
    shown, cursor = page(request, rows, 100)
    return web.json_response({"checkpoints": shown, "cursor": cursor})


def checkpoint_of(request: Request) -> CheckpointId:
    parts = request.match_info
    return CheckpointId.of(parts["run"], parts["kind"], parts["name"])


async def delete_checkpoint(request: Request) -> Response:
    request.app[SERVICE].store.delete(checkpoint_of(request))
    return web.Response(status=204)


async def set_checkpoint_ttl(request: Request) -> Response:
    body = await body_of(request, requests.SetTtl)
    request.app[SERVICE].store.set_ttl(checkpoint_of(request), body.ttl_seconds)
    return web.Response(status=204)


async def weights_info(request: Request) -> Response:
    body = await body_of(request, requests.CheckpointPath)
    description = request.app[SERVICE].store.info(CheckpointId.parse(body.tinker_path)).description
    trained = {f"train_{group}": group in description.train_groups for group in TRAIN_GROUPS}
    return web.json_response({"base_model": description.base_model, "is_lora": False, **trained})


async def not_served(request: Request) -> Response:
    raise Refusal(f"{request.path} is not served by the local service", status=501)


API_ROUTES = [
    web.post("/client/config", client_config),
    web.post("/client/dynamic_config", dynamic_config),
    web.post("/create_session", create_session),
    web.post("/session_heartbeat", session_heartbeat),
    web.post("/sessions/{session}/finish", finish_session),
    web.get("/sessions/{session}", get_session),
    web.get("/sessions", list_sessions),
    web.post("/telemetry", telemetry),
    web.get("/healthz", healthz),
    web.get("/whoami", whoami),
    web.get("/get_server_capabilities", capabilities),
    web.post("/create_model", create_model),
    web.post("/load_weights", load_weights),
    web.post("/get_info", get_info),
    web.post("/forward_backward", forward_backward),
    web.post("/optim_step", optim_step),
    web.post("/save_weights", save_weights),
    web.post("/save_weights_for_sampler", save_weights_for_sampler),
    web.post("/create_sampling_session", create_sampling_session),
    web.get("/samplers/{sampler}", get_sampler),
    web.post("/asample", asample),
    web.post("/retrieve_future", retrieve_future),
    web.post("/cancel_future", cancel_future),
    web.get("/training_runs", training_runs),
    web.get("/training_runs/{run}", training_run),
    web.get("/training_runs/{run}/checkpoints", run_checkpoints),
    web.get("/checkpoints", all_checkpoints),
    web.delete("/training_runs/{run}/checkpoints/{kind}/{name}", delete_checkpoint),
    web.put("/training_runs/{run}/checkpoints/{kind}/{name}/ttl", set_checkpoint_ttl),
    web.post("/weights_info", weights_info),
    web.post("/save_weights_external", not_served),
    web.post("/create_custom_loss", not_served),
    web.post("/copy_weights", not_served),
]
