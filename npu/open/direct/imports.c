// A buffer is known by its address: whoever frees one says so first (npu_backend.buffer_gone).
#include "npu/open/direct/imports.h"

#include <stdlib.h>

void imports_init(struct imports *all, struct provider *provider)
{
    all->provider = provider;
    pthread_mutex_init(&all->lock, NULL);
    list_init(&all->all);
}

static void import_free(struct imports *all, struct import *i)
{
    list_remove(&i->link);
    if (i->memory)
        all->provider->ops->memory_free(all->provider, i->memory);
    free(i);
}

// With the device: no job is left that could have one of them.
void imports_done(struct imports *all)
{
    struct import *i;
    while ((i = list_first(&all->all, struct import, link)))
        import_free(all, i);
    pthread_mutex_destroy(&all->lock);
}

// A program has a handful of buffers at once, so a list will do.
static struct import *import_find(struct imports *all, const struct npu_buffer *b)
{
    struct import *i;
    list_for_each (i, &all->all, link)
        if (i->buffer == b)
            return i;
    return NULL;
}

// Under the lock, since the driver may give one buffer of two threads one handle. A refusal stays,
// too, for as long as the buffer: a driver that refuses one refuses it again.
static struct import *import_new(struct imports *all, const struct npu_buffer *b)
{
    struct import *i = calloc(1, sizeof *i);
    if (!i)
        return NULL;
    i->buffer = b;
    if (all->provider->ops->memory_import(all->provider, b, &i->memory, &i->why) < 0)
        i->memory = NULL;
    list_append(&all->all, &i->link);
    return i;
}

const struct import *imports_get(struct imports *all, const struct npu_buffer *b)
{
    pthread_mutex_lock(&all->lock);
    struct import *i = import_find(all, b);
    if (!i)
        i = import_new(all, b);
    pthread_mutex_unlock(&all->lock);
    return i;
}

void imports_drop(struct imports *all, const struct npu_buffer *b)
{
    pthread_mutex_lock(&all->lock);
    struct import *i = import_find(all, b);
    if (i)
        import_free(all, i);
    pthread_mutex_unlock(&all->lock);
}
