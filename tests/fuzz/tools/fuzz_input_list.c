// Lists of inputs: whatever the text, sets whose files have names, or words with the line.
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tools/input/input_list.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
    if (!ok)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input_list l = {0};
    struct error e = {0};
    size_t n = 0;
    int r = input_list_parse(&l, (const char *)data, size, "folder", &e);
    check(r == 0 || (r == e.code && e.text[0]));
    check(r < 0 || l.n > 0);
    // Sets come in the order of their lines, none of them is empty, and no name leaves its line.
    for (size_t i = 0; r == 0 && i < l.n; i++) {
        check(l.sets[i].n > 0 && l.lines[i] > (i ? l.lines[i - 1] : 0) && l.lines[i] <= size + 1);
        for (size_t k = 0; k < l.sets[i].n; k++, n++) {
            const char *path = l.sets[i].items[k];
            check(*path == '/' || strncmp(path, "folder/", 7) == 0);
            check(!strchr(path, '\n') && strlen(path) < size + 8);
        }
    }
    check(r < 0 || n == l.n_paths);
    input_list_done(&l);
    return 0;
}
