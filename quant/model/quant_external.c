// A weight in another file has external_data in place of elements: location (a path in the model's
// folder), offset and length. Copies of files are mapped, so that the weights of a large model need
// no memory of their own: pages are read when they are looked at, and given up when others need the
// memory. A mapping of the file itself would end the process where that becomes shorter meanwhile.
// Mappings are private, so elements may be changed in place.
#include "quant/model/quant_external.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "quant/model/quant_elements.h"
#include "quant/model/quant_nameless.h"

#define ALIGN     16 // as the pool's
#define MOST_DEEP 8  // graphs in nodes of graphs in nodes, as the executor takes them

struct quant_mapping {
    struct quant_mapping *next;
    const char *location;
    void *data;
    size_t size;
};

static const char *external_entry(const Quant__Tensor *t, const char *key)
{
    for (size_t i = 0; i < t->n_external_data; i++)
        if (strcmp(quant_text(t->external_data[i]->key), key) == 0)
            return quant_text(t->external_data[i]->value);
    return NULL;
}

// ---- files ----

// One part of a path after the other, so that none is a symbolic link. *at: behind the part.
static int external_open_part(int folder, const char **at)
{
    char name[256];
    size_t n = strcspn(*at, "/");
    bool last = !(*at)[n];
    if (!n || n >= sizeof name || (n == 2 && memcmp(*at, "..", 2) == 0)) {
        errno = n >= sizeof name ? ENAMETOOLONG : EXDEV;
        return -1;
    }
    memcpy(name, *at, n);
    name[n] = 0;
    *at += n + !last;
    // O_NONBLOCK: a pipe would wait for somebody who writes to it.
    return openat(folder, name,
                  O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | (last ? 0 : O_DIRECTORY));
}

static int external_open(const char *folder, const char *location)
{
    int fd = open(*folder ? folder : ".", O_RDONLY | O_CLOEXEC | O_DIRECTORY);
    const char *at = location;
    do {
        if (fd < 0)
            return -1;
        int in = external_open_part(fd, &at);
        int why = errno;
        fd_close(fd);
        errno = why;
        fd = in;
    } while (*at);
    return fd;
}

static int external_refuse(const Quant__Tensor *t, const char *folder, const char *location,
                           struct error *e)
{
    if (errno == EXDEV || errno == ELOOP)
        return error_set(e, STATUS_MODEL_INVALID,
                         "weight %s: its file \"%s\" is not in the model's folder, or a symbolic "
                         "link leads there",
                         quant_text(t->name), location);
    return error_set_errno(e, STATUS_MODEL_INVALID, errno, "weight %s: %s/%s", quant_text(t->name),
                           folder, location);
}

struct external {
    struct quant_pool *pool;
    struct quant_mapping **list;
    const char *folder;
    quant_external_visit *visit; // NULL: elements come from the files
    void *user;
};

// NULL: refused, or out of memory.
static struct quant_mapping *external_file(const struct external *x, const Quant__Tensor *t,
                                           struct error *e)
{
    const char *location = external_entry(t, "location");
    location = location ? location : "";
    for (struct quant_mapping *k = *x->list; k; k = k->next)
        if (strcmp(k->location, location) == 0)
            return k;
    struct quant_mapping *k = quant_pool_take(x->pool, 1, sizeof *k);
    cleanup(fd_close_p) int fd = external_open(x->folder, location);
    if (fd < 0) {
        external_refuse(t, x->folder, location, e);
        return NULL;
    }
    if (!k || !(k->location = quant_pool_text(x->pool, "%s", location))) {
        error_no_memory(e, "a file of weights", sizeof *k);
        return NULL;
    }
    if (quant_nameless_map(fd, &k->data, &k->size, e) < 0) {
        error_prefix(e, "weight %s: %s/%s", quant_text(t->name), x->folder, location);
        return NULL;
    }
    k->next = *x->list;
    *x->list = k;
    return k;
}

void quant_external_unmap(const struct quant_mapping *list)
{
    for (const struct quant_mapping *k = list; k; k = k->next)
        if (k->size)
            munmap(k->data, k->size);
}

bool quant_external_is_mapped(const struct quant_mapping *list, const void *data)
{
    uintptr_t at = (uintptr_t)data;
    bool is = false;
    for (const struct quant_mapping *k = list; k; k = k->next)
        is |= at >= (uintptr_t)k->data && at - (uintptr_t)k->data < k->size;
    return is;
}

// ---- weights ----

// A number of external_data; `otherwise` where there is none. False: it is no number.
static bool external_number(const Quant__Tensor *t, const char *key, uint64_t otherwise,
                            uint64_t *ret)
{
    const char *text = external_entry(t, key);
    char *end;
    *ret = otherwise;
    if (!text)
        return true;
    errno = 0;
    *ret = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end && errno == 0;
}

// *came becomes true where it has elements that lay in another file.
static int external_tensor(const struct external *x, Quant__Tensor *t, bool *came, struct error *e)
{
    if (t->data_location != QUANT_EXTERNAL)
        return 0;
    if (x->visit)
        return x->visit(x->user, quant_text(external_entry(t, "location")), e);
    uint64_t offset, length, size = quant_constant_count(t) * quant_constant_element(t->data_type);
    if (!external_number(t, "offset", 0, &offset) || !external_number(t, "length", size, &length))
        return error_set(e, STATUS_MODEL_INVALID,
                         "weight %s: its place in another file makes no sense",
                         quant_text(t->name));
    const struct quant_mapping *k = external_file(x, t, e);
    if (!k)
        return e->code;
    if (offset > k->size || length > k->size - offset)
        return error_set(e, STATUS_MODEL_INVALID, "weight %s: %s/%s ends before its elements",
                         quant_text(t->name), x->folder, k->location);
    uint8_t *data = (uint8_t *)k->data + (size_t)offset;
    const size_t n = (size_t)length; // both lie within what is mapped
    if (offset % ALIGN || !n) {
        uint8_t *own = quant_pool_take(x->pool, n, 1);
        if (!own)
            return error_no_memory(e, "a weight", n);
        data = n ? memcpy(own, data, n) : own;
    }
    t->raw_data = (ProtobufCBinaryData){.len = n, .data = data};
    t->has_raw_data = true;
    t->has_data_location = false;
    t->data_location = 0;
    t->n_external_data = 0;
    *came = true;
    return 0;
}

static int external_nested(const struct external *x, ProtobufCBinaryData *b, unsigned depth,
                           bool *came, struct error *e);

static int external_node(const struct external *x, const Quant__Node *n, unsigned depth, bool *came,
                         struct error *e)
{
    int r = 0;
    for (size_t i = 0; i < n->n_attribute && r == 0; i++) {
        Quant__Attribute *a = n->attribute[i];
        if (a->t)
            r = external_tensor(x, a->t, came, e);
        if (r == 0 && a->has_g)
            r = external_nested(x, &a->g, depth, came, e);
        for (size_t k = 0; k < a->n_graphs && r == 0; k++)
            r = external_nested(x, &a->graphs[k], depth, came, e);
    }
    return r;
}

static int external_graph(const struct external *x, const Quant__Graph *g, unsigned depth,
                          bool *came, struct error *e)
{
    int r = 0;
    for (size_t i = 0; i < g->n_initializer && r == 0; i++)
        r = external_tensor(x, g->initializer[i], came, e);
    for (size_t i = 0; i < g->n_node && r == 0; i++)
        r = external_node(x, g->node[i], depth, came, e);
    return r;
}

// A graph inside a node (If, Loop, Scan) stays bytes of its message, with the elements in them. One
// that has no external data does not have the word.
static int external_nested(const struct external *x, ProtobufCBinaryData *b, unsigned depth,
                           bool *came, struct error *e)
{
    static const char word[] = "location";
    ProtobufCAllocator allocator = quant_pool_for_proto(x->pool);
    bool inside = false;
    if (!b->len || !memmem(b->data, b->len, word, strlen(word)))
        return 0;
    if (depth == MOST_DEEP)
        return error_set(e, STATUS_MODEL_INVALID, "graphs lie in nodes more than %d deep",
                         MOST_DEEP);
    Quant__Graph *g = quant__graph__unpack(&allocator, b->len, b->data);
    if (!g)
        return error_set(e, STATUS_MODEL_INVALID,
                         "a graph inside a node is damaged, or there is no memory for it");
    int r = external_graph(x, g, depth + 1, &inside, e);
    if (r < 0 || !inside)
        return r;
    size_t size = quant__graph__get_packed_size(g);
    uint8_t *data = quant_pool_take(x->pool, size, 1);
    if (!data)
        return error_no_memory(e, "a graph inside a node", size);
    *b = (ProtobufCBinaryData){.len = quant__graph__pack(g, data), .data = data};
    *came = true;
    return 0;
}

// ---- bytes of several weights ----

static int external_order(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t)(*(Quant__Tensor *const *)a)->raw_data.data;
    uintptr_t y = (uintptr_t)(*(Quant__Tensor *const *)b)->raw_data.data;
    return (x > y) - (x < y);
}

static void external_put(const struct external *x, Quant__Tensor *t, Quant__Tensor **ret, size_t *n)
{
    if (!t || !quant_external_is_mapped(*x->list, t->raw_data.data))
        return;
    if (ret)
        ret[*n] = t;
    ++*n;
}

// Those of the graph, not of graphs inside its nodes, whose elements are copies. `ret` NULL: only
// how many.
static size_t external_mapped(const struct external *x, const Quant__Graph *g, Quant__Tensor **ret)
{
    size_t n = 0;
    for (size_t i = 0; i < g->n_initializer; i++)
        external_put(x, g->initializer[i], ret, &n);
    for (size_t i = 0; i < g->n_node; i++)
        for (size_t k = 0; k < g->node[i]->n_attribute; k++)
            external_put(x, g->node[i]->attribute[k]->t, ret, &n);
    return n;
}

// Exporters store equal weights once. Elements may be changed in place, so each gets its own.
static int external_part(const struct external *x, const Quant__Graph *g, struct error *e)
{
    size_t n = external_mapped(x, g, NULL);
    cleanup(free_p) Quant__Tensor **all = calloc(n + 1, sizeof *all);
    if (!all)
        return error_no_memory(e, "the weights", n);
    external_mapped(x, g, all);
    qsort(all, n, sizeof *all, external_order);
    const uint8_t *end = NULL;
    for (size_t i = 0; i < n; i++) {
        ProtobufCBinaryData *b = &all[i]->raw_data;
        if (b->data >= end) {
            end = b->data + b->len;
            continue;
        }
        uint8_t *own = quant_pool_take(x->pool, b->len, 1);
        if (!own)
            return error_no_memory(e, "a weight", b->len);
        b->data = memcpy(own, b->data, b->len);
    }
    return 0;
}

int quant_external_map(const Quant__Graph *g, struct quant_pool *pool, struct quant_mapping **list,
                       const char *folder, struct error *e)
{
    const struct external x = {.pool = pool, .list = list, .folder = folder};
    bool came = false;
    int r = external_graph(&x, g, 0, &came, e);
    return r < 0 ? r : external_part(&x, g, e);
}

int quant_external_each(const Quant__Graph *g, struct quant_pool *pool, quant_external_visit *visit,
                        void *user, struct error *e)
{
    const struct external x = {.pool = pool, .visit = visit, .user = user};
    bool came = false;
    return external_graph(&x, g, 0, &came, e);
}
