// Content codings of HTTP: gzip and deflate.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "kserve/memory.h"

enum packing { PACKING_NONE, PACKING_GZIP, PACKING_DEFLATE };

/// The coding of a body, by its Content-Encoding (NULL: none). STATUS_PARAM_INVALID: another one.
int packing_parse(const char *content_encoding, enum packing *ret, struct error *e);

/// What an Accept-Encoding (may be NULL) prefers of these.
enum packing packing_choose(const char *accept_encoding);
const char *packing_name(enum packing p);

struct packing_plain {
    uint8_t *bytes; // malloc'ed
    size_t size, room;
};

/// ret->room bytes of the share go over to the caller. STATUS_PARAM_INVALID: it is broken, or has
/// more than `max` bytes. STATUS_MALLOC_FAIL: there is no memory for it, or not of the share.
int packing_unpack(enum packing p, const uint8_t *data, size_t size, size_t max,
                   struct memory_share *share, struct packing_plain *ret, struct error *e);

/// The same of ret->room, which is ret->size. Waits for no memory: what is not packed may go as it
/// is. What it takes meanwhile is paid for, too.
int packing_pack(enum packing p, const void *data, size_t size, struct memory_share *share,
                 struct packing_plain *ret, struct error *e);
