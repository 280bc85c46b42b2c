// What a device has imported of programs' dma-bufs: each once, until the buffer goes.
#pragma once

#include <pthread.h>

#include "base/list.h"
#include "npu/buffer/buffer.h"
#include "npu/open/provider/provider.h"

// Of one device. Any thread.
struct imports {
    struct provider *provider;
    pthread_mutex_t lock;
    struct list all;
};

// A buffer that a job has had. It stays, with its memory, until imports_drop(): not while a job has
// the buffer.
struct import {
    struct list link;
    const struct npu_buffer *buffer;
    struct provider_memory *memory; // NULL: it was refused
    struct error why;               // then
};

void imports_init(struct imports *all, struct provider *provider);
void imports_done(struct imports *all); // after all contexts

/// Imports the buffer, unless it is known. What is refused is not tried again. NULL: no memory.
const struct import *imports_get(struct imports *all, const struct npu_buffer *b);

/// The buffer is about to go.
void imports_drop(struct imports *all, const struct npu_buffer *b);
