// Tables of a hybrid quantization. What is taken is written again, and then says the same.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quant/hybrid/quant_table.h"

static void compare(const struct quant_table *a, const struct quant_table *b)
{
    if (a->n_layers != b->n_layers || a->n_tensors != b->n_tensors)
        abort();
    for (size_t i = 0; i < a->n_layers; i++)
        if (strcmp(a->layers[i].name, b->layers[i].name) != 0)
            abort();
    for (size_t i = 0; i < a->n_tensors; i++) {
        const struct quant_table_tensor *x = &a->tensors[i], *y = &b->tensors[i];
        if (strcmp(x->name, y->name) != 0 || x->symmetric != y->symmetric || x->min != y->min ||
            x->max != y->max || x->scale != y->scale || x->zp != y->zp)
            abort();
    }
}

static void write_and_read(const struct quant_table *t)
{
    char *text = NULL;
    size_t size = 0;
    struct quant_table again;
    FILE *file = open_memstream(&text, &size);
    if (!file)
        abort();
    quant_table_write(t, file);
    fclose(file);
    if (quant_table_parse(&again, text, size, NULL) < 0)
        abort();
    compare(t, &again);
    quant_table_done(&again);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error e;
    struct quant_table t;
    if (quant_table_parse(&t, (const char *)data, size, &e) == 0)
        write_and_read(&t);
    quant_table_done(&t);
    return 0;
}
