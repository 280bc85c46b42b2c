// What the names in a recording stand for today: handles of contexts and memories, models by their
// hash.
#include <string.h>

#include "base/array.h"
#include "client/record/replay.h"

// Called with each answer that makes a handle.
int handles_add(struct handles *h, uint64_t recorded, uint64_t now, struct error *e)
{
    int r = array_reserve(h->pairs, h->room, h->n + 1, "handles", e);
    if (r == 0)
        h->pairs[h->n++] = (struct handle_pair){recorded, now};
    return r;
}

// The latest pair first: another server may have given the same number again. 0: not known.
static uint64_t now_of(const struct handles *h, uint64_t recorded)
{
    for (size_t i = h->n; i-- > 0;)
        if (h->pairs[i].recorded == recorded)
            return h->pairs[i].now;
    return 0;
}

// A model stays in the recording's file; only its place is noted.
int models_add(struct replay *p, const struct recorded *f, struct error *e)
{
    rknnd_ModelChunk m;
    int r = message_decode(rknnd_ModelChunk_fields, f->message, &m, e);
    if (r == 0)
        r = array_reserve(p->models, p->room_models, p->n_models + 1, "models", e);
    if (r < 0)
        return r;
    struct recorded_part *part = &p->models[p->n_models++];
    *part = (struct recorded_part){.offset = (uint64_t)(f->payload.data - p->recording.file.data),
                                   .size = f->payload.size};
    memcpy(part->sha256, m.sha256, sizeof m.sha256);
    return 0;
}

const struct recorded_part *models_find(const struct replay *p,
                                        const uint8_t sha256[MODEL_SHA256_SIZE])
{
    for (size_t i = 0; i < p->n_models; i++)
        if (memcmp(p->models[i].sha256, sha256, MODEL_SHA256_SIZE) == 0)
            return &p->models[i];
    return NULL;
}

// All requests that name a context or a memory.
void replay_translate(const struct replay *p, uint16_t type, union message_any *m)
{
    const struct handles *contexts = &p->contexts, *memories = &p->memories;
    switch (type) {
    case MESSAGE_CONTEXT_DUP:
        m->CONTEXT_DUP_request.context = now_of(contexts, m->CONTEXT_DUP_request.context);
        break;
    case MESSAGE_CONTEXT_CLOSE:
        m->CONTEXT_CLOSE_request.context = now_of(contexts, m->CONTEXT_CLOSE_request.context);
        break;
    case MESSAGE_CONTEXT_BIND:
        m->CONTEXT_BIND_request.context = now_of(contexts, m->CONTEXT_BIND_request.context);
        m->CONTEXT_BIND_request.memory = now_of(memories, m->CONTEXT_BIND_request.memory);
        break;
    case MESSAGE_CONTEXT_INTERNAL:
        m->CONTEXT_INTERNAL_request.context = now_of(contexts, m->CONTEXT_INTERNAL_request.context);
        m->CONTEXT_INTERNAL_request.memory = now_of(memories, m->CONTEXT_INTERNAL_request.memory);
        break;
    case MESSAGE_INFER:
        m->INFER_request.context = now_of(contexts, m->INFER_request.context);
        break;
    case MESSAGE_MEMORY_FREE:
        m->MEMORY_FREE_request.memory = now_of(memories, m->MEMORY_FREE_request.memory);
        break;
    default: // no handle in it
        break;
    }
}
