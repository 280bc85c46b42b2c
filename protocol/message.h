// Messages: the table of all of them, and their encoding. Defined in rknnd.proto.
#pragma once

#include <pb.h>

#include "base/bytes.h"
#include "base/error.h"
#include "protocol/frame.h"
#include "rknnd.pb.h"

#define PROTOCOL_VERSION_MIN 1
#define PROTOCOL_VERSION_MAX 1

#define HELLO_SECRET_SIZE 16
#define MODEL_SHA256_SIZE 32

// Feature bits of HELLO.
#define PROTOCOL_FEATURE_FDS                                                                       \
    UINT64_C(1) // file descriptors beside frames, both ways: Unix sockets only
#define PROTOCOL_FEATURE_SAMPLES UINT64_C(2) // rknnd_Infer.samples
#define PROTOCOL_FEATURES        (PROTOCOL_FEATURE_FDS | PROTOCOL_FEATURE_SAMPLES) // of this software

#define PROTOCOL_MOST_SAMPLES 1024 // of a run

// X(number, NAME, request message, reply message, request payload, reply payload). CANCEL,
// GOODBYE, DUMP_NEXT and CUSTOM_DONE are never answered. Numbers from 128 on are for workers only.
// clang-format off
#define MESSAGE_LIST(X)                                                     \
    X(1,   HELLO,             Hello,          HelloReply,      false, false) \
    X(2,   PING,              Ping,           Ping,            false, false) \
    X(3,   CANCEL,            Cancel,         Empty,           false, false) \
    X(4,   GOODBYE,           Goodbye,        Empty,           false, false) \
    X(5,   SERVER_STATUS,     Empty,          ServerStatus,    false, false) \
    X(6,   STATS,             Empty,          StatsReply,      false, true)  \
    X(7,   CLIENT_KILL,       ClientKill,     Empty,           false, false) \
    X(8,   LOG,               Log,            LogReply,        false, true)  \
    X(9,   LOG_LEVEL,         LogLevel,       Empty,           false, false) \
    X(10,  TRACE,             Trace,          TraceReply,      false, true)  \
    X(11,  CLOCKS,            Empty,          ClocksReply,     false, true)  \
    X(12,  LIMITS,            Empty,          LimitsReply,     false, true)  \
    X(13,  METRICS,           Empty,          Empty,           false, true)  \
    X(15,  SENSORS,           Empty,          SensorsReply,    false, true)  \
    X(16,  MODEL_OFFER,       ModelOffer,     ModelOfferReply, false, false) \
    X(17,  MODEL_CHUNK,       ModelChunk,     ModelChunkReply, true,  false) \
    X(18,  MODEL_DESCRIBE,    ModelDescribe,  Empty,           false, true)  \
    X(19,  MODEL_PUSH,        ModelPush,      StoredModel,     true,  false) \
    X(20,  MODEL_LIST,        Empty,          StoredListReply, false, true)  \
    X(21,  MODEL_FIND,        StoredName,     StoredModel,     false, false) \
    X(22,  MODEL_MANIFEST,    StoredName,     Empty,           false, true)  \
    X(23,  MODEL_REMOVE,      StoredName,     Empty,           false, false) \
    X(24,  MODEL_DEFAULT,     StoredName,     Empty,           false, false) \
    X(25,  MODEL_PULL,        ModelPull,      Empty,           false, true)  \
    X(32,  CONTEXT_OPEN,      ContextOpen,    ContextInfo,     false, true)  \
    X(33,  CONTEXT_DUP,       ContextDup,     ContextInfo,     false, true)  \
    X(34,  CONTEXT_CLOSE,     ContextClose,   Empty,           false, false) \
    X(35,  CONTEXT_BIND,      ContextBind,    ContextBindReply, false, false) \
    X(36,  CONTEXT_INTERNAL,  ContextInternal, Empty,          false, false) \
    X(48,  INFER,             Infer,          InferReply,      true,  true)  \
    X(49,  PROFILE,           Profile,        ProfileReply,    false, true)  \
    X(50,  DUMP,              Dump,           DumpReply,       true,  true)  \
    X(51,  DUMP_NEXT,         DumpNext,       Empty,           true,  false) \
    X(52,  CUSTOM_LIST,       CustomList,     CustomListReply, false, true)  \
    X(53,  CUSTOM_DONE,       CustomDone,     Empty,           true,  false) \
    X(64,  MEMORY_CREATE,     MemoryCreate,   MemoryInfo,      false, false) \
    X(65,  MEMORY_IMPORT,     Empty,          MemoryInfo,      false, false) \
    X(66,  MEMORY_FREE,       MemoryFree,     Empty,           false, false) \
    X(128, WORKER_START,      WorkerStart,    Device,          false, false) \
    X(129, WORKER_LOAD,       WorkerLoad,     ContextInfo,     false, true)  \
    X(130, WORKER_DESCRIBE,   WorkerDescribe, Empty,           false, true)  \
    X(131, WORKER_OPEN,       WorkerContext,  Empty,           false, false) \
    X(132, WORKER_CLOSE,      WorkerContext,  Empty,           false, false) \
    X(133, WORKER_BUFFER,     WorkerBuffer,   Empty,           false, false) \
    X(134, WORKER_BUFFER_FREE, WorkerBuffer,  Empty,           false, false) \
    X(135, WORKER_RUN,        WorkerRun,      InferReply,      false, false) \
    X(136, WORKER_PROFILE,    WorkerContext,  ProfileReply,    false, true)  \
    X(137, WORKER_DUMP,       WorkerDump,     DumpReply,       false, false) \
    X(138, WORKER_NEXT,       WorkerNext,     Empty,           false, false) \
    X(139, WORKER_MEMORY,     WorkerMemory,   Empty,           false, false) \
    X(140, WORKER_MEMORY_FREE, WorkerMemory,  Empty,           false, false) \
    X(141, WORKER_BIND,       WorkerBind,     Empty,           false, false) \
    X(142, WORKER_INTERNAL,   WorkerInternal, Empty,           false, false) \
    X(143, WORKER_LOG_LEVEL,  LogLevel,       Empty,           false, false)
// clang-format on

enum message_type {
#define X(number, name, request, reply, request_payload, reply_payload) MESSAGE_##name = number,
    MESSAGE_LIST(X)
#undef X
};

// One message type.
struct message_row {
    uint16_t type;
    const char *name; // "INFER"
    const pb_msgdesc_t *request, *reply;
    bool request_payload, reply_payload; // a payload may be there
};

/// The row of a type, NULL when there is none.
const struct message_row *message_row(uint16_t type);

// Room for any message, to decode into.
union message_any {
    rknnd_Error error;
#define X(number, name, request, reply, request_payload, reply_payload)                            \
    rknnd_##request name##_request;                                                                \
    rknnd_##reply name##_reply;
    MESSAGE_LIST(X)
#undef X
};

/// What a frame's message is: Error, the row's reply or its request; NULL for an unknown type.
const pb_msgdesc_t *message_fields(const struct frame_header *h);

/// Decodes a message into `ret` (a struct that fits `fields`); every field is set.
int message_decode(const pb_msgdesc_t *fields, struct bytes b, void *ret, struct error *e);

/// A frame with an encoded message and a payload, as frame_out_new(). NULL: out of memory. The
/// message must fit its bounds (an assertion: it is ours).
struct frame_out *message_frame(uint16_t type, uint8_t flags, uint32_t id,
                                const pb_msgdesc_t *fields, const void *message,
                                const struct iovec *segments, int n_segments,
                                void (*release)(void *owner), void *owner);

/// The answer to a request that failed.
struct frame_out *message_error_frame(uint16_t type, uint32_t id, const struct error *e);

/// Fills *e from a decoded Error; the code is made a known one. Returns it.
int message_error_take(const rknnd_Error *m, struct error *e);

/// Copies text into a message's fixed field, cut to fit between two characters. The field is UTF-8,
/// as protobuf demands: each byte that is not becomes '?'.
#define message_set_text(field, text) message_copy_text((field), sizeof(field), (text))
void message_copy_text(char *field, size_t size, const char *text);

// ---- sequences: payloads that are a list of messages, each with its length in front ------------

/// Bytes that one message takes in a sequence.
size_t message_delimited_size(const pb_msgdesc_t *fields, const void *message);

/// Appends one message to *at (at most `end`); moves *at. False when it does not fit.
bool message_delimited_put(const pb_msgdesc_t *fields, const void *message, uint8_t **at,
                           const uint8_t *end);

/// Takes the next message from *rest; moves *rest.
int message_delimited_take(const pb_msgdesc_t *fields, struct bytes *rest, void *ret,
                           struct error *e);
