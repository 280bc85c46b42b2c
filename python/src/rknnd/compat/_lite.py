"""RKNNLite, as of RKNN-Toolkit Lite2: models on the NPU of this machine (or wherever RKNND_SERVER says)."""
from __future__ import annotations

from typing import Any

from .._capi import lib
from . import _servers
from ._base import Base, answers


class RKNNLite(Base):
    """Runs one .rknn or .onnx model.

    >>> lite = RKNNLite()                                       # doctest: +SKIP
    >>> lite.load_rknn("digits.rknn"), lite.init_runtime()      # doctest: +SKIP
    (0, 0)
    >>> outputs = lite.inference(inputs=[picture])              # doctest: +SKIP

    `verbose`       says more, and after each run how long the layers took
    `verbose_file`  with `verbose`, where to write that, too
    """

    @answers(-1)
    def init_runtime(self, core_mask: int = Base.NPU_CORE_AUTO, target: str | None = None,
                     device_id: str | None = None, async_mode: bool = False) -> int:
        """Opens the model. 0; -1: failed.

        `core_mask`           constants NPU_CORE_…, or a mask: bit i for core i
        `target`, `device_id` a chip and a board, as for rknn.api.RKNN; None: the usual server
        `async_mode`          inference() answers with the outputs of the call before
        """
        server = _servers.server_of(device_id)
        if target is not None:
            _servers.check_chip(server, _servers.check_target(target))
        flags = lib.RKNN_FLAG_COLLECT_PERF_MASK if self.verbose else 0
        self._open(server, flags | (lib.RKNN_FLAG_ASYNC_MASK if async_mode else 0), core_mask)
        return 0

    @answers(None)
    def inference(self, inputs: Any, data_format: Any = None, inputs_pass_through: Any = None,
                  get_frame_id: bool = False, data_type: Any = None) -> list[Any] | None:
        """One run.

        `inputs`               a list with an array for each of the model's inputs; 4-D ones with their batch dimension
        `data_format`          'nhwc' (as is None) or 'nchw' for 4-D inputs, or a list with one for each input
        `inputs_pass_through`  a list of 0 and 1: 1 for data in the model's own form
        `get_frame_id`         adds the number of the outputs' run at the end of the list
        `data_type`            is ignored: arrays say their dtype

        A list of float32 arrays in the model's own shapes; None: failed.
        """
        outputs = self._infer(inputs, data_format, inputs_pass_through, get_frame_id)
        if self.verbose:
            self.rknn_log.d("layers of this run:\n" + self._running().get_perf_detail())
        return outputs
