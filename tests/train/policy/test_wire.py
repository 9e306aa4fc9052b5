"""Rows on the wire are those that lists of integers would give."""

from __future__ import annotations

import numpy as np
import pytest

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
