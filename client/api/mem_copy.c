// Memory that the server has only a copy of (no descriptors pass: TCP, USB, adb): what a run sends
// of it, and what comes back.
//
//     memory    what the program has now
//     shadow    what the server has, as far as known
//
// Both are compared by BLOCK. Equal blocks are skipped; of others the shadow is set to the memory,
// and the block is sent from the shadow.
//
// Sending from the shadow means that the server has what the shadow has, whatever the program
// writes meanwhile. The first `unsure` bytes are sent in any case. Adjacent changed blocks
// become one write.
#include "client/api/mem_copy.h"

#include <string.h>

#define BLOCK      4096u
#define MAX_WRITES (sizeof((rknnd_Infer){0}.writes) / sizeof(rknnd_InferWrite))

struct changes {
    rknnd_Infer *message;
    struct iovec *segments;
    int n;
    uint32_t input;
    unsigned limit; // of message->writes_count, for this input
};

static bool copy_same(const struct mem_home *h, const uint8_t *data, uint64_t at, size_t size)
{
    return at >= h->unsure && memcmp(h->shadow + at, data + at, size) == 0;
}

// Adds bytes [at, at + size) to what is sent. They extend the last write if they follow it, or if
// there are `limit` writes already; then the unchanged bytes between are sent, too.
static void copy_add(struct changes *c, const struct mem_home *h, uint64_t at, size_t size)
{
    rknnd_Infer *m = c->message;
    rknnd_InferWrite *last = m->writes_count ? &m->writes[m->writes_count - 1] : NULL;
    bool follows = last && last->input == c->input && last->offset + last->size == at;
    if (last && (follows || m->writes_count == c->limit)) {
        last->size = at + size - last->offset;
        c->segments[c->n - 1].iov_len = (size_t)last->size;
        return;
    }
    m->writes[m->writes_count++] =
        (rknnd_InferWrite){.input = c->input, .offset = at, .size = size};
    c->segments[c->n++] = (struct iovec){h->shadow + at, size};
}

// Compares a memory with its shadow, block by block, and collects what differs.
static void copy_collect(struct changes *c, struct mem_home *h, const uint8_t *data, uint64_t size)
{
    for (uint64_t at = 0; at < size; at += BLOCK) {
        size_t n = size - at < BLOCK ? (size_t)(size - at) : BLOCK;
        if (copy_same(h, data, at, n))
            continue;
        memcpy(h->shadow + at, data + at, n);
        copy_add(c, h, at, n);
    }
    if (size >= h->unsure)
        h->unsure = 0;
}

// Gets a memory ready for comparing. If another context sent changes last, they may still be on
// their way on its connection and overtake ours, so everything is sent again.
static int copy_prepare(struct context *c, const struct bound *b, const uint8_t **ret_data,
                        struct error *e)
{
    struct mem_home *h = b->home;
    uint8_t *data;
    int r = mem_data(b->mem, &data, e);
    if (r == 0)
        r = mem_before_copy(b->mem, e);
    if (r < 0)
        return r;
    if (!h->shadow) {
        h->shadow = malloc(b->mem->program.size);
        h->unsure = b->mem->program.size;
    }
    if (!h->shadow)
        return error_no_memory(e, "a copy of a memory", b->mem->program.size);
    if (h->writer && h->writer != c->handle.number)
        h->unsure = b->mem->program.size;
    *ret_data = data;
    return 0;
}

// The writes of a message are bounded, so each input gets an even part of what is left.
int mem_copy_changes(struct context *c, rknnd_Infer *m, struct iovec *segments, int *n,
                     struct error *e)
{
    uint32_t n_inputs = c->info.n_inputs;
    struct changes changes = {.message = m, .segments = segments, .n = *n};
    unsigned room = FRAME_MAX_SEGMENTS - n_inputs;
    room = room < MAX_WRITES ? room : MAX_WRITES;
    for (uint32_t i = 0; i < n_inputs; i++) {
        struct bound *b = mem_bound_copy(c, false, i);
        const uint8_t *data;
        if (!b)
            continue;
        if (m->writes_count == room)
            return error_set(e, STATUS_INPUT_INVALID, "more than %u inputs in copied memory", room);
        unsigned left = room - m->writes_count, inputs_left = n_inputs - i;
        changes.input = i;
        changes.limit = m->writes_count + (left + inputs_left - 1) / inputs_left;
        pthread_mutex_lock(&b->mem->lock);
        pb_size_t before = m->writes_count;
        int r = copy_prepare(c, b, &data, e);
        if (r == 0)
            copy_collect(&changes, b->home, data, b->size);
        if (m->writes_count > before)
            b->home->writer = c->handle.number;
        pthread_mutex_unlock(&b->mem->lock);
        if (r < 0)
            return r;
    }
    *n = changes.n;
    return 0;
}

void mem_copy_results(const struct context *c, rknnd_Infer *m)
{
    for (uint32_t i = 0; i < c->info.n_outputs; i++)
        if (mem_bound_copy(c, true, i))
            m->outputs_back[m->outputs_back_count++] = i;
}

// The output has been written into the memory by the answer: the server has the same, so the shadow
// gets it, and devices have to see it.
static void note_output(struct bound *b)
{
    pthread_mutex_lock(&b->mem->lock);
    if (b->home->shadow && b->mem->map)
        memcpy(b->home->shadow, b->mem->map + b->mem->offset, (size_t)b->size);
    mem_to_device(b->mem, NULL);
    pthread_mutex_unlock(&b->mem->lock);
}

// The run failed: whether the server has applied the writes is not known.
static void doubt_input(struct bound *b)
{
    pthread_mutex_lock(&b->mem->lock);
    b->home->unsure = b->mem->program.size;
    pthread_mutex_unlock(&b->mem->lock);
}

void mem_copy_ran(struct context *c, bool good)
{
    struct bound *b;
    for (uint32_t i = 0; i < c->info.n_outputs && good; i++)
        if ((b = mem_bound_copy(c, true, i)))
            note_output(b);
    for (uint32_t i = 0; i < c->info.n_inputs && !good; i++)
        if ((b = mem_bound_copy(c, false, i)))
            doubt_input(b);
}
