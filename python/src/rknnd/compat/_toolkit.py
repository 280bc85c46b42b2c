"""RKNN, as of RKNN-Toolkit2: models on the software NPU, or on a board that is connected to this machine."""
from __future__ import annotations

import os
import tempfile
from typing import Any
from collections.abc import Mapping, Sequence

import numpy as np

from .. import _errors, quantization, servers
from .._capi import lib
from . import _accuracy, _conversion, _hybrid, _parts, _quantizing, _report, _servers
from .._native import Array
from ._base import Base, answers, file_of, is_converted
from ._runtime import RKNNRuntime

_PROGRESS = ("I accuracy_analysis: the analysis is in {0}/error_analysis.txt, the tensors of all layers beside it")


class RKNN(Base):
    """Runs one .rknn or .onnx model, and tells how fast, how large and how exact it is.

    `verbose`       says more
    `verbose_file`  with `verbose`, where to write that, too
    """

    def __init__(self, verbose: bool = False, verbose_file: str | None = None) -> None:
        super().__init__(verbose, verbose_file)
        self._onnx: tuple[str, str | None, Mapping[int, Array]] | None = None
        self._given = ""  # the file that load_onnx() took, or the float model of step 2
        self._part_names: tuple[str, str] | None = None  # of the file that a part is in: its path, and words for it
        self._shapes: Mapping[str, Sequence[int]] = {}
        self._rknn: str | None = None
        self._config: _quantizing.Config | None = _quantizing.Config()
        self._configured = False
        self._built: _quantizing.Built | None = None
        self._converted: _quantizing.Converted | None = None
        self._exported: str | None = None
        self._perf_debug = False

    @property
    def rknn_base(self) -> RKNN:
        """This object: programs reach `rknn_runtime` through it."""
        return self

    # ---- models

    @answers(-1)
    def load_rknn(self, path: str) -> int:
        """Takes a converted model for init_runtime(). An ONNX model that was loaded before stays the golden one of
        accuracy_analysis()."""
        self._take_model(_conversion.loaded(path))
        self._rknn, self._built, self._exported = self._path, None, None
        return 0

    @answers(-1)
    def load_onnx(self, model: str, inputs: Sequence[str] | None = None,
                  input_size_list: Sequence[Sequence[int]] | None = None,
                  input_initial_val: Sequence[Array | None] | None = None,
                  outputs: Sequence[str] | None = None) -> int:
        """Takes an ONNX model for init_runtime(), which runs it as it is.

        `inputs`, `outputs`    names of tensors: the part of the model between these runs (takes the package onnx)
        `input_size_list`      shapes of the inputs, where the file leaves them open
        `input_initial_val`    arrays for inputs that are constants from now on, None for the others
        """
        options: str | None = None
        shapes: dict[str, Sequence[int]] = {}
        constants: dict[int, Array] = {}
        given = file_of(model)
        if is_converted(given):
            raise _errors.ModelError(f"{model} is a converted model: load_rknn() takes it")
        if not (inputs is None and input_size_list is None and input_initial_val is None and outputs is None):
            model = self._part_of(file_of(model), inputs, outputs, input_size_list)
            shapes, constants = _onnx_options(model, input_size_list, input_initial_val)
            options = "\n".join(f"shape {name}={'x'.join(map(str, shape))}" for name, shape in shapes.items()) or None
        self._shapes = shapes
        self._take_model(model, options, constants)
        self._onnx, self._built, self._exported, self._given = (str(self._path), options, constants), None, None, given
        return 0

    def _part_of(self, model: str, inputs: Sequence[str] | None, outputs: Sequence[str] | None,
                 sizes: Sequence[Sequence[int]] | None) -> str:
        """Path of the model, or of a file with its part between these tensors, which lives as long as this object."""
        if inputs is not None and sizes is None:
            raise _errors.ParameterError("input_size_list is missing: with inputs it must be given, too")
        described = servers.describe(model, _servers.SIMULATOR)
        own_inputs, own_outputs = ([one["name"] for one in described.get(kind, [])] for kind in ("inputs", "outputs"))
        wanted = list(inputs or own_inputs), list(outputs or own_outputs)
        if wanted == (own_inputs, own_outputs):
            return model
        self._part = tempfile.TemporaryDirectory(prefix="rknnd-part-")
        path = _parts.cut(model, *wanted, self._part.name)
        self._part_names = path, f"{model} (its part up to {', '.join(wanted[1])})"
        return path

    def _said(self, text: str) -> str:
        return text.replace(*self._part_names) if self._part_names else text

    # ---- quantizing

    @answers(-1)
    def config(self, mean_values: Any = None, std_values: Any = None, **settings: Any) -> int:
        """Settings of build(): mean_values, std_values, quant_img_RGB2BGR, quantized_dtype ('w8a8'), quantized_algorithm,
        quantized_method, optimization_level, target_platform, dynamic_input, auto_hybrid_cos_thresh. 0; -1: one of them
        cannot be kept."""
        self._config = None
        self._configured = True
        self._config = _quantizing.read_config({"mean_values": mean_values, "std_values": std_values, **settings}, self.rknn_log.w)
        return 0

    @answers(-1)
    def build(self, do_quantization: bool = True, dataset: str | None = None, rknn_batch_size: int | None = None,
              auto_hybrid: bool = False) -> int:
        """Makes the model of load_onnx() one in 8 bits, which init_runtime() opens from then on; it is ONNX.

        `do_quantization`  False: it stays a float model, with mean_values and std_values in it
        `dataset`          path of a list: a line for each sample, with a file for each input
        `rknn_batch_size`  how many samples the model takes at once; the data set has one for each line in any case
        `auto_hybrid`      keeps the fewest layers in float with which the outputs' cosine reaches auto_hybrid_cos_thresh
        """
        source, config = self._float_model(rknn_batch_size)
        if not do_quantization:
            self._build_float(source, config)
            return 0
        # A failure leaves the float model, not what was built before.
        self._built, self._exported, self._path = None, None, source.path
        samples = _quantizing.samples_of(source, dataset)
        self._warn_of_few("build", config, len(samples))
        with _quantizing.quantizer(source, config, samples, self._show_progress) as calibrated:
            if auto_hybrid:
                proposal = calibrated.propose(config.values["auto_hybrid_cos_thresh"])
                self.rknn_log.i(f"build: {len(proposal.floats)} layers stay float: cosine {proposal.cosine:.6f}, without "
                                f"{proposal.plain_cosine:.6f}")
            self._take_built(source, config, _quantizing.Built(source, config, calibrated))
        return 0

    def _warn_of_few(self, call: str, config: _quantizing.Config, n: int) -> None:
        few = _quantizing.words_of_few(config, n)
        if few:
            self.rknn_log.w(f"{call}: {few}")

    def _float_model(self, rknn_batch_size: object) -> tuple[_quantizing.Source, _quantizing.Config]:
        """What is to be quantized, and how."""
        if self._onnx is None:
            raise _errors.ModelError("there is no float model: call load_onnx() first")
        if self._config is None:
            raise _errors.ParameterError("config() has failed: correct it first")
        batch = _quantizing.read_batch(rknn_batch_size)
        path, _, constants = self._onnx
        names = [one["name"] for one in servers.describe(path, _servers.SIMULATOR).get("inputs", [])]
        return _quantizing.Source(path, names, constants, self._shapes, batch), self._config

    def _take_built(self, source: _quantizing.Source, config: _quantizing.Config, built: _quantizing.Built) -> None:
        for node in built.done.nodes:
            if node.reason and not node.quantized:
                self.rknn_log.i(f"build: {node.name} ({node.op}) stays float: {node.reason}")
        if built.done.n_constant_inputs:
            self.rknn_log.w("build: an input was one and the same number in all samples: its range says nothing about others; "
                            "give samples like those that will come")
        _quantizing.check_shapes(source, config, built.batched)
        self._close()
        self._built, self._path, self._options = built, built.batched, _quantizing.load_options(source, config, source.batch)
        self._exported, self._constants = built.batched, source.constants

    def _build_float(self, source: _quantizing.Source, config: _quantizing.Config) -> None:
        self._exported = None
        self._converted = _quantizing.Converted(source, config)
        _quantizing.check_shapes(source, config, self._converted.path)
        self._close()
        self._built, self._path, self._constants = None, self._converted.path, source.constants
        self._options, self._exported = _quantizing.load_options(source, config, source.batch), self._path

    def _show_progress(self, done: int, of: int) -> None:
        self.rknn_log.i(f"build: {done} of {of} samples")

    @answers(-1)
    def hybrid_quantization_step1(self, dataset: str | None = None, rknn_batch_size: int | None = None, proposal: bool = False,
                                  proposal_dataset_size: int = 1,
                                  custom_hybrid: Sequence[Sequence[str]] | None = None) -> int:
        """Runs the data set on the model of load_onnx(), and writes NAME.model, NAME.data and NAME.quantization.cfg to the
        current folder, for hybrid_quantization_step2().

        `dataset`, `rknn_batch_size`  as of build()
        `proposal`                    lists the layers to be kept in float, with which auto_hybrid_cos_thresh is reached
        `proposal_dataset_size`       samples that are run for that
        `custom_hybrid`               [[input, output], …]: what lies between these tensors is listed, too
        """
        choice = _hybrid.read_choice(proposal, proposal_dataset_size, custom_hybrid)
        source, config = self._float_model(rknn_batch_size)
        samples = _quantizing.samples_of(source, dataset)
        self._warn_of_few("hybrid_quantization_step1", config, len(samples))
        names = _hybrid.step1(source, config, samples, choice, self._show_progress)
        self.rknn_log.i(f"hybrid_quantization_step1: {', '.join(names)} are written: edit the last one, and call "
                        "hybrid_quantization_step2()")
        return 0

    @answers(-1)
    def hybrid_quantization_step2(self, model_input: str, data_input: str, model_quantization_cfg: str) -> int:
        """Makes the model in 8 bits of the files of hybrid_quantization_step1(), with the layers in float that the third one
        names; as after build() then. Settings are those of step 1."""
        model, data, table = file_of(model_input), file_of(data_input), file_of(model_quantization_cfg)
        source, config, built = _hybrid.step2(model, data, table)
        if self._configured and self._config is not None:
            other = [name for name, value in config.values.items() if self._config.values[name] != value]
            if other:
                self.rknn_log.w(f"hybrid_quantization_step2: {', '.join(other)} of config() are not used: settings are those of "
                                "hybrid_quantization_step1")
        self._config, self._shapes = config, source.shapes
        options = _quantizing.load_options(source, config)
        self._onnx, self._given = (source.path, options, source.constants), source.path
        self._take_built(source, config, built)
        return 0

    @answers(-1)
    def export_rknn(self, export_path: str, cpp_gen_cfg: Any = None, **_settings: Any) -> int:
        """Writes the model that build() has made, if the file's name ends with .onnx. -1: a .rknn file, which is not made here;
        with RKNND_EXPORT_ONNX=1 in the environment the ONNX model, as FILE.rknn.onnx, and 0."""
        if not isinstance(export_path, (str, os.PathLike)):
            raise _errors.ParameterError(f"export_path is {_errors.shown(export_path)}: give the path of a file")
        path = os.fsdecode(export_path)
        if os.path.splitext(path)[1].lower() != ".onnx":
            if not _conversion.writes_onnx():
                self.rknn_log.e(_conversion.export_refusal(path))
                return -1
            path += ".onnx"
        if self._exported is None:
            raise _errors.ModelError("there is no model that was built: call build() first")
        quantization.check_output(self._given, path)
        quantization.convert(self._exported, path)  # with the weights of its other files, and only so
        if path != os.fsdecode(export_path):
            self.rknn_log.w(f"export_rknn: {path} is written, which is ONNX, and no {export_path}")
        return 0

    # ---- running

    @answers(-1)
    def init_runtime(self, target: str | None = None, device_id: str | None = None, perf_debug: bool = False,
                     eval_mem: bool = False, async_mode: bool = False, core_mask: int = Base.NPU_CORE_AUTO,
                     fallback_prior_device: str = "cpu", *, target_sub_class: Any = None) -> int:
        """Opens the model. 0; -1: failed.

        `target`       None: the software NPU, also after load_rknn(); a chip ('rk3588'): a board, which must have it
        `device_id`    which one: a serial number as list_devices() says it, a host, or a server's URI
        `perf_debug`   eval_perf() also tells of the layers
        `eval_mem`     accepted: eval_memory() works in any case
        `async_mode`   inference() answers with the outputs of the call before
        `core_mask`    constants NPU_CORE_…
        `fallback_prior_device`  'cpu' or 'gpu': where what the NPU cannot do runs first
        `target_sub_class`  is of older programs, and ignored
        """
        flags = _flags(perf_debug, async_mode, fallback_prior_device)
        server = self._server_for(target, device_id)
        self._open(server, flags, core_mask)
        self._perf_debug = bool(perf_debug)
        return 0

    def _server_for(self, target: object, device_id: object) -> str | None:
        if target is None:
            if device_id is not None:
                self.rknn_log.w(f"device_id {device_id} is ignored: without a target the software NPU is used")
            built = self._exported is not None and self._config is not None
            return _servers.simulator_of(self._config.values["target_platform"] if built and self._config else None)
        chip = _servers.check_target(target)
        server = _servers.server_of(device_id)
        _servers.check_chip(server, chip)
        return server

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
        return self._infer(inputs, data_format, inputs_pass_through, get_frame_id)

    def _has_layers(self) -> bool:
        return self._perf_debug

    def _describers(self) -> tuple[str | None, ...]:
        return (_servers.SIMULATOR,)

    # ---- analyses

    @answers(-1)
    def accuracy_analysis(self, inputs: Sequence[str], output_dir: str | None = "./snapshot", target: str | None = None,
                          device_id: str | None = None) -> int:
        """Compares each layer with the float model's, and writes error_analysis.txt and all tensors to a folder.

        Needs a converted model (build(), or load_rknn()) and the ONNX model that it was made of (load_onnx(), before or after);
        with a `target` one of them is enough: then the board is compared with the software NPU.

        `inputs`      paths of jpg, png, bmp or npy files, one for each input
        `target`, `device_id`   a board, as for init_runtime(); None: the software NPU alone
        """
        output_dir = "./snapshot" if output_dir is None else output_dir
        if not isinstance(output_dir, (str, os.PathLike)):
            raise _errors.ParameterError(f"output_dir is {_errors.shown(output_dir)}: give the path of a folder")
        models = self._models_to_compare(target is not None)
        server = self._server_for(target, device_id) if target is not None else None
        text = _accuracy.analyze(models, inputs, os.fsdecode(output_dir), server, target is not None)
        print(text)
        print(_PROGRESS.format(os.fsdecode(output_dir)))
        return 0

    def _models_to_compare(self, on_board: bool) -> _accuracy.Models:
        if self._built is not None and self._onnx is not None:
            return self._built_models(self._built, self._onnx)
        path = self._rknn or (self._onnx[0] if self._onnx else None)
        if path is None:
            raise _errors.ModelError("no model is loaded: call load_onnx() and load_rknn() first")
        if not on_board and (self._rknn is None or self._onnx is None):
            missing = "converted model: call build(), or load_rknn()" if self._rknn is None else "float model: call load_onnx()"
            raise _errors.ModelError(f"there is nothing to compare with but a board (target): no {missing}, too")
        onnx_path, options, constants = self._onnx or (None, None, {})

        def open_onnx(server: str | None) -> RKNNRuntime:
            return RKNNRuntime(str(onnx_path), server, 0, options, constants, self.rknn_log.once)

        def open_rknn(server: str | None) -> RKNNRuntime:
            return RKNNRuntime(str(path), server, 0, None, None, self.rknn_log.once)

        if self._rknn is None:
            return _accuracy.Models(open_onnx, None, path, None)
        return _accuracy.Models(open_rknn, open_onnx if self._onnx else None, path, self._said(onnx_path) if onnx_path else None)

    def _built_models(self, built: _quantizing.Built, onnx: tuple[str, str | None, Mapping[int, Array]]) -> _accuracy.Models:
        path, options, constants = onnx

        def open_float(server: str | None) -> RKNNRuntime:
            return RKNNRuntime(built.golden or path, server, 0, options, constants, self.rknn_log.once)

        def open_built(server: str | None) -> RKNNRuntime:
            return RKNNRuntime(built.path, server, 0, options if built.batched != built.path else self._options, constants,
                               self.rknn_log.once)

        described = {} if built.golden else built.description
        return _accuracy.Models(open_built, open_float, built.path, self._said(path), described, built.swaps)

    @answers(([], []))
    def list_devices(self) -> tuple[list[str], list[str]]:
        """Prints and returns the serial numbers of boards behind adb, and of those at a USB cable ("ntb")."""
        adb, ntb = _servers.list_boards()
        print(_report.devices_text(adb, ntb))
        return adb, ntb

    # ---- conversion: each says what does it

    def _refuse(self, call: str) -> int:
        self.rknn_log.e(_conversion.refusal(call))
        return -1

    def reg_custom_op(self, *_arguments: Any, **_named: Any) -> int:
        """Conversion, which rknnd does not do: -1."""
        return self._refuse("reg_custom_op")

    def codegen(self, *_arguments: Any, **_named: Any) -> int:
        """Conversion, which rknnd does not do: -1."""
        return self._refuse("codegen")

    def export_encrypted_rknn_model(self, *_arguments: Any, **_named: Any) -> int:
        """Conversion, which rknnd does not do: -1."""
        return self._refuse("export_encrypted_rknn_model")

    def load_caffe(self, *_arguments: Any, **_named: Any) -> int:
        """Conversion, which rknnd does not do: -1."""
        return self._refuse("load_caffe")

    def load_tensorflow(self, *_arguments: Any, **_named: Any) -> int:
        """Conversion, which rknnd does not do: -1."""
        return self._refuse("load_tensorflow")

    def load_tflite(self, *_arguments: Any, **_named: Any) -> int:
        """Conversion, which rknnd does not do: -1."""
        return self._refuse("load_tflite")

    def load_darknet(self, *_arguments: Any, **_named: Any) -> int:
        """Conversion, which rknnd does not do: -1."""
        return self._refuse("load_darknet")

    def load_pytorch(self, *_arguments: Any, **_named: Any) -> int:
        """Conversion, which rknnd does not do: -1."""
        return self._refuse("load_pytorch")


def _flags(perf_debug: object, async_mode: object, fallback_prior_device: object) -> int:
    if fallback_prior_device not in ("cpu", "gpu"):
        raise _errors.ParameterError(f"fallback_prior_device is {fallback_prior_device!r}: give 'cpu' or 'gpu'")
    flags = lib.RKNN_FLAG_COLLECT_PERF_MASK if perf_debug else 0
    flags |= lib.RKNN_FLAG_ASYNC_MASK if async_mode else 0
    flags |= lib.RKNN_FLAG_EXECUTE_FALLBACK_PRIOR_DEVICE_GPU if fallback_prior_device == "gpu" else 0
    return int(flags)


# ---- options of load_onnx()


def _onnx_options(model: str, sizes: Sequence[Sequence[int]] | None,
                  initial: Sequence[Array | None] | None) -> tuple[dict[str, Sequence[int]], dict[int, Array]]:
    """Shapes of inputs by name, and the inputs that are constants."""
    names = [one["name"] for one in servers.describe(model, _servers.SIMULATOR).get("inputs", [])]
    for kind, listed in (("input_size_list", sizes), ("input_initial_val", initial)):
        if listed is not None and len(listed) != len(names):
            raise _errors.ParameterError(f"{kind} has {len(listed)} elements, and the model has {len(names)} inputs: "
                                         "give one for each")
    constants = {i: np.asarray(value) for i, value in enumerate(initial or ()) if value is not None}
    shapes: list[Sequence[int] | None] = list(sizes) if sizes is not None else [None] * len(names)
    for i, value in constants.items():
        shapes[i] = shapes[i] or value.shape
    return {name: shape for name, shape in zip(names, shapes) if shape}, constants
