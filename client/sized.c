// Structs that begin with their size (struct_size), so that programs and this library may have
// different versions of rknnd.h: structs only grow, at their ends.
//
//     theirs smaller    only its first part is taken or given; options beyond it count as 0
//     theirs larger     what is unknown here must be 0 (sized_take), or becomes 0 (sized_give)
#include "client/sized.h"

#include <stdlib.h>
#include <string.h>

static int sized_check(uint32_t struct_size, struct error *e)
{
    if (struct_size >= sizeof struct_size)
        return 0;
    return error_set(e, STATUS_PARAM_INVALID, "struct_size %u is not set to sizeof", struct_size);
}

// Their struct_size stays as they set it. memcpy() and not members: theirs may be smaller than our
// type.
int sized_give(void *theirs, const void *ours, size_t size, struct error *e)
{
    uint32_t room;
    memcpy(&room, theirs, sizeof room);
    int r = sized_check(room, e);
    if (r < 0)
        return r;
    size_t n = room < size ? room : size;
    memcpy((char *)theirs + sizeof room, (const char *)ours + sizeof room, n - sizeof room);
    memset((char *)theirs + n, 0, room - n);
    return 0;
}

// An option that is set but not known here is refused: ignoring it would do something else than
// asked.
int sized_take(void *ours, size_t size, const void *theirs, struct error *e)
{
    uint32_t given, known = (uint32_t)size;
    memcpy(&given, theirs, sizeof given);
    int r = sized_check(given, e);
    for (size_t i = size; i < given && r == 0; i++)
        if (((const char *)theirs)[i])
            r = error_set(e, STATUS_PARAM_INVALID,
                          "an option at byte %zu is set, which came with a later librknnrt.so than "
                          "this one (%s)",
                          i, RKNND_VERSION);
    if (r < 0)
        return r;
    memset(ours, 0, size);
    memcpy(ours, theirs, given < size ? given : size);
    memcpy(ours, &known, sizeof known);
    return 0;
}

// Writes the size into each struct of the array.
rknnd_list sized_list(void *items, size_t n, size_t stride)
{
    uint32_t size = (uint32_t)stride;
    for (size_t i = 0; i < n; i++)
        memcpy((char *)items + i * stride, &size, sizeof size);
    return (rknnd_list){.struct_size = sizeof(rknnd_list),
                        .n = (uint32_t)n,
                        .stride = (uint32_t)stride,
                        .items = items};
}

rknnd_list *sized_list_new(size_t n, size_t stride, size_t extra, void **ret_extra)
{
    rknnd_list *list = calloc(1, sizeof *list + n * stride + extra);
    if (!list)
        return NULL;
    *list = sized_list(list + 1, n, stride);
    if (ret_extra)
        *ret_extra = (char *)(list + 1) + n * stride;
    return list;
}
