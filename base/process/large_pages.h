// Memory in pages of 2 MB, where the kernel gives out such (transparent huge pages): what is read
// all over in each run is found with few entries of the TLB then, and does not get into its own way
// in caches that go by physical addresses.
#pragma once

#include <stdint.h>
#include <sys/mman.h>

#include "base/bytes.h"

#define LARGE_PAGE ((size_t)2 << 20)

/// Asks for whole large pages within memory that nobody has written to yet. What lies in parts of
/// one stays as it is, so that no memory is taken that was not asked for. It is a wish: nothing
/// tells whether the kernel grants it.
static inline void large_pages_ask(void *memory, size_t size)
{
    uintptr_t begin = align_up((uintptr_t)memory, LARGE_PAGE);
    uintptr_t end = ((uintptr_t)memory + size) / LARGE_PAGE * LARGE_PAGE;
    if (begin < end)
        (void)madvise((void *)begin, end - begin, MADV_HUGEPAGE);
}
