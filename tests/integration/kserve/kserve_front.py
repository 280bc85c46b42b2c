"""rknnd-kserve beside a daemon, and a client of the protocol that is written from its description alone."""
import atexit
import gzip
import http.client
import json
import subprocess
import unittest
import zlib

import numpy as np

from support.service import BUILD, PATIENCE, free_port, wait_for

PROGRAM = BUILD / "bin/rknnd-kserve"
DTYPES = {"BOOL": np.bool_, "UINT8": np.uint8, "INT8": np.int8, "UINT16": np.uint16, "INT16": np.int16,
          "UINT32": np.uint32, "INT32": np.int32, "UINT64": np.uint64, "INT64": np.int64, "FP16": np.float16,
          "FP32": np.float32, "FP64": np.float64}
NAMES = {np.dtype(dtype): name for name, dtype in DTYPES.items()}
HEADER = "Inference-Header-Content-Length"


class Refused(Exception):
    def __init__(self, status, text):
        super().__init__(f"{status}: {text}")
        self.status, self.text = status, text


def words_of(data):
    """What an error's body says: ours is JSON, a proxy's own is not."""
    try:
        return json.loads(data)["error"]
    except (ValueError, KeyError, TypeError):
        return f"no JSON: {data[:200]!r}"


class Client:
    """One connection."""

    def __init__(self, port, host="127.0.0.1"):
        self.http = http.client.HTTPConnection(host, port, timeout=PATIENCE)

    def close(self):
        self.http.close()

    def ask(self, method, path, body=None, headers=()):
        """Status, headers, bytes."""
        self.http.request(method, path, body, dict(headers))
        answer = self.http.getresponse()
        data = answer.read()
        packing = answer.getheader("Content-Encoding")
        data = gzip.decompress(data) if packing == "gzip" else zlib.decompress(data) if packing else data
        return answer.status, answer.headers, data

    def json(self, path, method="GET", body=None):
        status, _, data = self.ask(method, path, body)
        if status != 200:
            raise Refused(status, words_of(data) if data else "")
        return json.loads(data) if data else None

    def infer(self, model, inputs, outputs=None, binary=True, pack=None, accept=None, version=None, **more):
        """`inputs`: name -> array. The answer's JSON, and name -> array."""
        request, tail = {**more, "inputs": []}, b""
        for name, array in inputs.items():
            tensor = {"name": name, "shape": list(array.shape), "datatype": NAMES[array.dtype]}
            if binary:
                tensor["parameters"] = {"binary_data_size": array.nbytes}
                tail += array.tobytes()
            else:
                tensor["data"] = array.tolist()
            request["inputs"].append(tensor)
        if outputs is not None:
            request["outputs"] = [{"name": name, "parameters": {"binary_data": binary}} for name in outputs]
        elif binary:
            request["parameters"] = {"binary_data_output": True}
        text = json.dumps(request).encode()
        headers = {HEADER: str(len(text))} if tail else {}
        body = text + tail
        if pack:
            body = gzip.compress(body) if pack == "gzip" else zlib.compress(body)
            headers["Content-Encoding"] = pack
        if accept:
            headers["Accept-Encoding"] = accept
        where = f"/v2/models/{model}" + (f"/versions/{version}" if version else "")
        status, got, data = self.ask("POST", f"{where}/infer", body, headers)
        if status != 200:
            raise Refused(status, words_of(data))
        return read_answer(got, data)


def read_answer(headers, data):
    length = int(headers.get(HEADER, len(data)))
    answer, tail = json.loads(data[:length]), data[length:]
    arrays = {}
    for tensor in answer["outputs"]:
        dtype, size = DTYPES[tensor["datatype"]], tensor.get("parameters", {}).get("binary_data_size")
        if size is None:
            array = np.array(tensor["data"], dtype)
        else:
            array, tail = np.frombuffer(tail[:size], dtype), tail[size:]
        arrays[tensor["name"]] = array.reshape(tensor["shape"])
    assert tail == b"", "bytes that belong to no output"
    return answer, arrays


def answers(port, state="ready", host="127.0.0.1"):
    """Whether somebody serves there: "live" or "ready"."""
    client = Client(port, host)
    try:
        return client.ask("GET", f"/v2/health/{state}")[0] == 200
    except OSError:
        return False
    finally:
        client.close()


class Front:
    """rknnd-kserve for a folder of models, and the daemon behind it."""

    def __init__(self, daemon, models, *options, port=None):
        self.daemon, self.port = daemon, port or free_port()
        self.process = subprocess.Popen(
            [PROGRAM, "--server", daemon.uri, "--models", models, "--listen", f"tcp:127.0.0.1:{self.port}",
             *map(str, options)], stdin=subprocess.DEVNULL, env=daemon.env)
        atexit.register(self.process.kill)
        wait_for("the front to be ready", self.is_ready)

    def client(self):
        return Client(self.port)

    def is_ready(self):
        assert self.process.poll() is None, f"rknnd-kserve ended with {self.process.returncode}"
        return answers(self.port)

    def stop(self, code=0):
        self.process.terminate()
        ended = self.process.wait(PATIENCE)
        assert ended == code, f"rknnd-kserve ended with {ended}"


class WithFront(unittest.TestCase):
    """Cases for one front: setUpClass() of the class makes `folder`, `daemon` and `front`; each case has a client."""

    @classmethod
    def tearDownClass(cls):
        cls.front.stop()
        cls.daemon.stop()
        cls.folder.cleanup()

    def setUp(self):
        self.client = self.front.client()
        self.addCleanup(self.client.close)
