// A slot of a table is read, changes nothing that is computed, or holds the one value that is
// known: else the file is refused, as what it says may count. One row for each that is known; the
// reasons are those of slots that nobody reads. A slot that says nothing (0, an empty vector) needs
// no row, as converters write many of them.
#include "npu/model/rknn/rknn_slots.h"

#define PLAIN 1 // container 6
#define BLOBS 2 // containers 1 and 2
#define LITE  4
#define ALL   7

static const struct slot {
    uint8_t table, containers, first, last;
    uint32_t only;    // the one value that may be there; 0: any
    const char *free; // why it changes nothing; NULL: it is read
} known[] = {
    {RKNN_ROOT, ALL, 0, 0, 0, "the version of these tables, which the container's follows"},
    {RKNN_ROOT, PLAIN | BLOBS, 1, 3, 0, NULL},
    {RKNN_ROOT, BLOBS, 4, 4, 0, NULL},
    {RKNN_ROOT, PLAIN | BLOBS, 6, 9, 0, NULL},
    {RKNN_ROOT, PLAIN | BLOBS, 10, 10, 0, "the framework's number, whose name is slot 9"},
    {RKNN_ROOT, PLAIN | BLOBS, 11, 18, 0, NULL},
    {RKNN_ROOT, PLAIN, 19, 21, 0, NULL},
    {RKNN_ROOT, LITE, 1, 3, 0, NULL},
    {RKNN_ROOT, LITE, 4, 4, 0, "the compiler's version, which slot 5 says in words"},
    {RKNN_ROOT, LITE, 5, 7, 0, NULL},

    {RKNN_SIZES, ALL, 0, 1, 0, NULL},
    {RKNN_SIZES, ALL, 2, 2, 0, "bytes of registers and tasks"},

    {RKNN_GRAPH, ALL, 0, 4, 0, NULL},
    {RKNN_GRAPH, LITE, 5, 5, 0, "where addresses go: the commands hold them already"},
    {RKNN_GRAPH, LITE, 6, 7, 0, "registers for inputs that lie otherwise, or are converted there"},
    {RKNN_GRAPH, PLAIN, 7, 7, 0, NULL},
    {RKNN_GRAPH, PLAIN, 8, 9, 0, "registers for inputs that lie otherwise, or are converted there"},
    {RKNN_GRAPH, PLAIN, 10, 10, 0, "the first tasks of each program; one core's come first"},
    {RKNN_GRAPH, PLAIN, 11, 11, 0, "a list for the arena (deconv_depthwise computes without)"},
    {RKNN_GRAPH, PLAIN, 12, 12, 0, "which tasks complete an output"},

    {RKNN_PREPROCESS, ALL, 0, 2, 0, NULL},

    {RKNN_TENSOR, ALL, 0, 5, 0, NULL},
    {RKNN_TENSOR, PLAIN | BLOBS, 6, 7, 0, "words for what slots 10 and 0 say"},
    {RKNN_TENSOR, PLAIN | BLOBS, 8, 15, 0, NULL},
    {RKNN_TENSOR, PLAIN | BLOBS, 16, 17, 0, "of compressed weights, which slot 15 tells"},
    {RKNN_TENSOR, PLAIN | BLOBS, 18, 18, 0, NULL},
    {RKNN_TENSOR, PLAIN | BLOBS, 19, 19, 4,
     "how many lines are rounded up to, as registers say too"},
    {RKNN_TENSOR, PLAIN | BLOBS, 20, 20, 0, NULL},
    {RKNN_TENSOR, LITE, 6, 9, 0, NULL},
    {RKNN_TENSOR, LITE, 10, 10, 0, "the tensor's own number"},
    {RKNN_TENSOR, LITE, 11, 11, 4, "how many lines are rounded up to, as registers say too"},
    {RKNN_TENSOR, LITE, 12, 12, 0, NULL},

    {RKNN_NODE, ALL, 1, 5, 0, NULL},
    {RKNN_NODE, BLOBS, 6, 6, 0, NULL},
    {RKNN_NODE, PLAIN | BLOBS, 7, 9, 0, NULL},
    {RKNN_NODE, PLAIN, 10, 11, 0, NULL},
    {RKNN_NODE, PLAIN, 12, 12, 0, "bytes that each core writes"},
    {RKNN_NODE, PLAIN, 13, 13, 1, "that its work can be divided among cores"},
    {RKNN_NODE, LITE, 6, 8, 0, NULL},
    {RKNN_NODE, LITE, 9, 10, 0, "numbers of tasks, whose records name their nodes"},
    {RKNN_NODE, LITE, 12, 12, 0, "4 or 8 in all nodes of a file alike"},

    {RKNN_TASK, BLOBS, 0, 1, 0, NULL},
    {RKNN_TASK, BLOBS, 2, 2, 0,
     "a record of how the task was made; its registers say what it does"},
    {RKNN_TASK, BLOBS, 3, 3, 0, "the units that it starts, which its registers enable"},
    {RKNN_TASK, BLOBS, 4, 4, 0, "the interrupts that it waits for"},
    {RKNN_TASK, BLOBS, 5, 5, 0, NULL},
    {RKNN_TASK, BLOBS, 6, 7, 0, "cores that it is for: those of several are passed over"},
    {RKNN_TASK, BLOBS, 8, 8, 0, NULL},
    {RKNN_TASK, BLOBS, 9, 9, 0, "which of several cores' programs it is of"},

    {RKNN_BUFFER, ALL, 0, 0, 0, NULL},
};

static unsigned container_bit(const struct rknn_container *c)
{
    return c->kind == RKNN_LITE ? LITE : c->blobs ? BLOBS : PLAIN;
}

// Slots that may hold anything, as bits.
static uint32_t any_value(unsigned container, enum rknn_table which)
{
    uint32_t bits = 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        for (unsigned slot = known[i].first; slot <= known[i].last; slot++)
            if (known[i].table == which && (known[i].containers & container) && !known[i].only)
                bits |= UINT32_C(1) << slot;
    return bits;
}

static bool is_the_value(unsigned container, enum rknn_table which, unsigned slot, uint32_t value)
{
    bool found = false;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        found = found || (known[i].table == which && (known[i].containers & container) &&
                          known[i].first == slot && known[i].only == value);
    return found;
}

int rknn_unknown_slot(const struct rknn_container *c, enum rknn_table which,
                      const struct fb_table *t, uint32_t *ret_value)
{
    unsigned container = container_bit(c);
    uint32_t any = any_value(container, which);
    for (unsigned slot = 0; slot < t->n_slots; slot++)
        if ((slot >= 32 || !(any >> slot & 1)) && fb_says(t, slot, ret_value) &&
            !is_the_value(container, which, slot, *ret_value))
            return (int)slot;
    return -1;
}

int rknn_check_slots(const struct rknn_container *c, enum rknn_table which,
                     const struct fb_table *t, const char *what, struct error *e)
{
    uint32_t value;
    int slot = rknn_unknown_slot(c, which, t, &value);
    if (slot < 0)
        return 0;
    return error_set(e, STATUS_MODEL_INVALID,
                     "%s: number %d of its table holds 0x%x, which is not understood: the file was "
                     "made by a converter that is newer than what is known here, or is damaged",
                     what, slot, value);
}
