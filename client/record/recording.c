// Reading and writing the form of recordings; bytes only, little-endian.
//
//     file head   "RKNNDREC" (8)      version (4)   0 (4)
//     frame       connection (4)  0 (4)  time, us (8), then the frame as in the protocol
#include "client/record/recording.h"

#include <endian.h>
#include <string.h>

static void recording_put32(uint8_t *to, uint32_t value)
{
    value = htole32(value);
    memcpy(to, &value, sizeof value);
}

static uint32_t recording_get32(const uint8_t *from)
{
    uint32_t value;
    memcpy(&value, from, sizeof value);
    return le32toh(value);
}

static void recording_put64(uint8_t *to, uint64_t value)
{
    recording_put32(to, (uint32_t)value);
    recording_put32(to + 4, (uint32_t)(value >> 32));
}

static uint64_t recording_get64(const uint8_t *from)
{
    return recording_get32(from) | (uint64_t)recording_get32(from + 4) << 32;
}

void recording_write_file_head(uint8_t ret[RECORDING_HEAD_SIZE])
{
    memset(ret, 0, RECORDING_HEAD_SIZE);
    memcpy(ret, RECORDING_MAGIC, strlen(RECORDING_MAGIC));
    recording_put32(ret + 8, RECORDING_VERSION);
}

void recording_write_head(uint32_t connection, uint64_t time_us, uint8_t ret[RECORDING_HEAD_SIZE])
{
    memset(ret, 0, RECORDING_HEAD_SIZE);
    recording_put32(ret, connection);
    recording_put64(ret + 8, time_us);
}

int recording_open(struct recording *r, struct bytes file, struct error *e)
{
    if (file.size < RECORDING_HEAD_SIZE ||
        memcmp(file.data, RECORDING_MAGIC, strlen(RECORDING_MAGIC)) != 0)
        return error_set(e, STATUS_PARAM_INVALID, "the file is no recording of rknnd");
    uint32_t version = recording_get32(file.data + 8);
    if (version != RECORDING_VERSION)
        return error_set(e, STATUS_PARAM_INVALID, "a recording of version %u, known is %u", version,
                         RECORDING_VERSION);
    *r = (struct recording){.file = file, .at = RECORDING_HEAD_SIZE};
    return 0;
}

// The program was killed while it wrote: what is complete counts.
static int end_in_the_middle(struct recording *r)
{
    r->cut = r->at < r->file.size;
    r->at = r->file.size;
    return 0;
}

// Takes the next frame: 1, or 0 at the end, or a status. A recording may come from anywhere, so
// sizes are checked against what is left of it.
int recording_next(struct recording *r, struct recorded *ret, struct error *e)
{
    const uint8_t *from = r->file.data + r->at;
    size_t left = r->file.size - r->at;
    struct recorded f;
    if (left < RECORDING_HEAD_SIZE + FRAME_HEADER_SIZE)
        return end_in_the_middle(r);
    f.connection = recording_get32(from);
    f.time_us = recording_get64(from + 8);
    if (f.connection > RECORDING_MAX_CONNECTION)
        return error_set(e, STATUS_PARAM_INVALID, "connection %u at byte %zu", f.connection, r->at);
    int s = frame_header_read(from + RECORDING_HEAD_SIZE, &f.header, e);
    if (s < 0) {
        error_prefix(e, "at byte %zu", r->at);
        if (e)
            e->code = STATUS_PARAM_INVALID; // no peer's mistake, but the file's
        return STATUS_PARAM_INVALID;
    }
    from += RECORDING_HEAD_SIZE + FRAME_HEADER_SIZE;
    left -= RECORDING_HEAD_SIZE + FRAME_HEADER_SIZE;
    if (f.header.message_size > left || f.header.payload_size > left - f.header.message_size)
        return end_in_the_middle(r);
    f.message = (struct bytes){from, f.header.message_size};
    f.payload = (struct bytes){from + f.message.size, (size_t)f.header.payload_size};
    r->at = (size_t)(f.payload.data + f.payload.size - r->file.data);
    *ret = f;
    return 1;
}

// The messages that a replay needs; heartbeats, statistics and the like are left out.
bool recording_has(uint16_t type)
{
    switch (type) {
    case MESSAGE_GOODBYE:
    case MESSAGE_CONTEXT_OPEN:
    case MESSAGE_CONTEXT_DUP:
    case MESSAGE_CONTEXT_CLOSE:
    case MESSAGE_CONTEXT_BIND:
    case MESSAGE_CONTEXT_INTERNAL:
    case MESSAGE_INFER:
    case MESSAGE_CUSTOM_DONE:
    case MESSAGE_MEMORY_CREATE:
    case MESSAGE_MEMORY_FREE:
        return true;
    default:
        return false;
    }
}
