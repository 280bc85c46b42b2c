// ONNX's own tests of operators (Debian: libonnx-testdata). Those of onnx_passes.txt must pass;
// every other one must be refused with words, or its failure be known there too.
//
//     test_onnx_nodes           compares with the list
//     test_onnx_nodes --list    prints the list as it is now; --why: and why the others do not pass
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "onnx_case.h"

#define ROOT  "/usr/share/libonnx-testdata/data"
#define NAMES 4096

static const char *const groups[] = {"node", "pytorch-converted", "pytorch-operator", "simple"};

static char *passes[NAMES];
static size_t n_passes;

static bool must_pass(const char *name)
{
    for (size_t i = 0; i < n_passes; i++)
        if (strcmp(passes[i], name) == 0)
            return true;
    return false;
}

static bool read_passes(void)
{
    char line[256];
    cleanup(fclose_p) FILE *f = fopen(ONNX_PASSES, "r");
    while (f && n_passes < NAMES && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        if (line[0] && line[0] != '#')
            passes[n_passes++] = strdup(line);
    }
    return f != NULL;
}

static int is_test(const struct dirent *d)
{
    return d->d_name[0] != '.';
}

// Bad: a case of the list that does not pass, or wrong numbers.
static bool run_case(struct npu_device *device, const char *name, const char *mode, size_t *passed)
{
    char folder[512];
    struct error e = {0};
    snprintf(folder, sizeof folder, ROOT "/%s", name);
    enum onnx_result result = onnx_case_run(device, folder, &e);
    *passed += result == ONNX_PASSED;
    if (mode && result == ONNX_PASSED)
        printf("%s\n", name);
    if (mode && result != ONNX_PASSED && strcmp(mode, "--why") == 0)
        printf("# %s %s: %s\n", result == ONNX_WRONG ? "WRONG" : "refused", name, e.text);
    bool lost = result != ONNX_PASSED && must_pass(name);
    bool bad = result == ONNX_WRONG || lost || (result == ONNX_REFUSED && !e.text[0]);
    if (bad && !mode)
        fprintf(stderr, "%s: %s\n", name, e.text[0] ? e.text : "refused without words");
    return bad;
}

static bool run_group(struct npu_device *device, const char *group, const char *mode, size_t *n,
                      size_t *passed)
{
    struct dirent **list;
    char name[512], folder[512];
    bool bad = false;
    snprintf(folder, sizeof folder, ROOT "/%s", group);
    int count = scandir(folder, &list, is_test, alphasort);
    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof name, "%s/%s", group, list[i]->d_name);
        bad = run_case(device, name, mode, passed) || bad;
        free(list[i]);
    }
    if (count >= 0)
        free(list);
    *n += count > 0 ? (size_t)count : 0;
    return bad;
}

int main(int argc, char **argv)
{
    struct npu_device *device;
    struct error e;
    size_t n = 0, passed = 0;
    bool bad = false;
    const char *mode = argc > 1 ? argv[1] : NULL;
    if (npu_backend.device_open("", &device, &e) < 0 || (!mode && !read_passes()))
        return 1;
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        bad = run_group(device, groups[i], mode, &n, &passed) || bad;
    npu_backend.device_free(device);
    if (!n) {
        printf("skipped: " ROOT " is not there (Debian: libonnx-testdata)\n");
        return 77;
    }
    fprintf(stderr, "%zu of %zu pass, %zu must\n", passed, n, n_passes);
    for (size_t i = 0; i < n_passes; i++)
        free(passes[i]);
    return bad && !mode;
}
