// A plugin that writes into its inputs, and into whatever else of its process has a program's data:
// pages that begin with PATTERN, found by trying all of them near the libraries, where mappings
// are. It says on standard error how many there are, and how many it could change.
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/integration/hostile/plugin.h"

#define PATTERN "QN@KHOLX" // of a program's input; each byte one less here than there
#define PAGE    4096u
#define BELOW   (UINT64_C(2) << 30) // bytes that are looked at
#define ABOVE   (UINT64_C(256) << 20)

// The kernel is asked: reading what cannot be read would be the end.
static bool is_readable(const int ends[2], const void *page)
{
    char byte;
    return write(ends[1], page, 1) == 1 && read(ends[0], &byte, 1) == 1;
}

static bool is_wanted(const char *page)
{
    for (size_t i = 0; i < sizeof PATTERN - 1; i++)
        if (page[i] != PATTERN[i] + 1)
            return false;
    return true;
}

static void scribble_everywhere(void)
{
    int ends[2];
    unsigned found = 0, changed = 0;
    uintptr_t here = (uintptr_t)&fprintf / PAGE * PAGE;
    if (pipe(ends) < 0)
        return;
    for (uintptr_t at = here - BELOW; at < here + ABOVE; at += PAGE) {
        char *page = (char *)at; // NOLINT(performance-no-int-to-ptr)
        if (!is_readable(ends, page) || !is_wanted(page))
            continue;
        found++;
        if (mprotect(page, PAGE, PROT_READ | PROT_WRITE) < 0)
            continue;
        memset(page, 'x', sizeof PATTERN - 1);
        changed++;
    }
    close(ends[0]);
    close(ends[1]);
    fprintf(stderr, "scribble: found %u, changed %u\n", found, changed);
}

static void *data(const rknn_custom_op_tensor *t)
{
    return (uint8_t *)t->mem.virt_addr + t->mem.offset;
}

// Outputs are zeros.
static int compute(rknn_custom_op_context *c, rknn_custom_op_tensor *inputs, uint32_t n_inputs,
                   rknn_custom_op_tensor *outputs, uint32_t n_outputs)
{
    (void)c;
    for (uint32_t i = 0; i < n_inputs; i++)
        memset(data(&inputs[i]), 0x3c, inputs[i].attr.n_elems * sizeof(float));
    for (uint32_t i = 0; i < n_outputs; i++)
        memset(data(&outputs[i]), 0, outputs[i].attr.n_elems * sizeof(float));
    scribble_everywhere();
    return 0;
}
