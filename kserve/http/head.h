// The head of a request (RFC 9112). What two programs on the way could read in two ways (11.2:
// request smuggling) is refused.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "kserve/http/packing.h"
#include "kserve/http/talk.h"

struct http_head {
    const char *method, *path; // the address without its query, decoded
    bool is_1_0, stays;        // whether the connection is to stay
    bool is_chunked;
    bool expects;                   // "100 Continue", before it sends a body
    int64_t length;                 // bytes of the body; -1: not told
    int64_t tensors;                // Inference-Header-Content-Length, or REQUEST_NO_HEADER
    enum packing packing, accepted; // of the body; of the answer
};

#define HEAD_TENSORS "Inference-Header-Content-Length"

/// How many bytes the head at the begin of `text` has, with the empty line behind it. 0: it is not
/// there yet; -1: it never will be.
ssize_t head_size(const char *text, size_t n);

/// Waits for one, which t->begin is then the begin of. Its size; 0: the peer has gone, or is to be
/// refused with the status in *ret_code.
size_t head_wait(struct talk *t, unsigned *ret_code);

/// Whether a line, without its end, is one of a header; it is changed.
bool head_is_field(char *line);

/// Reads a head of head_size() bytes, which is changed, and which *ret points into. 0, or the
/// status that the request is to be refused with, and words in `e`.
unsigned head_read(char *text, size_t n, struct http_head *ret, struct error *e);
