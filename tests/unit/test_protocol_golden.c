// Every message, encoded and decoded, against bytes that Google's protobuf wrote (golden/make.py).
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "protocol/message.h"

#define SHA                                                                                        \
    {                                                                                              \
        0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xab, 0xac, 0xad, 0xae,  \
            0xaf, 0xb0, 0xb1, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6, 0xb7, 0xb8, 0xb9, 0xba, 0xbb, 0xbc,    \
            0xbd, 0xbe, 0xbf                                                                       \
    }
#define SECRET                                                                                     \
    {                                                                                              \
        16,                                                                                        \
        {                                                                                          \
            16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31                         \
        }                                                                                          \
    }
#define DEVICE                                                                                     \
    {                                                                                              \
        "rk3588", "sim", "rt 2.3.2", "drv 0.9.8", 3, 958464, true, UINT64_C(1) << 41, 93           \
    }
#define FORM                                                                                       \
    {                                                                                              \
        4200, 3, 1, true, true                                                                     \
    }
#define ATTR                                                                                       \
    {                                                                                              \
        "in", 4, {1, 300, 2, 7}, 4200, 8400, 9600, 8, 320, -14, 0.0078125f, 4, 1, 2                \
    }

// The samples of make.py, each named after its message.
static const struct error error = {-6, "node “conv1”: no weights"};
static const rknnd_Empty Empty;
static const rknnd_Ping Ping = {UINT64_MAX};
static const rknnd_Cancel Cancel = {UINT32_MAX};
static const rknnd_Goodbye Goodbye = {"shutting down"};
static const rknnd_Hello Hello = {.version_min = 1,
                                  .version_max = 2,
                                  .features = UINT64_C(1) << 63,
                                  .software = "librknnrt 0.1.0",
                                  .program = "digits[42]",
                                  .session = 77,
                                  .session_secret = SECRET};
static const rknnd_Device Device = DEVICE;
static const rknnd_HelloReply HelloReply = {.version = 1,
                                            .features = 5,
                                            .software = "rknnd 0.1.0",
                                            .has_device = true,
                                            .device = DEVICE,
                                            .has_limits = true,
                                            .limits = {.message_size = 8192,
                                                       .payload_size = UINT64_C(1) << 30,
                                                       .model_size = UINT64_C(1) << 33,
                                                       .chunk_size = 1 << 20,
                                                       .requests = 64,
                                                       .heartbeat_ms = 2000,
                                                       .peer_timeout_ms = 6000,
                                                       .contexts = 256},
                                            .session = 78,
                                            .session_secret = SECRET,
                                            .buffers = "dma_heap system"};
static const rknnd_ServerStatus ServerStatus = {.uptime_ms = UINT64_C(1) << 40,
                                                .connections = 2,
                                                .sessions = 3,
                                                .contexts = 4,
                                                .models = 5,
                                                .workers = 6,
                                                .uploads = 7,
                                                .upload_bytes = UINT64_C(1) << 33,
                                                .cached_bytes = 9,
                                                .model_bytes = 10,
                                                .buffer_bytes = 11,
                                                .jobs_waiting = 12,
                                                .jobs_running = 13,
                                                .jobs_done = 14,
                                                .jobs_failed = 15,
                                                .jobs_retried = 16,
                                                .worker_deaths = 17,
                                                .isolation = "process",
                                                .memory_bytes = 81,
                                                .sram_free = 82};
static const rknnd_StatsReply StatsReply = {UINT64_C(1) << 44, 1, 57, 58};
static const rknnd_CoreStats CoreStats = {UINT64_C(1) << 45};
static const rknnd_ClientStats ClientStats = {.client = UINT64_C(1) << 46,
                                              .program = "digits[42]",
                                              .origin = "unix, pid 42, uid 7",
                                              .user = "alice",
                                              .connections = 59,
                                              .contexts = 60,
                                              .waiting = 61,
                                              .running = 62,
                                              .done = 63,
                                              .failed = 64,
                                              .core_us = UINT64_C(1) << 47,
                                              .queue_us = 65,
                                              .user_bytes = UINT64_C(1) << 48};
static const rknnd_ModelStats ModelStats = {.name = "c.rknn",
                                            .contexts = 66,
                                            .jobs = 67,
                                            .run_us = UINT64_C(1) << 49,
                                            .memory_size = UINT64_C(1) << 50,
                                            .worker = 68,
                                            .deaths = 69};
static const rknnd_ClientKill ClientKill = {70};
static const rknnd_Log Log = {UINT64_C(1) << 52, 83, true};
static const rknnd_LogReply LogReply = {UINT64_C(1) << 53, 84, UINT64_C(1) << 54, 3};
static const rknnd_LogLine LogLine = {UINT64_C(1) << 55, 2, "model a.rknn: “gone”"};
static const rknnd_LogLevel LogLevel = {4};
static const rknnd_Trace Trace = {UINT64_C(1) << 56};
static const rknnd_TraceReply TraceReply = {UINT64_C(1) << 57, 85, UINT64_C(1) << 58, 86};
static const rknnd_TraceEvent TraceEvent = {10, UINT64_C(1) << 59, 87, UINT64_C(1) << 60, 88,
                                            5,  "lprnet.rknn"};
static const rknnd_ClocksReply ClocksReply = {89};
static const rknnd_Clock Clock = {"cpu0-3", "CPU", UINT64_C(1) << 42, UINT64_C(1) << 43,
                                  "ondemand"};
static const rknnd_ModelOffer ModelOffer = {
    .sha256 = SHA, .size = UINT64_C(3) << 30, .name = "yolo.rknn"};
static const rknnd_ModelOfferReply ModelOfferReply = {.held = true, .offset = UINT64_C(1) << 32};
static const rknnd_ModelChunk ModelChunk = {.sha256 = SHA, .offset = (UINT64_C(1) << 32) + 1};
static const rknnd_ModelChunkReply ModelChunkReply = {.received = UINT64_C(1) << 34,
                                                      .complete = true};
static const rknnd_ModelDescribe ModelDescribe = {.sha256 = SHA, .options = "shape x=1x2"};
static const rknnd_ContextOpen ContextOpen = {
    .sha256 = SHA, .flags = 0x108, .options = "shape y=3"};
static const rknnd_ContextDup ContextDup = {.context = UINT64_C(1) << 35};
static const rknnd_ContextInfo ContextInfo = {.context = 21,
                                              .n_inputs = 1,
                                              .n_outputs = 2,
                                              .weight_size = UINT64_C(1) << 36,
                                              .internal_size = 22,
                                              .memory_size = 23,
                                              .sram_total = 24,
                                              .sram_free = 25,
                                              .core_limit = 7,
                                              .batch = 26,
                                              .custom_string = "made for 猫",
                                              .n_custom = 57,
                                              .n_rows = 60,
                                              .native_attrs = true,
                                              .no_custom = true,
                                              .estimate_chip = "rk3576",
                                              .estimate_assumed = true,
                                              .n_unestimated = 94};
static const rknnd_ContextClose ContextClose = {.context = 27};
static const rknnd_Infer Infer = {
    .context = 28,
    .core_mask = 5,
    .timeout_ms = 1000,
    .collect_perf = true,
    .no_outputs = true,
    .inputs_count = 2,
    .inputs = {FORM, {.size = UINT64_C(1) << 32, .type = 10, .layout = 3}},
    .custom_nodes = {3, {5, 0, 0x80}},
    .row = 61,
    .writes_count = 1,
    .writes = {{77, UINT64_C(1) << 51, 78}},
    .outputs_back_count = 2,
    .outputs_back = {79, 300},
    .output_limit = UINT64_C(1) << 44,
    .batch_cores = 80};
static const rknnd_InferReply InferReply = {.run_us = UINT64_C(1) << 37,
                                            .queue_us = 29,
                                            .attempts = 2,
                                            .has_call = true,
                                            .call = {58, 59},
                                            .core_mask = 81,
                                            .estimate_ns = UINT64_C(1) << 61};
static const rknnd_Profile Profile = {.context = 30};
static const rknnd_ProfileReply ProfileReply = {.n_layers = 31, .run_us = 32};
static const rknnd_Layer Layer = {.name = "Conv:conv1",
                                  .op = "ConvRelu",
                                  .type = "INT8",
                                  .target = "NPU",
                                  .input_shapes = "(1,3,224,224)",
                                  .output_shapes = "(1,16,112,112)",
                                  .time_us = 33,
                                  .ddr_cycles = 34,
                                  .npu_cycles = 35,
                                  .total_cycles = 36,
                                  .macs = UINT64_C(1) << 38,
                                  .read_bytes = 37,
                                  .write_bytes = 38,
                                  .core_mask = 39,
                                  .mac_cycles = 1ull << 40,
                                  .core_work_count = 3,
                                  .core_work = {48, 0, 1ull << 36},
                                  .n_tasks = 82,
                                  .estimate_ns = UINT64_C(1) << 62};
static const rknnd_Dump Dump = {
    .has_run = true,
    .run = {.context = 49, .core_mask = 7, .timeout_ms = 50, .inputs_count = 1, .inputs = {FORM}},
    .only = "conv*_out",
    .replace = true};
static const rknnd_DumpReply DumpReply = {.index = 51,
                                          .wanted = true,
                                          .has_tensor = true,
                                          .tensor = ATTR,
                                          .node = "Conv:conv2",
                                          .op = "ConvClip",
                                          .offset = UINT64_C(1) << 42,
                                          .size = 52,
                                          .n_tensors = 53,
                                          .has_call = true,
                                          .call = {60, 61}};
static const rknnd_DumpNext DumpNext = {UINT32_MAX - 1};
static const rknnd_CustomList CustomList = {(UINT64_C(1) << 44) + 62};
static const rknnd_CustomListReply CustomListReply = {63};
static const rknnd_CustomDone CustomDone = {UINT32_MAX - 2, 64, -5, "compute() said so"};
static const rknnd_CustomNode CustomNode = {"cstRelu:act1", "cstRelu", true, 65, 66, 67};
static const rknnd_CustomAttribute CustomAttribute = {"alpha", 8, 68, 544};
static const rknnd_TensorIo TensorIo = {
    .has_logical = true,
    .logical = ATTR,
    .has_native = true,
    .native = {.name = "n", .dims_count = 1, .dims = {1}, .zp = INT32_MIN, .scale = -1.5f},
    .has_native_nhwc = true,
    .native_nhwc = {.name = "h", .type = 1},
    .has_preprocess = true,
    .preprocess = {.mean_count = 2,
                   .mean = {0.5f, -2},
                   .std_count = 2,
                   .std = {4, 8},
                   .order_count = 2,
                   .order = {1, 0}},
    .shrinks = true,
    .device_converts = true};
static const rknnd_WorkerStart WorkerStart = {"null", "64:64", "/plugins", 5};
static const rknnd_WorkerLoad WorkerLoad = {UINT64_C(1) << 39, "a.rknn", "shape a=1"};
static const rknnd_WorkerDescribe WorkerDescribe = {40, "b.rknn", "shape b=2"};
static const rknnd_WorkerContext WorkerContext = {41};
static const rknnd_WorkerBuffer WorkerBuffer = {42, 43, 44};
static const rknnd_WorkerRun WorkerRun = {
    .context = 45,
    .buffer = 46,
    .core_mask = 3,
    .collect_perf = true,
    .inputs_count = 2,
    .inputs = {{64, true, FORM}, {.has_form = true, .form = {.pass_through = true}}},
    .output_offsets_count = 3,
    .output_offsets = {0, 128, UINT64_C(1) << 41},
    .custom_nodes = {1, {0x81}},
    .custom_inputs = 69,
    .custom_outputs = UINT64_C(1) << 45,
    .row = 62,
    .divide_batch = true};
static const rknnd_WorkerDump WorkerDump = {.has_run = true,
                                            .replace = true,
                                            .run = {.context = 54,
                                                    .buffer = 55,
                                                    .core_mask = 1,
                                                    .inputs_count = 1,
                                                    .inputs = {{192, true, FORM}}},
                                            .only = "*",
                                            .window = UINT64_C(1) << 43};
static const rknnd_WorkerNext WorkerNext = {56, true};
static const rknnd_MemoryCreate MemoryCreate = {UINT64_C(1) << 44, 3};
static const rknnd_MemoryInfo MemoryInfo = {UINT64_C(1) << 45, 57};
static const rknnd_MemoryFree MemoryFree = {58};
static const rknnd_ContextBind ContextBind = {.context = 59,
                                              .output = true,
                                              .index = 60,
                                              .memory = 61,
                                              .offset = UINT64_C(1) << 46,
                                              .type = 4,
                                              .layout = 1,
                                              .w_stride = 62,
                                              .h_stride = 63,
                                              .pass_through = true,
                                              .row = 80};
static const rknnd_ContextBindReply ContextBindReply = {UINT64_C(1) << 47};
static const rknnd_ContextInternal ContextInternal = {64, 65, 66};
static const rknnd_WorkerMemory WorkerMemory = {67, UINT64_C(1) << 48};
static const rknnd_WorkerBind WorkerBind = {.context = 68,
                                            .output = true,
                                            .index = 69,
                                            .memory = 70,
                                            .offset = 71,
                                            .size = UINT64_C(1) << 49,
                                            .type = 5,
                                            .layout = 2,
                                            .w_stride = 72,
                                            .h_stride = 73,
                                            .c2 = 16,
                                            .pass_through = true,
                                            .stored = true};
static const rknnd_WorkerInternal WorkerInternal = {74, 75, 76, UINT64_C(1) << 50};

struct golden {
    uint8_t data[4096];
    size_t size;
};

// The line of frames.txt that starts with these two words; false if there is none.
static bool find_golden(const char *name, const char *kind, struct golden *ret)
{
    char line_name[64], line_kind[16], hex[2 * sizeof ret->data + 1];
    cleanup(fclose_p) FILE *f = fopen(GOLDEN_FRAMES, "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "#%*[^\n]"), 0);
    while (fscanf(f, "%63s %15s %8192s", line_name, line_kind, hex) == 3) {
        if (strcmp(line_name, name) != 0 || strcmp(line_kind, kind) != 0)
            continue;
        for (ret->size = 0; hex[2 * ret->size]; ret->size++)
            assert_int_equal(sscanf(hex + 2 * ret->size, "%2hhx", &ret->data[ret->size]), 1);
        return true;
    }
    return false;
}

static struct golden golden(const char *name, const char *kind)
{
    struct golden g;
    if (!find_golden(name, kind, &g))
        fail_msg("no golden bytes for %s %s: add it to golden/make.py", name, kind);
    return g;
}

// Sends a frame into memory and compares.
static void expect_sent(struct frame_out *frame, struct golden g)
{
    struct frame_queue q;
    struct iovec iov[4];
    const int *fds;
    int n_fds;
    size_t at = 0;
    frame_queue_init(&q);
    frame_queue_push(&q, frame);
    int n = frame_queue_peek(&q, iov, 4, &fds, &n_fds);
    for (int i = 0; i < n; i++) {
        assert_true(at + iov[i].iov_len <= g.size);
        assert_memory_equal(g.data + at, iov[i].iov_base, iov[i].iov_len);
        at += iov[i].iov_len;
    }
    assert_int_equal(at, g.size);
    frame_queue_done(&q);
}

static void check_encoding(const struct frame_header *h, const void *sample, bool payload,
                           struct golden g)
{
    struct iovec segments[2] = {{"pay", 3}, {"load!", 5}};
    struct frame_out *frame = message_frame(h->type, h->flags, h->id, message_fields(h), sample,
                                            segments, payload ? 2 : 0, NULL, NULL);
    assert_non_null(frame);
    for (; frame->n_fds < h->n_fds; frame->n_fds++)
        frame->fds[frame->n_fds] = dup(STDERR_FILENO);
    expect_sent(frame, g);
}

// What the encoder made is the golden bytes, so a decoded message that encodes to them is equal.
static void check_decoding(const struct frame_header *h, bool payload, struct golden g)
{
    union message_any m;
    struct frame_reader r;
    uint8_t text[8], *space, again[FRAME_MESSAGE_MAX], *end = again;
    frame_reader_init(&r, payload ? 8 : 0);
    for (; r.n_fds < h->n_fds; r.n_fds++)
        r.fds[r.n_fds] = dup(STDERR_FILENO);
    assert_true(frame_reader_space(&r, (void **)&space) >= g.size);
    memcpy(space, g.data, g.size);
    frame_reader_fill(&r, g.size);
    assert_int_equal(frame_reader_next(&r, NULL), FRAME_MESSAGE);
    assert_int_equal(r.header.type, h->type);
    assert_int_equal(r.header.flags, h->flags);
    assert_int_equal(r.header.id, h->id);
    assert_int_equal(r.header.n_fds, h->n_fds);
    struct bytes message = frame_reader_message(&r);
    memset(&m, 0xa5, sizeof m);
    assert_int_equal(message_decode(message_fields(&r.header), message, &m, NULL), 0);
    assert_true(message_delimited_put(message_fields(h), &m, &end, again + sizeof again));
    assert_true((size_t)(end - again) > message.size);
    assert_memory_equal(end - message.size, message.data, message.size);
    if (payload) {
        frame_reader_payload_into(&r, &(struct iovec){text, 8}, 1);
        assert_int_equal(frame_reader_next(&r, NULL), FRAME_PAYLOAD);
        assert_memory_equal(text, "payload!", 8);
    }
    assert_int_equal(frame_reader_next(&r, NULL), FRAME_NEED_MORE);
    frame_reader_done(&r);
}

static void check(uint16_t type, const char *name, uint8_t flags, const void *sample, bool payload)
{
    struct golden g = golden(name, flags ? "reply" : "request");
    struct frame_header h = {.type = type, .flags = flags, .id = 0x01020300u + type};
    if (type == MESSAGE_WORKER_BUFFER && !flags)
        h.n_fds = 2;
    if ((type == MESSAGE_WORKER_START || type == MESSAGE_WORKER_LOAD ||
         type == MESSAGE_WORKER_DESCRIBE || type == MESSAGE_WORKER_MEMORY ||
         type == MESSAGE_MEMORY_IMPORT) &&
        !flags)
        h.n_fds = 1;
    check_encoding(&h, sample, payload, g);
    check_decoding(&h, payload, g);
}

static void test_every_message(void **state)
{
    (void)state;
#define X(number, name, request, reply, request_payload, reply_payload)                            \
    check(number, #name, 0, &request, request_payload);                                            \
    if (number != MESSAGE_CANCEL && number != MESSAGE_GOODBYE && number != MESSAGE_DUMP_NEXT &&    \
        number != MESSAGE_CUSTOM_DONE)                                                             \
        check(number, #name, FRAME_REPLY, &reply, reply_payload);
    MESSAGE_LIST(X)
#undef X
}

static void test_error(void **state)
{
    (void)state;
    struct golden g = golden("ERROR", "error");
    struct frame_header h = {
        .type = MESSAGE_INFER, .flags = FRAME_REPLY | FRAME_ERROR, .id = 0x01020330};
    expect_sent(message_error_frame(MESSAGE_INFER, h.id, &error), g);
    check_decoding(&h, false, g);
}

static void check_sequence(const char *name, const pb_msgdesc_t *fields, const void *sample,
                           void *room)
{
    struct golden g = golden(name, "sequence");
    struct bytes rest = {g.data, g.size};
    uint8_t encoded[sizeof g.data], *at = encoded, *end = encoded + sizeof encoded;
    assert_int_equal(message_delimited_size(fields, sample) * 2, g.size);
    assert_true(message_delimited_put(fields, sample, &at, end));
    assert_int_equal(message_delimited_take(fields, &rest, room, NULL), 0);
    assert_int_equal(rest.size * 2, g.size);
    assert_true(message_delimited_put(fields, room, &at, end));
    assert_int_equal(at - encoded, g.size);
    assert_memory_equal(encoded, g.data, g.size);
    assert_int_equal(message_delimited_take(fields, &rest, room, NULL), 0);
    assert_int_equal(rest.size, 0);
}

static void test_sequences(void **state)
{
    (void)state;
    rknnd_TensorIo io;
    rknnd_Layer layer;
    rknnd_CustomNode node;
    rknnd_CustomAttribute attribute;
    rknnd_CoreStats core;
    rknnd_ClientStats client;
    rknnd_LogLine line;
    rknnd_TraceEvent event;
    rknnd_Clock a_clock;
    rknnd_ModelStats model;
    check_sequence("TensorIo", rknnd_TensorIo_fields, &TensorIo, &io);
    check_sequence("Layer", rknnd_Layer_fields, &Layer, &layer);
    check_sequence("CustomNode", rknnd_CustomNode_fields, &CustomNode, &node);
    check_sequence("CustomAttribute", rknnd_CustomAttribute_fields, &CustomAttribute, &attribute);
    check_sequence("CoreStats", rknnd_CoreStats_fields, &CoreStats, &core);
    check_sequence("ClientStats", rknnd_ClientStats_fields, &ClientStats, &client);
    check_sequence("LogLine", rknnd_LogLine_fields, &LogLine, &line);
    check_sequence("TraceEvent", rknnd_TraceEvent_fields, &TraceEvent, &event);
    check_sequence("Clock", rknnd_Clock_fields, &Clock, &a_clock);
    check_sequence("ModelStats", rknnd_ModelStats_fields, &ModelStats, &model);
}

// The layout of PROTOCOL.md, byte by byte.
static void test_header(void **state)
{
    (void)state;
    static const uint8_t bytes[FRAME_HEADER_SIZE] = {
        'R',  'K',  'N',  'D',  0x22, 0x11, 0x03, 0x02, 0x66, 0x55, 0x44, 0x33,
        0x01, 0x20, 0x00, 0x00, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11};
    struct frame_header h = {.type = 0x1122,
                             .flags = FRAME_REPLY | FRAME_ERROR,
                             .n_fds = 2,
                             .id = 0x33445566,
                             .message_size = 0x2001,
                             .payload_size = 0x1122334455667788};
    uint8_t out[FRAME_HEADER_SIZE];
    frame_header_write(out, &h);
    assert_memory_equal(out, bytes, sizeof bytes);
    assert_int_equal(frame_header_read(bytes, &h, NULL), STATUS_FAIL); // a byte over the limit
    out[12] = 0x00;
    assert_int_equal(frame_header_read(out, &h, NULL), 0);
    assert_int_equal(h.type, 0x1122);
    assert_int_equal(h.flags, FRAME_REPLY | FRAME_ERROR);
    assert_int_equal(h.n_fds, 2);
    assert_int_equal(h.id, 0x33445566);
    assert_int_equal(h.message_size, 0x2000);
    assert_int_equal(h.payload_size, 0x1122334455667788);
}

static void test_flags(void **state)
{
    (void)state;
    struct frame_header h = {.type = MESSAGE_DUMP};
    uint8_t bytes[FRAME_HEADER_SIZE];
    for (unsigned flags = 0; flags < 256; flags++) {
        bool known = flags == 0 || flags == 1 || flags == 3 || flags == 5;
        h.flags = (uint8_t)flags;
        frame_header_write(bytes, &h);
        assert_int_equal(frame_header_read(bytes, &h, NULL), known ? 0 : STATUS_FAIL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_header),        cmocka_unit_test(test_flags),
        cmocka_unit_test(test_every_message), cmocka_unit_test(test_error),
        cmocka_unit_test(test_sequences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
