// The form of a recording (PROTOCOL.md, Recordings): what a program and its servers said to each
// other, as frames one after the other.
#pragma once

#include "protocol/message.h"

#define RECORDING_MAGIC          "RKNNDREC"
#define RECORDING_VERSION        1u
#define RECORDING_HEAD_SIZE      16 // of the file, and in front of each frame
#define RECORDING_MAX_CONNECTION 65536

// A frame of it. `message` and `payload` point into the file.
struct recorded {
    uint32_t connection; // counts from 1; 0: a model
    uint64_t time_us;    // since the recording began
    struct frame_header header;
    struct bytes message, payload;
};

struct recording {
    struct bytes file; // must stay
    size_t at;
    bool cut; // the file ends in the middle of a frame
};

/// The heads, as bytes.
void recording_write_file_head(uint8_t ret[RECORDING_HEAD_SIZE]);
void recording_write_head(uint32_t connection, uint64_t time_us, uint8_t ret[RECORDING_HEAD_SIZE]);

/// Checks that it is one.
int recording_open(struct recording *r, struct bytes file, struct error *e);

/// The next frame: 1; 0 at the end, also at that of a file that is cut off.
int recording_next(struct recording *r, struct recorded *ret, struct error *e);

/// Whether requests of this type, and their answers, are recorded: those that results depend on.
bool recording_has(uint16_t type);
