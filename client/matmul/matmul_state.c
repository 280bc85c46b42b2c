// What the context of a product owns: memories (references), scales, shapes.
#include "client/matmul/matmul_state.h"

#include <stdlib.h>

void matmul_free(struct matmul *m)
{
    if (!m)
        return;
    for (int i = 0; i < 3; i++)
        mem_put(m->memory[i].mem);
    free((void *)m->scales.data);
    free(m->shapes);
    free(m);
}

void matmul_take_scales(struct matmul *m, struct bytes scales)
{
    free((void *)m->scales.data);
    m->scales = scales;
    matmul_touch_b(m);
}
