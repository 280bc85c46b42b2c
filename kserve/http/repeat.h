// Of a connection's last request what the next one is held against: clients ask again and again
// with the same head and the same JSON, and other tensors behind it. What is the same byte for byte
// need not be understood once more.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kserve/http/body.h"
#include "kserve/http/head.h"

#define REPEAT_HEAD_ROOM 1024 // bytes of a head; who says more is read each time
#define REPEAT_PATH_ROOM 256

// All zero: none.
struct repeat {
    size_t head;    // bytes; 0: the next request is to be read whatever it is
    size_t body;    // bytes
    int64_t header; // of these JSON
    enum packing accepted;
    char path[REPEAT_PATH_ROOM]; // decoded
    char text[REPEAT_HEAD_ROOM];
};

/// Notes a head before it is read, which changes it. Not more than a copy: repeat_keep() says
/// whether it counts.
void repeat_note(struct repeat *r, const char *head, size_t n);

/// The request of `n` bytes of head, with this body, has been answered as was wanted. Kept is one
/// whose connection stays, and that has come in one piece, in HTTP/1.1, with its JSON's size.
void repeat_keep(struct repeat *r, size_t n, const struct http_head *h, const struct body *b);

/// Whether what has come is one such request and nothing else.
bool repeat_is(const struct repeat *r, const struct talk *t);
