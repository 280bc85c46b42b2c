// A payload that is a list of messages, each with its length in front, and grows as they are put.
#pragma once

#include "protocol/message.h"

struct delimited {
    uint8_t *data; // malloc'ed
    size_t size, room;
};

int delimited_put(struct delimited *q, const pb_msgdesc_t *fields, const void *message,
                  struct error *e);
