// The client library's tunable numbers: time limits, sizes and counts.
#pragma once

#define LIMIT_CONNECT_MS       5000   // per address of a TCP server
#define LIMIT_RELAY_MS         50     // between attempts to reach a relay that is starting
#define LIMIT_HELLO_MS         5000   // for a server's first answer
#define LIMIT_HELLO_STEP_MS    1000   // of it, at most, is lost while the program is stopped
#define LIMIT_START_MS         60000  // for a private daemon's first answer: it has to start
#define LIMIT_SILENCE_MS       600000 // of a private daemon; its end shows at once anyway
#define LIMIT_RELAY_END_MS     1000   // in which a relay without programs releases its board
#define LIMIT_HEARTBEAT_MIN_MS 10     // a server that wants them more often is refused
#define LIMIT_CHUNKS_IN_FLIGHT 8      // unanswered parts of a model
#define LIMIT_UPLOAD_ATTEMPTS  3      // connections in a row on which an upload makes no progress
#define LIMIT_RUNS             2      // of one context, unfinished or with outputs to fetch
#define LIMIT_SHAPE_SETS       512    // RKNN_MAX_DYNAMIC_SHAPE_NUM
#define LIMIT_LIST_BYTES       (4u << 20) // a list of tensors or of layers
#define LIMIT_STATS_BYTES      (64u << 20)
#define LIMIT_TEXT_BYTES       (256u << 20) // a model's description
#define LIMIT_CHUNK_BYTES      (4u << 20)   // one part of a model
