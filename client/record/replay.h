// A replay: what was recorded, and what it is now.
#pragma once

#include "client/link/payload.h"
#include "client/record/recording.h"
#include "rknnd.h"

#define REPLAY_TYPES 128 // message types of clients are below

// Handles that the recorded servers gave, and those of today.
struct handles {
    struct handle_pair {
        uint64_t recorded, now;
    } * pairs;
    size_t n, room;
};

// A model in the recording's file.
struct recorded_part {
    uint8_t sha256[MODEL_SHA256_SIZE];
    uint64_t offset, size;
};

struct replay_connection {
    struct list link;
    struct list requests; // unanswered in the recording so far
    uint32_t number;      // in it
    struct connection *connection;
};

struct replay_request {
    struct list link;
    uint32_t id; // in the recording
    bool raced;  // its context was closed before it was answered: by chance it is, or is refused
    struct request request;
    union message_any reply;
    struct payload payload;
};

struct replay {
    const char *uri, *path;
    struct recording recording;
    struct list connections;
    struct handles contexts, memories;
    struct recorded_part *models;
    size_t n_models, room_models;
    size_t *ahead; // offsets of frames that were taken before their turn
    size_t n_ahead, room_ahead;
    uint64_t n_of_type[REPLAY_TYPES]; // requests so far
    rknnd_replay_result result;
};

int handles_add(struct handles *h, uint64_t recorded, uint64_t now, struct error *e);

int models_add(struct replay *p, const struct recorded *f, struct error *e);
const struct recorded_part *models_find(const struct replay *p,
                                        const uint8_t sha256[MODEL_SHA256_SIZE]);

/// Puts today's handles into a request's message. 0, which is never one, for what is not known.
void replay_translate(const struct replay *p, uint16_t type, union message_any *m);
