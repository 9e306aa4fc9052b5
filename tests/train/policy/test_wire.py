"""Rows on the wire are those that lists of integers would give."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from platoon.rows.block import DataError
from platoon.rows.side import Chunk, RowSide
from platoon.train.policy.wire import WireRows, datums

pytestmark = pytest.mark.model


def sample_rows() -> WireRows:
    return WireRows(
        np.array([5, 6, 7, 1, 2], dtype=np.int32),
        np.array([6, 7, 8, 2, 3], dtype=np.int64),
        {"logprobs": np.array([0, -1.5, -2, 0, -0.25], np.float32), "advantages": np.array([0, 0.5, 0.5, 0, -1], np.float32)},
        np.array([0, 3, 5], dtype=np.int64),
    )


def test_the_bytes_are_those_of_lists() -> None:
    import tinker
    from tinker.proto.request_conv import forward_backward_request_to_proto as to_proto
    from tinker.types import ForwardBackwardInput, ForwardBackwardRequest

    rows = sample_rows()
    by_list = []
    for index in range(len(rows)):
        place = rows.row(index)
        inputs = {"target_tokens": rows.targets_T[place].tolist()}
        inputs |= {name: column[place].tolist() for name, column in rows.inputs_T.items()}
        by_list.append(tinker.Datum(tinker.ModelInput.from_ints(rows.tokens_T[place].tolist()), inputs))

    def encoded(data: object) -> bytes:
        body = ForwardBackwardInput(data=data, loss_fn="cispo", loss_fn_config={"clip_low_threshold": 0.0})
        request = ForwardBackwardRequest(forward_backward_input=body, model_id="m", seq_id=1)
        message: bytes = to_proto(request).SerializeToString(deterministic=True)
        return message

    assert encoded(list(datums(rows))) == encoded(by_list)


def test_rows_are_not_copied_on_their_way() -> None:
    rows = sample_rows()
    first = datums(rows)[0]
    assert np.shares_memory(first.loss_fn_inputs["advantages"].to_numpy(), rows.inputs_T["advantages"])
    assert first.model_input.length == 3


def test_what_rows_hold_beside_their_tokens_becomes_chunks_and_inputs() -> None:
    import tinker

    chunks = (Chunk(0, 1, "image/png", b"\x89PNG"), Chunk(1, 1, "image_asset_pointer/jpeg", b"s3://a/b"))
    sides = {0: RowSide(chunks), 1: RowSide((), {"target_tokens": np.array([[2, 4], [3, 5]])})}
    rows = replace(sample_rows(), sides=sides, routing_R=np.array([-1, 12]))
    first, second = datums(rows)
    assert [chunk.type for chunk in first.model_input.chunks] == ["image", "image_asset_pointer", "encoded_text"]
    assert first.model_input.length == 3 and first.model_input.chunks[1].location == "s3://a/b"
    assert list(first.model_input.chunks[2].tokens) == [7]
    assert set(first.loss_fn_inputs) == {"target_tokens", "logprobs", "advantages"}
    assert second.loss_fn_inputs["target_tokens"].to_numpy().tolist() == [[2, 4], [3, 5]]
    assert second.loss_fn_inputs["target_tokens"].shape == [2, 2]
    assert second.loss_fn_inputs["routing_handle"].tolist() == [12]
    assert isinstance(second.model_input.chunks[0], tinker.EncodedTextChunk)
    odd = replace(rows, sides={0: RowSide((Chunk(0, 1, "video", b""),))})
    with pytest.raises(DataError, match="video"):
        datums(odd)
