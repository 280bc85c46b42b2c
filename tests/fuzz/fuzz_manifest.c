// Fuzzes manifests of stored models: as they are read from a disk, and, in inputs that begin with
// "W", as they are written from labels (up to a byte 0) and a backend's description (what follows).
#include "server/shelf/manifest.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// What is written can be read, and says the same.
static void write_and_read(struct bytes all)
{
    struct manifest m = {.size = 5, .file = "a.rknn", .owner = "alice"}, again;
    const uint8_t *end = memchr(all.data, 0, all.size);
    size_t n = end ? (size_t)(end - all.data) : all.size;
    struct bytes labels = {all.data, n}, description = {(const uint8_t *)"{}", 2};
    char *text;
    if (end)
        description = (struct bytes){end + 1, all.size - n - 1};
    if (manifest_write(&m, labels, description, &text, NULL) < 0)
        return;
    if (manifest_read((struct bytes){(const uint8_t *)text, strlen(text)}, &again, NULL) < 0 ||
        again.n_labels != m.n_labels || again.batch != m.batch || strcmp(again.chip, m.chip) != 0)
        abort();
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct manifest m;
    struct bytes all = {data, size};
    if (size > 0 && data[0] == 'W')
        write_and_read((struct bytes){data + 1, size - 1});
    else
        manifest_read(all, &m, NULL);
    return 0;
}
