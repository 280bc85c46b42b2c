#!/usr/bin/python3
"""RKNNLite: every call's values, against the models' own references; what is wrong gets words, and raises nothing."""
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

import numpy as np

from support.compat import MODELS, numbers, real, said, use_packages
from support.paths import DIGITS
from support.seed import seed
from support.service import Daemon, wait_for

use_packages()
from rknnlite.api import RKNNLite  # noqa: E402
from rknnd.compat import _runtime  # noqa: E402


class Lite(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon()
        cls.addClassCleanup(cls.daemon.stop)
        os.environ["RKNND_SERVER"] = cls.daemon.uri

    def open(self, model="conv.rknn", lite=None, **options):
        lite = lite or RKNNLite()
        self.addCleanup(lite.release)
        self.assertEqual(lite.load_rknn(str(MODELS / model)), 0)
        self.assertEqual(lite.init_runtime(**options), 0)
        return lite

    def fails(self, *words, call, answer=None):
        with said() as (_, err):
            self.assertEqual(call(), answer)
        for word in words:
            self.assertIn(word, err.getvalue())
        self.assertNotIn("Traceback", err.getvalue())


class Values(Lite):
    def test_picture(self):
        lite = self.open()
        x = numbers("conv.in0.bin", np.float32, 1, 8, 8, 3)
        expected, step = real(numbers("conv.out0.bin", np.int8, 1, 8, 8, 8), -1500, 1500)
        outputs = lite.inference(inputs=[x])
        self.assertEqual([(o.shape, o.dtype) for o in outputs], [((1, 8, 8, 8), np.float32)])
        self.assertLessEqual(np.abs(outputs[0] - expected).max(), step * 1.01)

    def test_layouts_and_dtypes_are_the_same_picture(self):
        lite = self.open()
        x = np.random.default_rng(4).integers(0, 128, (1, 8, 8, 3), np.uint8)
        expected, = lite.inference([x])
        planes = np.ascontiguousarray(x.transpose(0, 3, 1, 2))
        wide = np.zeros((1, 8, 16, 3), np.uint8)
        wide[:, :, ::2] = x
        for inputs, options in (([planes], {"data_format": "nchw"}), ([planes], {"data_format": ["NCHW"]}),
                                ([x], {"data_format": "nhwc"}), ([x], {"data_format": [None]}), ((x,), {}),
                                ([x.astype(np.float32)], {}), ([x.astype(np.int16)], {}), ([x.astype(np.float16)], {}),
                                ([x.astype(np.int32)], {}), ([x.astype(np.int64)], {}), ([x.astype(">f4")], {}),
                                ([wide[:, :, ::2]], {}), ([x.transpose(0, 3, 1, 2)], {"data_format": "nchw"}),
                                ([np.asfortranarray(x)], {})):
            outputs = lite.inference(inputs, **options)
            np.testing.assert_array_equal(outputs[0], expected, f"{inputs[0].dtype} {inputs[0].shape} {options}")

    def test_a_picture_without_its_batch_is_warned_of_once(self):
        lite = self.open()
        x = np.random.default_rng(4).integers(0, 256, (8, 8, 3), np.uint8)
        with said() as (_, err):
            outputs = [lite.inference([x])[0] for _ in range(3)]
        self.assertEqual(err.getvalue().count("(1, 8, 8, 3)"), 1, err.getvalue())
        np.testing.assert_array_equal(outputs[2], lite.inference([x[None]])[0])

    def test_several_inputs_and_outputs_in_the_models_order(self):
        lite = self.open("two_inputs.rknn")
        a = numbers("two_inputs.in0.bin", np.uint8, 1, 8, 8, 3)
        b = numbers("two_inputs.in1.bin", np.float32, 1, 4, 4, 3)
        for outputs in (lite.inference([a, b]), lite.inference([a.transpose(0, 3, 1, 2), b], data_format=["nchw", "nhwc"])):
            for i, (output, shape) in enumerate(zip(outputs, ((1, 16, 4, 4), (1, 10, 4, 4)))):
                expected, step = real(numbers(f"two_inputs.out{i}.bin", np.int8, *shape), -8, 8)
                self.assertEqual(output.shape, shape)
                self.assertLessEqual(np.abs(output - expected).max(), step * 1.01)

    def test_int64_tokens(self):
        lite = self.open("speech.onnx")
        ids, mask = (numbers(f"speech.in{i}.bin", np.int64, 1, 20) for i in range(2))
        for i, output in enumerate(lite.inference([ids, mask])):
            expected = np.fromfile(MODELS / f"speech.out{i}.bin", np.float32)
            np.testing.assert_allclose(output.ravel(), expected, rtol=1e-5, atol=1e-6)
        with said() as (_, err):
            self.assertEqual(lite.inference([ids[0], mask[0]])[0].shape, (1, 20))
        self.assertIn("(1, 20)", err.getvalue())

    def test_pass_through_takes_the_models_own_form(self):
        lite = self.open()
        x = np.random.default_rng(4).integers(0, 256, (1, 8, 8, 3), np.uint8)
        expected, = lite.inference([x])
        native = (x.astype(np.int16) - 128).astype(np.int8)  # Quant.of_range(0, 255)
        outputs = lite.inference([native], inputs_pass_through=[1])
        np.testing.assert_array_equal(outputs[0], expected)

    def test_frame_numbers_and_late_results(self):
        lite = self.open(async_mode=True)
        frames = [np.full((1, 8, 8, 3), 50 * i, np.uint8) for i in range(4)]
        late = [lite.inference([frame], get_frame_id=True) for frame in frames]
        self.assertEqual(lite.init_runtime(), 0)
        now = [lite.inference([frame], get_frame_id=True) for frame in frames]
        self.assertEqual([len(outputs) for outputs in late + now], [2] * 8)
        for i in range(1, 4):
            np.testing.assert_array_equal(late[i][0], now[i - 1][0], str(i))
            self.assertEqual(now[i][1], now[i - 1][1] + 1)
        self.assertFalse(np.array_equal(now[0][0], now[1][0]))
        self.assertEqual([outputs[1] for outputs in late[1:]], [late[0][1] + i for i in range(3)])

    def test_shapes_are_chosen_by_the_inputs(self):
        """Where a model can take several: dynamic_input's models do."""
        rows = ["1x3x12x10", "1x3x6x10", "1x3x20x16"]
        runtime = _runtime.RKNNRuntime(str(MODELS / "dynamic_picture.onnx"), self.daemon.uri, 0,
                                       "shape data=" + ",".join(rows))
        self.addCleanup(runtime.release)
        self.assertTrue(runtime.is_dynamic_shape)
        for i in (1, 0, 2, 2, 1):
            _, c, h, w = map(int, rows[i].split("x"))
            outputs, _ = runtime.infer([numbers(f"dynamic_picture.set{i}.in0.bin", np.float32, 1, h, w, c)])
            self.assertEqual(outputs[0].shape, (1, 8, h, w))
            expected = numbers(f"dynamic_picture.set{i}.out0.bin", np.float32, 1, 8, h, w)
            np.testing.assert_allclose(outputs[0], expected, rtol=1e-4, atol=1e-2)
        with self.assertRaisesRegex(Exception, "resize"):
            runtime.infer([np.zeros((1, 5, 5, 3), np.float32)])

    def test_shapes_of_the_rows(self):
        """The rows that the test above relies on are those of the files."""
        sizes = [(MODELS / f"dynamic_picture.set{i}.in0.bin").stat().st_size for i in range(3)]
        self.assertEqual(sizes, [4 * 3 * 12 * 10, 4 * 3 * 6 * 10, 4 * 3 * 20 * 16])


class Information(Lite):
    def test_memory(self):
        lite = self.open()
        with said() as (out, _):
            use = lite.eval_memory()
            self.assertEqual(lite.eval_memory(is_print=False), use)
        self.assertEqual(set(use), {"weight_memory", "internal_memory", "other_memory", "total_memory"})
        self.assertEqual(use["total_memory"], sum(use.values()) - use["total_memory"])
        self.assertGreater(use["weight_memory"], 8 * 3 * 3 * 3)
        self.assertEqual(out.getvalue().count("Memory Profile Info Dump"), 1)
        self.assertIn(f"Weight Memory: {use['weight_memory'] / 1024:.2f} KiB", out.getvalue())

    def test_performance(self):
        lite = self.open()
        with said() as (out, _):
            text = lite.eval_perf()
            lite.eval_perf(inputs=[np.zeros((1, 8, 8, 1), np.uint8)], data_format="nhwc", is_print=False)  # as older programs do
        self.assertEqual(out.getvalue(), text + "\n")
        self.assertRegex(text, r"NPU Current Frequency List:\n    - .*\nDDR Current Frequency List:\n")
        self.assertRegex(text, r"Total Time\(us\): \d+ .*rk3588.*\nFPS: \d+\.\d+\n")
        self.assertNotIn("Network Layer", text)

    def test_whose_time_it_is(self):
        emulator = Daemon("--backend", "emu:rk3588")
        self.addCleanup(emulator.stop)
        self.assertIn("the software NPU", self.open().eval_perf(is_print=False))
        self.addCleanup(os.environ.update, RKNND_SERVER=self.daemon.uri)
        os.environ["RKNND_SERVER"] = emulator.uri
        self.assertRegex(self.open().eval_perf(is_print=False), r"Total Time\(us\): \d+ \(.*the emulator")

    def test_verbose_says_the_layers_of_runs_also_to_a_file(self):
        with tempfile.TemporaryDirectory() as folder, said() as (_, err):
            file = pathlib.Path(folder, "log")
            lite = self.open(lite=RKNNLite(verbose=True, verbose_file=str(file)))
            lite.inference([np.zeros((1, 8, 8, 3), np.uint8)])
            lite.release()
            self.assertEqual(file.read_text(), err.getvalue())
            self.assertIn("Network Layer Information Table", err.getvalue())

    def test_log_level_is_each_objects_own(self):
        quiet, other = self.open(), self.open()
        quiet.rknn_log.logger.setLevel(60)
        with said() as (_, err):
            quiet.inference("nothing")
        self.assertNotIn("E inference", err.getvalue())
        self.fails("E inference", call=lambda: other.inference("nothing"))

    def test_verbose_file_that_cannot_be(self):
        with said() as (_, err):
            RKNNLite(verbose=True, verbose_file="/nowhere/log")
            RKNNLite(verbose_file="log")
        self.assertIn("/nowhere/log", err.getvalue())
        self.assertIn("verbose is not True", err.getvalue())
        self.assertFalse(os.path.exists("log"))

    def test_platforms(self):
        lite = RKNNLite()
        with said() as (out, _):
            self.assertEqual(lite.list_support_target_platform(str(DIGITS))[0], "RK3588")
            self.assertIsNone(lite.list_support_target_platform())
        self.assertIn("RK3566, RK3568", out.getvalue())
        self.fails("does not exist", call=lambda: lite.list_support_target_platform("/nowhere.rknn"))

    def test_constants(self):
        self.assertEqual([RKNNLite.NPU_CORE_AUTO, RKNNLite.NPU_CORE_0, RKNNLite.NPU_CORE_1, RKNNLite.NPU_CORE_2,
                          RKNNLite.NPU_CORE_0_1, RKNNLite.NPU_CORE_0_1_2, RKNNLite.NPU_CORE_ALL],
                         [0, 1, 2, 4, 3, 7, 0xffff])
        for mask in (1, 2, 4, 3, 7, 0xffff, np.int64(2), np.uint8(1)):
            self.open(core_mask=mask)


class Wrong(Lite):
    def test_inputs(self):
        lite = self.open()
        x = np.zeros((1, 8, 8, 3), np.uint8)
        for words, inputs, options in (
                (("list",), x, {}), (("2 arrays", "1 input"), [x, x], {}), (("0 arrays",), [], {}),
                (("float64", "astype"), [x.astype(float)], {}), (("complex64", "astype"), [x.astype(np.complex64)], {}),
                (("numpy array",), [x.tolist()], {}), (("numpy array",), [None], {}),
                (("(1, 8, 8, 4)", "(1, 8, 8, 3)"), [np.zeros((1, 8, 8, 4), np.uint8)], {}),
                (("data_format='nchw'",), [np.zeros((1, 3, 8, 8), np.uint8)], {}),
                (("(2, 8, 8, 3)",), [np.zeros((2, 8, 8, 3), np.uint8)], {}),
                (("(192,)",), [x.ravel()], {}), (("'chwn'",), [x], {"data_format": "chwn"}),
                (("data_format has 2",), [x], {"data_format": ["nhwc", "nhwc"]}),
                (("inputs_pass_through",), [x], {"inputs_pass_through": [2]}),
                (("inputs_pass_through",), [x], {"inputs_pass_through": [0, 0]}),
                (("param input size",), [x[:, :4]], {"inputs_pass_through": [1]}),
                (("float32", "768 bytes", "192 of int8"), [x.astype(np.float32)], {"inputs_pass_through": [1]})):
            self.fails("E inference: ", *words, call=lambda i=inputs, o=options: lite.inference(i, **o))
        self.assertIsNotNone(lite.inference([x]))

    def test_anything_at_all(self):
        """Whatever a program gives is an answer or words, never an exception, and the object is good afterwards."""
        lite = self.open("two_inputs.rknn")
        rng = random.Random(seed())
        shapes = [(1, 8, 8, 3), (1, 3, 8, 8), (1, 4, 4, 3), (8, 8, 3), (), (0,), (192,), (1, 8, 8, 3, 1), (2, 4, 4, 3)]
        dtypes = ["uint8", "int8", "float16", "float32", "float64", "int64", "bool", "complex64", "S3", "O", ">i4", "M8[s]"]
        others = [None, 1, "nhwc", "nchw", "x", [], [1], ["nhwc"], ["nchw", None], [0, 1], [1, 1], (0, 0), {}, b"1", [[]]]

        def thing():
            if rng.random() < 0.1:
                return rng.choice(others)
            array = np.zeros(rng.choice(shapes), rng.choice(dtypes))
            return array[..., ::2] if array.ndim and rng.random() < 0.2 else array

        with said() as (_, err):
            for _ in range(400):
                inputs = [thing() for _ in range(rng.choice((0, 1, 2, 2, 2, 2, 3)))]
                options = {name: rng.choice(others) for name in ("data_format", "inputs_pass_through")
                           if rng.random() < 0.3}
                lite.inference(inputs if rng.random() < 0.95 else thing(), **options)
        self.assertNotIn("Traceback", err.getvalue())
        a, b = np.zeros((1, 8, 8, 3), np.uint8), np.zeros((1, 4, 4, 3), np.float32)
        self.assertEqual(len(lite.inference([a, b])), 2)

    def test_order_of_calls(self):
        lite = RKNNLite()
        x = np.zeros((1, 8, 8, 3), np.uint8)
        self.fails("load_rknn", call=lite.init_runtime, answer=-1)
        for call in (lambda: lite.inference([x]), lite.eval_perf, lite.eval_memory, lite.get_sdk_version):
            self.fails("init_runtime", call=call)
        lite = self.open()
        lite.release()
        lite.release()
        self.fails("init_runtime", call=lambda: lite.inference([x]))
        self.assertEqual(lite.init_runtime(), 0)
        self.assertIsNotNone(lite.inference([x]))

    def test_inherited_by_a_forked_child(self):
        lite = self.open()
        x = np.zeros((1, 8, 8, 3), np.uint8)
        child = os.fork()
        if child == 0:
            try:
                self.fails("opened before fork()", "call init_runtime() in this process", call=lambda: lite.inference([x]))
                os._exit(0 if lite.init_runtime() == 0 and lite.inference([x]) else 1)
            finally:
                os._exit(2)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertIsNotNone(lite.inference([x]))

    def test_models(self):
        lite = RKNNLite()
        for words, path in (("does not exist", "/nowhere.rknn"), ("does not exist", "/"), ("path", None), ("path", 5)):
            self.fails(words, call=lambda p=path: lite.load_rknn(p), answer=-1)
        for much in (DIGITS.read_bytes(), np.zeros((100, 100)), [str(DIGITS)] * 100):  # in place of a path: one short line
            with said() as (_, err):
                self.assertEqual(lite.load_rknn(much), -1)
            self.assertRegex(err.getvalue(), r"^E load_rknn: the model is [^\n]{1,150}: give the path of a file\n$")
        with tempfile.NamedTemporaryFile(suffix=".rknn") as file:
            self.assertEqual(lite.load_rknn(file.name), 0)
            self.fails("E init_runtime: ", call=lite.init_runtime, answer=-1)
            file.write(b"RKNN" + bytes(4000))
            file.flush()
            self.fails("E init_runtime: ", call=lite.init_runtime, answer=-1)

    def test_cores(self):
        lite = self.open()
        for mask in ("0", None, True, -1, 1 << 20):
            self.fails("core_mask", call=lambda m=mask: lite.init_runtime(core_mask=m), answer=-1)
        self.assertEqual(lite.init_runtime(), 0)

    def test_boards(self):
        lite = self.open()
        for words, options in ((("rk9999", "rk3588"), {"target": "rk9999"}), (("12", "rk3588"), {"target": 12}),
                               (("nobody",), {"device_id": "nobody"}), (("device_id",), {"device_id": 7}),
                               (("127.0.0.1",), {"device_id": "tcp:127.0.0.1:1"}), (("E ",), {"device_id": "tcp:"})):
            self.fails(*words, call=lambda o=options: lite.init_runtime(**o), answer=-1)

    def test_chip(self):
        daemon = Daemon("--backend", "sim:rk3566")
        self.addCleanup(daemon.stop)
        lite = self.open()
        self.fails("rk3566", "rk3588", call=lambda: lite.init_runtime(target="rk3588", device_id=daemon.uri), answer=-1)
        self.fails("E init_runtime", call=lambda: lite.init_runtime(device_id=daemon.uri), answer=-1)  # the model's
        with said() as (_, err):  # one core: nothing to choose
            self.assertEqual(lite.load_rknn(str(MODELS / "speech.onnx")), 0)
            self.assertEqual(lite.init_runtime(target="RK3568", device_id=daemon.uri, core_mask=RKNNLite.NPU_CORE_1), 0)
        self.assertIn("one core", err.getvalue())

    def test_server_that_dies(self):
        daemon = Daemon()
        lite = self.open(device_id=daemon.uri)
        daemon.process.kill()
        daemon.process.wait()
        self.fails("call init_runtime() again", call=lambda: lite.inference([np.zeros((1, 8, 8, 3), np.uint8)]))
        self.fails("E init_runtime: ", call=lambda: lite.init_runtime(device_id=daemon.uri), answer=-1)
        self.assertEqual(lite.init_runtime(), 0)
        self.assertIsNotNone(lite.inference([np.zeros((1, 8, 8, 3), np.uint8)]))


class Many(Lite):
    def test_threads_on_one_object_get_their_own_results(self):
        lite = self.open()
        pictures = [np.random.default_rng(i).integers(0, 256, (1, 8, 8, 3), np.uint8) for i in range(64)]
        expected = [lite.inference([picture])[0] for picture in pictures]
        wrong = []

        def work(i):
            for _ in range(10):
                if not np.array_equal(lite.inference([pictures[i]])[0], expected[i]):
                    wrong.append(i)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(64)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_nothing_is_left_behind(self):
        """Loads and releases, with runs and failures between them: fds, and what the server holds."""
        def once():
            lite = RKNNLite()
            lite.rknn_log.logger.setLevel(60)
            lite.load_rknn(str(MODELS / "conv.rknn"))
            lite.init_runtime()
            lite.inference([np.zeros((1, 8, 8, 3), np.uint8)])
            lite.inference([None])
            if n % 2:
                lite.release()

        n = 0
        once()
        once()
        wait_for("contexts to end", lambda: self.daemon.status()["contexts"] == 0)
        fds = len(os.listdir("/proc/self/fd"))
        for n in range(50):
            once()
        wait_for("contexts to end", lambda: self.daemon.status()["contexts"] == 0)
        self.assertLessEqual(len(os.listdir("/proc/self/fd")), fds)

    def test_the_end_of_the_program_with_everything_open(self):
        program = ("import sys, threading\nfrom rknnlite.api import RKNNLite\nimport numpy as np\nopened = []\n"
                   "def work(lite):\n    while True: lite.inference([np.zeros((1, 8, 8, 3), np.uint8)])\n"
                   "for i in range(4):\n    opened.append(RKNNLite())\n"
                   "    assert opened[-1].load_rknn(sys.argv[1]) == 0 and opened[-1].init_runtime() == 0\n"
                   "    opened[-1].inference([np.zeros((1, 8, 8, 3), np.uint8)])\n"
                   "    threading.Thread(target=work, args=(opened[-1],), daemon=True).start()\nsys.exit(5)")
        for _ in range(5):
            done = subprocess.run([sys.executable, "-m", "rknnd.compat", "-c", program, MODELS / "conv.rknn"], check=False,
                                  capture_output=True, text=True, timeout=200)
            self.assertEqual((done.returncode, done.stderr), (5, ""))
        wait_for("contexts to end", lambda: self.daemon.status()["contexts"] == 0)

    def test_an_interrupt_ends_a_call_that_waits(self):
        daemon = Daemon("--backend", "null:192:512,delay_us=60000000", "--isolation", "thread")
        self.addCleanup(daemon.process.kill)  # its job would last
        program = ("import sys\nfrom rknnlite.api import RKNNLite\nimport numpy as np\nlite = RKNNLite()\n"
                   "assert lite.load_rknn(sys.argv[1]) == 0 and lite.init_runtime() == 0\n"
                   "shape = lite.rknn_runtime.input_infos[0].shape\n"
                   "try:\n    lite.inference([np.zeros(shape, np.uint8)])\nexcept KeyboardInterrupt:\n    sys.exit(7)")
        started = subprocess.Popen([sys.executable, "-m", "rknnd.compat", "--server", daemon.uri, "-c", program,
                                    MODELS / "conv.rknn"])
        wait_for("the run to begin", lambda: daemon.status()["jobs_running"] == 1)
        started.send_signal(signal.SIGINT)
        self.assertEqual(started.wait(100), 7)

    def test_a_second_thread_goes_on_while_one_waits(self):
        """The interpreter's lock is given up: as many runs wait at the server as there are threads."""
        daemon = Daemon("--backend", "null:192:512,delay_us=2000000")
        self.addCleanup(daemon.stop)
        objects = [self.open(device_id=daemon.uri) for _ in range(4)]
        threads = [threading.Thread(target=one.inference, args=([np.zeros(one.rknn_runtime.input_infos[0].shape, np.uint8)],))
                   for one in objects]
        for thread in threads:
            thread.start()
        wait_for("all of them at the server", lambda: sum(
            daemon.status()[kind] for kind in ("jobs_waiting", "jobs_running")) == 4)
        for thread in threads:
            thread.join()


if __name__ == "__main__":
    unittest.main()
