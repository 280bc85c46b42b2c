// A main() for fuzz targets that are built without libFuzzer: feeds each file given, and each file
// of the folders given, to the target once.
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
__attribute__((weak)) int LLVMFuzzerInitialize(int *argc, char ***argv);

static _Noreturn void fail(const char *path)
{
    fprintf(stderr, "%s: %s\n", path, strerror(errno));
    exit(1);
}

// The copy is exactly as long as the file, so that sanitizers see reads past its end.
static void replay_file(const char *path, size_t size)
{
    cleanup(free_p) uint8_t *data = malloc(size ? size : 1);
    cleanup(fclose_p) FILE *f = fopen(path, "rb");
    if (!data || !f || fread(data, 1, size, f) != size)
        fail(path);
    LLVMFuzzerTestOneInput(data, size);
}

// Returns how many files were fed.
static unsigned replay(const char *path)
{
    struct stat st;
    if (stat(path, &st) < 0)
        fail(path);
    if (!S_ISDIR(st.st_mode)) {
        replay_file(path, (size_t)st.st_size);
        return 1;
    }
    unsigned n = 0;
    DIR *folder = opendir(path);
    if (!folder)
        fail(path);
    for (struct dirent *entry; (entry = readdir(folder));) {
        cleanup(free_p) char *inside = NULL;
        if (entry->d_name[0] == '.')
            continue;
        if (asprintf(&inside, "%s/%s", path, entry->d_name) < 0)
            fail(path);
        n += replay(inside);
    }
    closedir(folder);
    return n;
}

int main(int argc, char **argv)
{
    unsigned n = 0;
    if (LLVMFuzzerInitialize)
        LLVMFuzzerInitialize(&argc, &argv);
    for (int i = 1; i < argc; i++)
        n += replay(argv[i]);
    printf("%u files replayed\n", n);
    return n > 0 ? 0 : 1;
}
