#!/usr/bin/python3
"""Writes frames.txt: every message of the protocol as a whole frame, by Google's protobuf.

Independent of our code: the messages are encoded by python3-protobuf from rknnd.proto, header, type
numbers and payloads are written here; test_protocol_bytes.c decodes and encodes them. To be run by
hand, with protoc and python3-protobuf, when a message is added; lines that are there never change.
"""
import pathlib
import struct
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PROTOCOL = HERE.parents[3] / "protocol"
U32, U64 = 2**32 - 1, 2**64 - 1
SHA = bytes(range(0xA0, 0xC0))
SECRET = bytes(range(0x10, 0x20))
REPLY, ERROR = 1, 2


def load_messages():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["protoc", f"-I{PROTOCOL}", f"--python_out={folder}", "rknnd.proto"],
                       check=True)
        sys.path.insert(0, folder)
        import rknnd_pb2
        return rknnd_pb2


def samples(p):
    """One message of each name; every field set, no two numbers alike."""
    device = p.Device(chip="rk3588", backend="sim", runtime_version="rt 2.3.2",
                      driver_version="drv 0.9.8", n_cores=3, sram_size=958464, dma=True,
                      clock_hz=1 << 41, timing=93)
    attr = p.TensorAttr(name="in", dims=[1, 300, 2, 7], n_elems=4200, size=8400,
                        size_with_stride=9600, w_stride=8, h_stride=320, zp=-14,
                        scale=0.0078125, type=4, layout=1, qnt=2)
    form = p.InferInput(size=4200, type=3, layout=1, pass_through=True, converted=True)
    return {
        "Error": p.Error(code=-6, text="node \u201cconv1\u201d: no weights"),
        "Empty": p.Empty(),
        "Ping": p.Ping(token=U64),
        "Cancel": p.Cancel(request=U32),
        "Goodbye": p.Goodbye(reason="shutting down"),
        "Hello": p.Hello(version_min=1, version_max=2, features=1 << 63,
                         software="librknnrt 0.1.0", program="digits[42]", session=77,
                         session_secret=SECRET),
        "HelloReply": p.HelloReply(
            version=1, features=5, software="rknnd 0.1.0", device=device,
            limits=p.Limits(message_size=8192, payload_size=1 << 30, model_size=1 << 33,
                            chunk_size=1 << 20, requests=64, heartbeat_ms=2000,
                            peer_timeout_ms=6000, contexts=256),
            session=78, session_secret=SECRET, buffers="dma_heap system"),
        "ServerStatus": p.ServerStatus(
            uptime_ms=1 << 40, connections=2, sessions=3, contexts=4, models=5, workers=6,
            uploads=7, upload_bytes=1 << 33, cached_bytes=9, model_bytes=10, buffer_bytes=11,
            jobs_waiting=12, jobs_running=13, jobs_done=14, jobs_failed=15, jobs_retried=16,
            worker_deaths=17, isolation="process", memory_bytes=81, sram_free=82),
        "StatsReply": p.StatsReply(uptime_ms=1 << 44, n_cores=1, n_clients=57, n_models=58),
        "CoreStats": p.CoreStats(busy_us=1 << 45),
        "ClientStats": p.ClientStats(
            client=1 << 46, program="digits[42]", origin="unix, pid 42, uid 7", user="alice",
            connections=59, contexts=60, waiting=61, running=62, done=63, failed=64,
            core_us=1 << 47, queue_us=65, user_bytes=1 << 48),
        "ModelStats": p.ModelStats(name="c.rknn", contexts=66, jobs=67, run_us=1 << 49,
                                   memory_size=1 << 50, worker=68, deaths=69),
        "ClientKill": p.ClientKill(client=70),
        "Log": p.Log(**{"from": 1 << 52}, last=83, wait=True),
        "LogReply": p.LogReply(first=1 << 53, n_lines=84, end=1 << 54, level=3),
        "LogLine": p.LogLine(time_us=1 << 55, level=2, text="model a.rknn: \u201cgone\u201d"),
        "Trace": p.Trace(**{"from": 1 << 56}),
        "TraceReply": p.TraceReply(first=1 << 57, n_events=85, end=1 << 58, now_us=86),
        "TraceEvent": p.TraceEvent(kind=10, time_us=1 << 59, client=87, id=1 << 60, value=88,
                                   cores=5, text="lprnet.rknn"),
        "ClocksReply": p.ClocksReply(n_clocks=89),
        "LimitsReply": p.LimitsReply(n_limits=90, n_programs=7, n_settings=26),
        "Setting": p.Setting(name="max-payload", bytes=True, value=1 << 29, usual=1 << 30),
        "Limit": p.Limit(user="alice", key="storage", bytes=True, quota=True, used=1 << 44, limit=1 << 45,
                         client=12),
        "Clock": p.Clock(name="cpu0-3", domain="CPU", hz=1 << 42, max_hz=1 << 43, governor="ondemand"),
        "SensorsReply": p.SensorsReply(n_sensors=91),
        "Sensor": p.Sensor(kind=1, name="soc-thermal", value=-5 << 30, limit=115000),
        "LogLevel": p.LogLevel(level=4),
        "ModelOffer": p.ModelOffer(sha256=SHA, size=3 << 30, name="yolo.rknn"),
        "ModelOfferReply": p.ModelOfferReply(held=True, offset=1 << 32),
        "ModelChunk": p.ModelChunk(sha256=SHA, offset=(1 << 32) + 1),
        "ModelChunkReply": p.ModelChunkReply(received=1 << 34, complete=True),
        "ModelDescribe": p.ModelDescribe(sha256=SHA, options="shape x=1x2"),
        "StoredName": p.StoredName(name="yolo", version="7"),
        "ModelPush": p.ModelPush(sha256=SHA, name="yolo.det-1_b", version="2026-11"),
        "StoredModel": p.StoredModel(name="yolo", version="8", sha256=SHA, size=5 << 30, file="yolo.rknn", owner="alice",
                                     chip="rk3588", batch=95, n_labels=96, time_s=1 << 33, is_default=True,
                                     problem="no manifest", loaded=True),
        "StoredListReply": p.StoredListReply(n_models=97),
        "ModelPull": p.ModelPull(sha256=SHA, offset=(1 << 35) + 1),
        "ContextOpen": p.ContextOpen(sha256=SHA, flags=0x108, options="shape y=3"),
        "ContextDup": p.ContextDup(context=1 << 35),
        "ContextInfo": p.ContextInfo(
            context=21, n_inputs=1, n_outputs=2, weight_size=1 << 36, internal_size=22,
            memory_size=23, sram_total=24, sram_free=25, core_limit=7, batch=26,
            custom_string="made for \u732b", n_custom=57, n_shape_sets=60, native_attrs=True,
            no_custom=True, estimate_chip="rk3576", estimate_assumed=True, n_unestimated=94),
        "ContextClose": p.ContextClose(context=27),
        "Infer": p.Infer(context=28, core_mask=5, timeout_ms=1000, collect_perf=True,
                         no_outputs=True,
                         inputs=[form, p.InferInput(size=1 << 32, type=10, layout=3)],
                         custom_nodes=b"\x05\x00\x80", shape_set=61,
                         writes=[p.InferWrite(input=77, offset=1 << 51, size=78)],
                         outputs_back=[79, 300], output_limit=1 << 44, batch_cores=80, samples=95),
        "InferReply": p.InferReply(run_us=1 << 37, queue_us=29, attempts=2,
                                   call=p.CustomCall(node=58, number=59), core_mask=81,
                                   estimate_ns=1 << 61),
        "Profile": p.Profile(context=30),
        "ProfileReply": p.ProfileReply(n_layers=31, run_us=32),
        "Layer": p.Layer(name="Conv:conv1", op="ConvRelu", type="INT8", target="NPU",
                         input_shapes="(1,3,224,224)", output_shapes="(1,16,112,112)",
                         time_us=33, ddr_cycles=34, npu_cycles=35, total_cycles=36, macs=1 << 38,
                         read_bytes=37, write_bytes=38, core_mask=39, mac_cycles=1 << 40,
                         core_work=[48, 0, 1 << 36], n_tasks=82, estimate_ns=1 << 62),
        "Dump": p.Dump(run=p.Infer(context=49, core_mask=7, timeout_ms=50, inputs=[form]),
                       only="conv*_out", replace=True),
        "DumpReply": p.DumpReply(index=51, tensor=attr, node="Conv:conv2", op="ConvClip",
                                 offset=1 << 42, size=52, n_tensors=53,
                                 call=p.CustomCall(node=60, number=61), wanted=True),
        "DumpNext": p.DumpNext(request=U32 - 1),
        "CustomList": p.CustomList(context=(1 << 44) + 62),
        "CustomListReply": p.CustomListReply(n_nodes=63),
        "CustomDone": p.CustomDone(request=U32 - 2, number=64, status=-5, text="compute() said so"),
        "CustomNode": p.CustomNode(name="cstRelu:act1", op="cstRelu", known=True, n_inputs=65,
                                   n_outputs=66, n_attributes=67),
        "CustomAttribute": p.CustomAttribute(name="alpha", type=8, n_elems=68, size=544),
        "TensorIo": p.TensorIo(
            logical=attr, native=p.TensorAttr(name="n", dims=[1], zp=-(2**31), scale=-1.5),
            native_nhwc=p.TensorAttr(name="h", type=1),
            preprocess=p.TensorPreprocess(mean=[0.5, -2], std=[4, 8], order=[1, 0]),
            shrinks=True, device_converts=True),
        "Device": device,
        "WorkerStart": p.WorkerStart(backend="null", options="64:64", plugin_dir="/plugins",
                                     log_level=5),
        "WorkerLoad": p.WorkerLoad(size=1 << 39, name="a.rknn", options="shape a=1"),
        "WorkerDescribe": p.WorkerDescribe(size=40, name="b.rknn", options="shape b=2"),
        "WorkerContext": p.WorkerContext(context=41),
        "WorkerBuffer": p.WorkerBuffer(buffer=42, input_size=43, output_size=44),
        "WorkerRun": p.WorkerRun(
            context=45, buffer=46, core_mask=3, collect_perf=True,
            inputs=[p.WorkerSlot(offset=64, form=form),
                    p.WorkerSlot(form=p.InferInput(pass_through=True))],
            output_offsets=[0, 128, 1 << 41], custom_nodes=b"\x81", custom_inputs=69,
            custom_outputs=1 << 45, shape_set=62, divide_batch=True, samples=96),
        "WorkerDump": p.WorkerDump(
            run=p.WorkerRun(context=54, buffer=55, core_mask=1,
                            inputs=[p.WorkerSlot(offset=192, form=form)]),
            only="*", window=1 << 43, replace=True),
        "WorkerNext": p.WorkerNext(context=56, stop=True),
        "MemoryCreate": p.MemoryCreate(size=1 << 44, flags=3),
        "MemoryInfo": p.MemoryInfo(memory=1 << 45, size=57),
        "MemoryFree": p.MemoryFree(memory=58),
        "ContextBind": p.ContextBind(context=59, output=True, index=60, memory=61, offset=1 << 46,
                                     type=4, layout=1, w_stride=62, h_stride=63,
                                     pass_through=True, shape_set=80),
        "ContextBindReply": p.ContextBindReply(size=1 << 47),
        "ContextInternal": p.ContextInternal(context=64, memory=65, offset=66),
        "WorkerMemory": p.WorkerMemory(memory=67, size=1 << 48),
        "WorkerBind": p.WorkerBind(context=68, output=True, index=69, memory=70, offset=71,
                                   size=1 << 49, type=5, layout=2, w_stride=72, h_stride=73, c2=16,
                                   pass_through=True, stored=True),
        "WorkerInternal": p.WorkerInternal(context=74, memory=75, offset=76, size=1 << 50),
    }


# type, name, request, reply, request's payload, reply's payload, request's fds
TYPES = [
    (1, "HELLO", "Hello", "HelloReply", False, False, 0),
    (2, "PING", "Ping", "Ping", False, False, 0),
    (3, "CANCEL", "Cancel", None, False, False, 0),
    (4, "GOODBYE", "Goodbye", None, False, False, 0),
    (5, "SERVER_STATUS", "Empty", "ServerStatus", False, False, 0),
    (6, "STATS", "Empty", "StatsReply", False, True, 0),
    (7, "CLIENT_KILL", "ClientKill", "Empty", False, False, 0),
    (8, "LOG", "Log", "LogReply", False, True, 0),
    (9, "LOG_LEVEL", "LogLevel", "Empty", False, False, 0),
    (10, "TRACE", "Trace", "TraceReply", False, True, 0),
    (11, "CLOCKS", "Empty", "ClocksReply", False, True, 0),
    (12, "LIMITS", "Empty", "LimitsReply", False, True, 0),
    (13, "METRICS", "Empty", "Empty", False, True, 0),
    (15, "SENSORS", "Empty", "SensorsReply", False, True, 0),
    (16, "MODEL_OFFER", "ModelOffer", "ModelOfferReply", False, False, 0),
    (17, "MODEL_CHUNK", "ModelChunk", "ModelChunkReply", True, False, 0),
    (18, "MODEL_DESCRIBE", "ModelDescribe", "Empty", False, True, 0),
    (19, "MODEL_PUSH", "ModelPush", "StoredModel", True, False, 0),
    (20, "MODEL_LIST", "Empty", "StoredListReply", False, True, 0),
    (21, "MODEL_FIND", "StoredName", "StoredModel", False, False, 0),
    (22, "MODEL_MANIFEST", "StoredName", "Empty", False, True, 0),
    (23, "MODEL_REMOVE", "StoredName", "Empty", False, False, 0),
    (24, "MODEL_DEFAULT", "StoredName", "Empty", False, False, 0),
    (25, "MODEL_PULL", "ModelPull", "Empty", False, True, 0),
    (32, "CONTEXT_OPEN", "ContextOpen", "ContextInfo", False, True, 0),
    (33, "CONTEXT_DUP", "ContextDup", "ContextInfo", False, True, 0),
    (34, "CONTEXT_CLOSE", "ContextClose", "Empty", False, False, 0),
    (35, "CONTEXT_BIND", "ContextBind", "ContextBindReply", False, False, 0),
    (36, "CONTEXT_INTERNAL", "ContextInternal", "Empty", False, False, 0),
    (64, "MEMORY_CREATE", "MemoryCreate", "MemoryInfo", False, False, 0),
    (65, "MEMORY_IMPORT", "Empty", "MemoryInfo", False, False, 1),
    (66, "MEMORY_FREE", "MemoryFree", "Empty", False, False, 0),
    (48, "INFER", "Infer", "InferReply", True, True, 0),
    (49, "PROFILE", "Profile", "ProfileReply", False, True, 0),
    (50, "DUMP", "Dump", "DumpReply", True, True, 0),
    (51, "DUMP_NEXT", "DumpNext", None, True, False, 0),
    (52, "CUSTOM_LIST", "CustomList", "CustomListReply", False, True, 0),
    (53, "CUSTOM_DONE", "CustomDone", None, True, False, 0),
    (128, "WORKER_START", "WorkerStart", "Device", False, False, 1),
    (129, "WORKER_LOAD", "WorkerLoad", "ContextInfo", False, True, 1),
    (130, "WORKER_DESCRIBE", "WorkerDescribe", "Empty", False, True, 1),
    (131, "WORKER_OPEN", "WorkerContext", "Empty", False, False, 0),
    (132, "WORKER_CLOSE", "WorkerContext", "Empty", False, False, 0),
    (133, "WORKER_BUFFER", "WorkerBuffer", "Empty", False, False, 2),
    (134, "WORKER_BUFFER_FREE", "WorkerBuffer", "Empty", False, False, 0),
    (135, "WORKER_RUN", "WorkerRun", "InferReply", False, False, 0),
    (136, "WORKER_PROFILE", "WorkerContext", "ProfileReply", False, True, 0),
    (137, "WORKER_DUMP", "WorkerDump", "DumpReply", False, False, 0),
    (138, "WORKER_NEXT", "WorkerNext", "Empty", False, False, 0),
    (139, "WORKER_MEMORY", "WorkerMemory", "Empty", False, False, 1),
    (140, "WORKER_MEMORY_FREE", "WorkerMemory", "Empty", False, False, 0),
    (141, "WORKER_BIND", "WorkerBind", "Empty", False, False, 0),
    (142, "WORKER_INTERNAL", "WorkerInternal", "Empty", False, False, 0),
    (143, "WORKER_LOG_LEVEL", "LogLevel", "Empty", False, False, 0),
]


def varint(n):
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def frame(number, flags, fds, message, payload):
    data = message.SerializeToString(deterministic=True)
    header = struct.pack("<4sHBBIIQ", b"RKND", number, flags, fds, 0x01020300 + number, len(data),
                         len(payload))
    return header + data + payload


def sequence(message):
    """The message twice, as payloads that are lists have them."""
    data = message.SerializeToString(deterministic=True)
    return 2 * (varint(len(data)) + data)


def main():
    p = load_messages()
    s = samples(p)
    payload = b"payload!"
    lines = ["# NAME KIND FRAME. Written by make.py; read by test_protocol_bytes.c.",
             f"ERROR error {frame(48, REPLY | ERROR, 0, s['Error'], b'').hex()}"]
    for number, name, request, reply, payload_up, payload_down, fds in TYPES:
        data = frame(number, 0, fds, s[request], payload if payload_up else b"")
        lines.append(f"{name} request {data.hex()}")
        if reply:
            data = frame(number, REPLY, 0, s[reply], payload if payload_down else b"")
            lines.append(f"{name} reply {data.hex()}")
    for name in ("TensorIo", "Layer", "CustomNode", "CustomAttribute", "CoreStats",
                 "ClientStats", "ModelStats", "LogLine",
                 "TraceEvent", "Clock", "Limit", "Setting", "Sensor", "StoredModel"):
        lines.append(f"{name} sequence {sequence(s[name]).hex()}")
    (HERE / "frames.txt").write_text("\n".join(lines) + "\n")


main()
