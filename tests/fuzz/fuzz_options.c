// Fuzzes rknnd's configuration file, as it is read at the start and again later.
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "server/config/options.h"
#include "server/config/options_parse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool it)
{
    if (!it)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[40];
    char *argv[] = {"rknnd", "--config", path, NULL};
    struct options o, later;
    struct options_names changed, kept;
    struct error e = {0};
    int file = memfd_create("rknnd.conf", MFD_CLOEXEC);
    must(file >= 0 && write(file, data, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    options_init(&o);
    int r = options_parse(&o, 3, argv, &e);
    must(r <= 0 && (r == 0 || (e.code < 0 && *e.text)));
    if (r == 0) {
        // What has not changed counts as such, whatever it is.
        must(options_parse_again(&o, &later, &e) == 0);
        options_update(&o, &later, &changed, &kept);
        must(!*changed.text && !*kept.text);
        options_done(&later);
        // All is taken back.
        must(ftruncate(file, 0) == 0 && pwrite(file, "#", 1, 0) == 1);
        must(options_parse_again(&o, &later, &e) == 0);
        options_update(&o, &later, &changed, &kept);
        options_done(&later);
    }
    options_done(&o);
    close(file);
    return 0;
}
