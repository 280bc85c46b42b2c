// ONNX models with weights in other files, joined to one: any model file, beside a file "data".
#include <fcntl.h>
#include <stdlib.h>

#include "base/fd.h"
#include "client/model/bundle.h"

#define ENOUGH (64u << 10) // bytes that are read of what comes out

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char name[] = "/tmp/fuzz-bundle-XXXXXX";
static int fd = -1;

static void remove_folder(void)
{
    unlinkat(fd, "data", 0);
    rmdir(name);
}

// A folder with one file of 64 bytes, made once.
static int folder(void)
{
    char bytes[64] = "weights";
    if (fd >= 0)
        return fd;
    if (!mkdtemp(name) || (fd = open(name, O_PATH | O_DIRECTORY | O_CLOEXEC)) < 0)
        abort();
    int file = openat(fd, "data", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || write(file, bytes, sizeof bytes) != sizeof bytes)
        abort();
    fd_close(file);
    atexit(remove_folder);
    return fd;
}

static void read_all(const struct bundle *b)
{
    static uint8_t buffer[1000];
    struct error e;
    for (uint64_t at = 0; at < bundle_size(b) && at < ENOUGH; at += sizeof buffer) {
        uint64_t left = bundle_size(b) - at;
        size_t n = left < sizeof buffer ? (size_t)left : sizeof buffer;
        if (bundle_read(b, at, n, buffer, &e) < 0)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bundle *b = NULL;
    struct error e;
    cleanup(fd_close_p) int model = fd_memory("model", size + 1, &e);
    if (model < 0 || pwrite(model, data, size, 0) != (ssize_t)size)
        return 0;
    if (bundle_open(model, size, folder(), &b, &e) == 0 && b)
        read_all(b);
    bundle_free(b);
    return 0;
}
