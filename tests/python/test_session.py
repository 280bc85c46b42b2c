"""Session: what goes in and comes out, and what is said when it does not fit; over sim:, a Unix socket and TCP."""
import asyncio
import copy
import io
import mmap
import os
import pickle
import struct
import tempfile
import threading
import unittest
import warnings

import numpy as np
import rknnd

from rknnwriter import Model, Quant, ops
from support.paths import DIGITS, SOURCE
from support.service import Daemon

ONNX = SOURCE / "examples/digits/digits.onnx"
COLUMN = np.arange(64, dtype=np.uint8).reshape(1, 8, 8, 1) * 4
SHAPE = (1, 8, 8, 1)


class Runs:
    """The same over each way to a server."""

    @classmethod
    def setUpClass(cls):
        cls.session = rknnd.Session(DIGITS, cls.uri())

    @classmethod
    def tearDownClass(cls):
        cls.session.close()

    def test_output_is_a_new_float_array_of_the_models_shape(self):
        first, = self.session.run(COLUMN)
        second, = self.session.run(COLUMN)
        self.assertEqual((first.shape, first.dtype), ((1, 10), np.float32))
        self.assertIsNot(first, second)
        np.testing.assert_array_equal(first, second)
        self.assertAlmostEqual(float(first.sum()), 1, delta=0.05)  # probabilities, each rounded to 1/256

    def test_raw_is_what_float_is_made_of(self):
        real, = self.session.run(COLUMN)
        stored, = self.session.run(COLUMN, raw=True)
        info, = self.session.outputs
        self.assertEqual(stored.dtype, np.int8)
        np.testing.assert_array_equal((stored.astype(np.int32) - info.zero_point) * np.float32(info.scale), real)

    def test_layouts_agree(self):
        np.testing.assert_array_equal(self.session.run(COLUMN.transpose(0, 3, 1, 2), layout="nchw")[0],
                                      self.session.run(COLUMN)[0])

    def test_dtypes_agree(self):
        expected, = self.session.run(COLUMN)
        for dtype in (np.float32, np.float16, np.int16):
            with self.subTest(dtype):
                np.testing.assert_array_equal(self.session.run(COLUMN.astype(dtype))[0], expected)

    def test_not_contiguous(self):
        wide = np.zeros((1, 8, 16, 1), np.uint8)
        wide[:, :, ::2] = COLUMN
        np.testing.assert_array_equal(self.session.run(wide[:, :, ::2])[0], self.session.run(COLUMN)[0])

    def test_by_name_and_by_list(self):
        expected, = self.session.run(COLUMN)
        np.testing.assert_array_equal(self.session.run({"image": COLUMN})[0], expected)
        np.testing.assert_array_equal(self.session.run([COLUMN])[0], expected)

    def test_out(self):
        mine = np.empty((1, 10), np.float32)
        answer, = self.session.run(COLUMN, out=[mine])
        self.assertIs(answer, mine)
        np.testing.assert_array_equal(mine, self.session.run(COLUMN)[0])

    def test_pass_through_is_the_models_own_form(self):
        info, = self.session.inputs
        own = np.zeros((1, 8, info.row_stride, 1), np.int8)  # rows are padded
        own[:, :, :8] = COLUMN.astype(np.int16) - 128
        self.assertEqual(info.zero_point, -128)
        np.testing.assert_array_equal(self.session.run(own, pass_through=True)[0], self.session.run(COLUMN)[0])

    def test_bound_memory(self):
        expected, = self.session.run(COLUMN)
        with rknnd.Session(DIGITS, self.uri()) as session:
            image = session.bind("image", dtype=np.uint8)
            probability = session.bind("probability", dtype=np.float32)
            image[...] = COLUMN
            answer, = session.run(None)
            np.testing.assert_array_equal(probability, expected)
            self.assertIs(answer, probability)
        np.testing.assert_array_equal(probability, expected)  # outlives the session

    def test_asynchronous(self):
        async def several():
            with rknnd.Session(DIGITS, self.uri(), contexts=3) as session:
                return await asyncio.gather(*[session.run_async(COLUMN + i) for i in range(20)])
        for i, (answer,) in enumerate(asyncio.run(several())):
            np.testing.assert_array_equal(answer, self.session.run(COLUMN + i)[0])

    def test_layers(self):
        seen = list(self.session.tensors(COLUMN))
        np.testing.assert_array_equal(seen[-1].values.reshape(1, 10), self.session.run(COLUMN)[0])
        self.assertEqual([t.name for t in self.session.tensors(COLUMN, only="relu*")], ["relu1", "relu2"])
        for tensor in seen:
            real = (tensor.data.astype(np.int32) - tensor.zero_point) * tensor.scale
            np.testing.assert_allclose(tensor.values, real, rtol=1e-6)

    def test_iterator_may_be_left(self):
        for tensor in self.session.tensors(COLUMN):
            self.assertEqual(tensor.name, "relu1")
            break
        self.session.run(COLUMN)

    def test_loop_over_layers_cannot_wait_for_itself(self):
        async def awaited():
            await self.session.run_async(COLUMN)
        loop = self.session.tensors(COLUMN)
        next(loop)
        for call in (lambda: self.session.run(COLUMN), lambda: asyncio.run(awaited()), lambda: next(self.session.tensors(COLUMN))):
            with self.assertRaisesRegex(rknnd.BusyError, "wait for itself"):
                call()
        answers = []
        other = threading.Thread(target=lambda: answers.append(self.session.run(COLUMN)))  # may wait for the loop's end
        other.start()
        loop.close()
        other.join()
        np.testing.assert_array_equal(answers[0][0], self.session.run(COLUMN)[0])

    def test_comparison_with_onnx(self):
        with rknnd.Session(ONNX, "sim:") as original:
            golden = original.golden(COLUMN.astype(np.float32) / 255)
            found = {c.name: c.distance for c in self.session.compare(golden, COLUMN) if c.distance}
        for name in ("relu1", "relu2", "fc", "probability"):
            self.assertGreater(found[name].cosine, 0.99, name)
        self.assertLess(found["relu1"].largest, 1)


class Sim(Runs, unittest.TestCase):
    @staticmethod
    def uri():
        return "sim:"


class Unix(Runs, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon()
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.daemon.stop()

    @classmethod
    def uri(cls):
        return cls.daemon.uri


class Tcp(Unix):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon(transport="tcp")
        super(Unix, cls).setUpClass()


class Words(unittest.TestCase):
    """What is wrong, and what to do."""

    @classmethod
    def setUpClass(cls):
        cls.session = rknnd.Session(DIGITS, "sim:")

    def says(self, pattern, *arguments, kind=rknnd.InputError, **settings):
        with self.assertRaisesRegex(kind, pattern):
            self.session.run(*arguments, **settings)

    def test_inputs(self):
        self.says(r"dtype float64 .*use array.astype\(np.float32\)", COLUMN.astype(float))
        self.says(r"dtype uint64 .*use array.astype\(np.int32\)", COLUMN.astype(np.uint64))
        self.says(r"cannot be set as INT32: .*array.astype\(np.float32\)", COLUMN.astype(np.int32))
        self.says(r'say layout="nchw"', COLUMN.transpose(0, 3, 1, 2))
        self.says(r"use array.reshape\(\(1, 8, 8, 1\)\)", COLUMN.reshape(64))
        self.says(r"shape \(1, 9, 8, 1\), the model takes \(1, 8, 8, 1\)", np.zeros((1, 9, 8, 1), np.uint8))
        self.says(r"2 inputs given, the model has 1 \(image", [COLUMN, COLUMN])
        self.says(r"no input is called picture: the model has image", {"picture": COLUMN})
        self.says(r'layout \'nhcw\': say "nhwc" or "nchw"', COLUMN, layout="nhcw")
        self.says(r"layout has 2 elements, the model 1 inputs", COLUMN, layout=["nhwc", "nhwc"])

    def test_out(self):
        self.says(r"use np.empty\(\(1, 10\), np.float32\)", COLUMN, out=[np.empty((1, 10))], kind=rknnd.OutputError)
        self.says(r"out has 0 arrays, the model 1 outputs", COLUMN, out=[], kind=rknnd.OutputError)

    def test_picture_without_batch(self):
        with self.assertWarnsRegex(UserWarning, r"3-D: .*array\[np.newaxis\]") as caught:
            answer, = self.session.run(COLUMN[0])
        self.assertEqual(caught.filename, __file__)
        np.testing.assert_array_equal(answer, self.session.run(COLUMN)[0])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.session.run(COLUMN)

    def test_closed(self):
        session = rknnd.Session(DIGITS, "sim:")
        session.close()
        session.close()
        for call in (lambda: session.run(COLUMN), lambda: session.bind("image"), lambda: list(session.tensors(COLUMN))):
            with self.assertRaisesRegex(rknnd.ClosedError, "open another one"):
                call()

    def test_models(self):
        with self.assertRaisesRegex(rknnd.ModelError, "/no/model: No such file"):
            rknnd.Session("/no/model", "sim:")
        with self.assertRaises(rknnd.ModelError):
            rknnd.Session(b"nothing of the kind", "sim:")
        with self.assertRaisesRegex(rknnd.ModelError, "0 bytes"):
            rknnd.Session(b"", "sim:")
        with self.assertRaisesRegex(rknnd.ParameterError, "URI"):
            rknnd.Session(DIGITS, "gopher:x")
        with self.assertRaisesRegex(rknnd.ServerError, "tcp:127.0.0.1:1"):
            rknnd.Session(DIGITS, "tcp:127.0.0.1:1")

    def test_profile_needs_its_flag(self):
        self.session.run(COLUMN)
        self.assertEqual(self.session.profile().layers, [])
        with rknnd.Session(DIGITS, "sim:", profile=True) as session:
            session.run(COLUMN)
            names = [layer.name for layer in session.profile().layers]
        self.assertIn("Conv:conv1", names)

    def test_bind(self):
        with self.assertRaisesRegex(rknnd.ParameterError, "no tensor 'x' to bind: image, probability"):
            self.session.bind("x")
        with rknnd.Session(DIGITS, "sim:", contexts=2) as session:
            with self.assertRaisesRegex(rknnd.ParameterError, "contexts=1"):
                session.bind("image")


class Sharing(unittest.TestCase):
    def test_several_servers_and_threads_at_once(self):
        daemons = [Daemon(), Daemon(transport="tcp")]
        uris = [daemon.uri for daemon in daemons] + ["sim:"]
        expected, = rknnd.Session(DIGITS, "sim:").run(COLUMN)
        failures = []

        def work(uri):
            try:
                with rknnd.Session(DIGITS, uri) as session:
                    for _ in range(20):
                        np.testing.assert_array_equal(session.run(COLUMN)[0], expected)
            except BaseException as error:
                failures.append((uri, error))
        threads = [threading.Thread(target=work, args=(uri,)) for uri in uris * 4]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        for daemon in daemons:
            self.assertEqual(daemon.status()["jobs_done"], 80)
            daemon.stop()

    def test_server_of_the_thread_is_left_alone(self):
        from rknnd._capi import lib, text
        rknnd.Session(DIGITS, "sim:").close()
        self.assertEqual(text(lib.rknnd_get_thread_server()), "")

    def test_one_session_many_threads(self):
        with rknnd.Session(DIGITS, "sim:", contexts=2) as session:
            expected = [session.run(COLUMN + i)[0] for i in range(8)]
            wrong = []

            def work(i):
                for _ in range(30):
                    if not np.array_equal(session.run(COLUMN + i)[0], expected[i]):
                        wrong.append(i)
            threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(wrong, [])

    def test_model_loads_its_weights_once(self):
        daemon = Daemon()
        with rknnd.Model(DIGITS, daemon.uri) as model:
            one = daemon.status()
            sessions = [model.session(core_mask=1 << i) for i in range(3)] + [rknnd.Session(DIGITS, daemon.uri)]
            many = daemon.status()
            self.assertEqual((one["models"], many["models"]), (1, 1))
            self.assertEqual(one["model_bytes"], many["model_bytes"])
            self.assertEqual(many["contexts"], 5)
            for session in sessions:
                session.close()
        daemon.stop()


class Shapes(unittest.TestCase):
    """A model whose file leaves sizes open."""

    @classmethod
    def setUpClass(cls):
        onnx, TensorProto = __import__("onnx"), __import__("onnx").TensorProto
        shape = [1, 3, "height", "width"]
        graph = onnx.helper.make_graph(
            [onnx.helper.make_node("Abs", ["x"], ["y"])], "open",
            [onnx.helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
            [onnx.helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)])
        cls.model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)]).SerializeToString()

    def test_one(self):
        x = np.random.default_rng(1).normal(size=(1, 4, 6, 3)).astype(np.float32)
        with rknnd.Session(self.model, "sim:", shapes={"x": (1, 3, 4, 6)}) as session:
            self.assertEqual(session.shapes, [])
            answer, = session.run(x, layout="nhwc")
        np.testing.assert_allclose(answer, np.abs(x).transpose(0, 3, 1, 2), rtol=1e-3)

    def test_arrays_choose_among_several(self):
        with rknnd.Session(self.model, "sim:", shapes={"x": [(1, 3, 4, 6), (1, 3, 8, 2)]}) as session:
            self.assertEqual(sorted(s[0] for s in session.shapes), [(1, 4, 6, 3), (1, 8, 2, 3)])
            for height, width in (4, 6), (8, 2), (4, 6):
                x = np.random.default_rng(2).normal(size=(1, 3, height, width)).astype(np.float32)
                answer, = session.run(x, layout="nchw")
                np.testing.assert_allclose(answer, np.abs(x), rtol=1e-3)
            with self.assertRaisesRegex(rknnd.InputError, r"\(1, 3, 5, 5\)"):
                session.run(np.zeros((1, 3, 5, 5), np.float32), layout="nchw")

    def test_none(self):
        with self.assertRaisesRegex(rknnd.ModelError, r"dimension 2 is not fixed.*in Python: Session\(…, shapes="):
            rknnd.Session(self.model, "sim:")


class Strangers(unittest.TestCase):
    """What somebody tries who has not read the manual: each is answered with what to give instead."""

    def test_words(self):
        session = rknnd.Session(DIGITS, "sim:")
        self.addCleanup(session.close)
        closed = rknnd.Session(DIGITS, "sim:")
        closed.close()
        for words, call in (
                ("is not an array of numbers: NumPy makes <U3 of str", lambda: session.run("abc")),
                ("an array of float32 .* has 256 bytes, and the model's own form, to pass through, 64 of int8",
                 lambda: session.run(COLUMN.astype(np.float32), pass_through=True)),
                (r"timeout is 0: a number of seconds above 0", lambda: session.run(COLUMN, timeout=0)),
                (r"timeout is '1': a number of seconds", lambda: session.run(COLUMN, timeout="1")),
                (r"timeout is nan: a number of seconds", lambda: session.run(COLUMN, timeout=float("nan"))),
                (r"out is an array: give a list .* out=\[array\]", lambda: session.run(COLUMN, out=np.empty((1, 10), np.float32))),
                ("core_mask is '0': a number with bit i", lambda: rknnd.Session(DIGITS, "sim:", core_mask="0")),
                ("the server is 7: give a URI", lambda: rknnd.Session(DIGITS, 7)),
                ("the model is of type NoneType: give a path", lambda: rknnd.Session(None, "sim:")),
                (r"of type BytesIO: .* the file's bytes \(file.read\(\)\)", lambda: rknnd.Session(io.BytesIO(b"x"), "sim:")),
                ("1.5 contexts: a number", lambda: rknnd.Session(DIGITS, "sim:", contexts=1.5)),
                ("a memory of -1 bytes: 1 to 4294967295", lambda: session.create_memory(-1)),
                ("a memory of 1.5 bytes", lambda: session.create_memory(1.5)),
                ("session of the memory has been closed", lambda: closed.create_memory(4)),
                ("compute is None: give a function", lambda: session.register("op", None))):
            with self.subTest(words), self.assertRaisesRegex(rknnd.Error, words):
                call()
        session.run(COLUMN, timeout=float("inf"))
        session.run(COLUMN, timeout=1e12)

    def test_copies(self):
        with rknnd.Session(DIGITS, "sim:") as session, rknnd.Model(DIGITS, "sim:") as model:
            for held in session, model, session.create_memory(4):
                with self.subTest(held), self.assertRaisesRegex(TypeError, "cannot be copied, or sent .*: open another one there"):
                    pickle.dumps(held)
                self.assertRaises(TypeError, copy.deepcopy, held)
            info = session.inputs[0]
            self.assertEqual(pickle.loads(pickle.dumps(info)), info)
            with self.assertRaises(rknnd.InputError) as caught:
                session.run(np.zeros(3, np.uint8))
        again = pickle.loads(pickle.dumps(caught.exception))  # as out of a pool of processes
        self.assertEqual((type(again), again.code, str(again)), (rknnd.InputError, -8, str(caught.exception)))

    def test_shown(self):
        with rknnd.Session(DIGITS, "sim:") as session, rknnd.Model(DIGITS, "sim:") as model:
            ends = "image int8 1x8x8x1 nhwc -> probability int8 1x10"
            self.assertEqual((repr(session), repr(model)), (f"<rknnd.Session: {ends}>", f"<rknnd.Model: {ends}>"))
        self.assertEqual((repr(session), repr(model)), ("<rknnd.Session: closed>", "<rknnd.Model: closed>"))


class MemoryTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.session = rknnd.Session(DIGITS, "sim:")

    def test_array_outlives_the_memory(self):
        memory = self.session.create_memory(64)
        array = memory.array((8, 8), np.uint8)
        memory.close()
        array[...] = 7
        self.assertEqual(int(array.sum()), 448)
        with self.assertRaisesRegex(rknnd.ClosedError, "has been closed"):
            memory.array()

    def test_dlpack_is_the_same_memory(self):
        if not hasattr(np, "from_dlpack"):  # before 1.23
            with self.assertRaisesRegex(rknnd.Error, "install NumPy 1.22"):
                self.session.create_memory(64).__dlpack__()
            return
        memory = self.session.create_memory(64)
        array = np.from_dlpack(memory)
        array_of_ours = memory.array()
        array_of_ours[3] = 9
        self.assertEqual((array.size, int(array[3])), (64, 9))

    def test_descriptor_in(self):
        expected, = self.session.run(COLUMN)
        fd = os.memfd_create("camera", os.MFD_ALLOW_SEALING)
        os.ftruncate(fd, 8192)
        with mmap.mmap(fd, 8192) as picture, rknnd.Session(DIGITS, "sim:") as session:
            memory = session.import_memory(fd, 128, offset=4096)
            image = session.bind("image", memory, dtype=np.uint8)
            rows = np.zeros((8, image.strides[1]), np.uint8)
            rows[:, :8] = COLUMN[0, :, :, 0]
            picture[4096:4224] = rows.tobytes()
            np.testing.assert_array_equal(session.run(None)[0], expected)
            with self.assertRaisesRegex(rknnd.ParameterError, "cannot be mapped"):
                session.import_memory(fd, 8192, offset=4096)
        os.close(fd)

    def test_descriptor_out(self):
        with rknnd.Session(DIGITS, "sim:") as session:
            memory = session.create_memory(64)
            probability = session.bind("probability", memory, dtype=np.float32)
            session.run(COLUMN)
            seen = os.pread(memory.fd, 40, memory.offset)
            self.assertEqual(list(struct.unpack("10f", seen)), probability[0].tolist())

    def test_native(self):
        """Bytes as the NPU has them: blocks of 16 channels of each pixel, the last one with some to spare."""
        model, quant = Model("rk3588"), Quant(0.5, 3)
        model.output(ops.relu(model, model.input("x", (2, 20, 3, 5), quant), cpu=True), "y")
        values = np.random.default_rng(1).integers(-128, 128, (2, 20, 3, 5)).astype(np.int8)

        def blocks(array):
            return np.pad(array, [(0, 0), (0, 12), (0, 0), (0, 0)]).reshape(2, 2, 16, 3, 5).transpose(0, 1, 3, 4, 2)

        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "relu.rknn")
            model.save(path)
            with rknnd.Session(path, "sim:") as session:
                x, y = session.bind("x", native=True), session.bind("y", native=True)
                x[...] = np.frombuffer(blocks(values).tobytes(), np.uint8)
                session.run(None)
                given = y.view(np.int8).reshape(2, 2, 3, 5, 16).transpose(0, 1, 4, 2, 3).reshape(2, 32, 3, 5)
        np.testing.assert_array_equal(given[:, :20], np.maximum(values, 3))

    def test_copies_of_what_has_changed(self):
        """Over TCP a run sends the parts of a memory that have changed: here of far more parts than a message names."""
        size, part = 1 << 20, 4096
        daemon = Daemon("--backend", f"null:{size}:{size}", transport="tcp")
        self.addCleanup(daemon.stop)
        with rknnd.Session(DIGITS, daemon.uri) as session:
            image = session.bind(session.inputs[0].name, dtype=session.inputs[0].dtype)
            answer = session.bind(session.outputs[0].name, dtype=session.outputs[0].dtype)
            sent = image.view(np.uint8).reshape(-1)
            for step in (1, 2, 3, 7):
                sent[::part * step] += 1
                sent[part - 1::part * step] += 2
                session.run(None)
                np.testing.assert_array_equal(answer.view(np.uint8).reshape(-1), sent)

    def test_too_small(self):
        with self.assertRaises(rknnd.InputError):
            self.session.bind("image", self.session.create_memory(16))
        with self.assertRaisesRegex(rknnd.ParameterError, "takes 400 bytes, the memory has 64"):
            self.session.create_memory(64).array((100,), np.float32)


class Servers(unittest.TestCase):
    def test_server(self):
        daemon = Daemon()
        info = rknnd.server(daemon.uri)
        self.assertEqual((info.uri, info.backend, info.n_cores), (daemon.uri, "sim", 3))
        self.assertEqual(len(rknnd.ping(daemon.uri, 3)), 3)
        self.assertEqual(rknnd.status(daemon.uri).isolation, "process")
        self.assertIn("chip", {field for field in vars(info)})
        daemon.stop()

    def test_description(self):
        self.assertEqual([i["name"] for i in rknnd.describe(DIGITS, "sim:")["inputs"]], ["image"])

    def test_progress(self):
        seen = []
        daemon = Daemon()
        rknnd.Session(DIGITS, daemon.uri, progress=lambda done, total: seen.append((done, total))).close()
        self.assertEqual(seen[-1], (DIGITS.stat().st_size,) * 2)
        daemon.stop()

    def test_what_progress_raises_comes_out(self):
        daemon, seen = Daemon(), []
        self.addCleanup(daemon.stop)

        def wrong(done, total):
            seen.append((done, total))
            raise ZeroDivisionError("in my progress")
        with self.assertRaisesRegex(ZeroDivisionError, "in my progress"):
            rknnd.Session(ONNX, daemon.uri, progress=wrong)
        self.assertEqual(len(seen), 1)
        self.assertEqual(daemon.status()["contexts"], 0)  # none is left behind
        rknnd.Session(ONNX, daemon.uri).close()


if __name__ == "__main__":
    unittest.main()
