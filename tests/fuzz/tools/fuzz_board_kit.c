// Archives of board-test: whatever the bytes, a kit whose probes have a name and are judged, or
// words. The answer that is judged is the archive's own file answer.json.
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tools/board/judge.h"
#include "tools/format/json_get.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool it)
{
    if (!it)
        abort();
}

static bool is_one_of(const char *word, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(word, words[i]) == 0)
            return true;
    return false;
}

// A verdict is one of four, and says no more values than there are.
static void judge(const struct kit *k, json_t *probe, json_t *answer)
{
    static const char *const all[] = {"ok", "other", "wrong", "failed"};
    json_t *verdict = judge_answer(k, probe, answer);
    must(verdict && is_one_of(json_get_text(verdict, "is"), all, 4));
    const json_t *first = json_object_get(verdict, "first");
    json_int_t n = json_integer_value(json_object_get(verdict, "n"));
    must(!first || json_integer_value(json_object_get(first, "index")) < n);
    must(json_integer_value(json_object_get(verdict, "n_wrong")) <= n);
    json_decref(verdict);
}

static void judge_all(const struct kit *k)
{
    const struct kit_file *f = kit_find(k, "answer.json");
    json_t *answer = f ? json_loadb((const char *)f->data, f->size, 0, NULL) : NULL, *probe;
    size_t i;
    json_array_foreach(json_object_get(k->table, "probes"), i, probe)
    {
        must(*json_get_text(probe, "id") && kit_probe(k, json_get_text(probe, "id")));
        if (answer)
            judge(k, probe, answer);
    }
    json_decref(answer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    struct kit k;
    struct error e = {0};
    int fd = memfd_create("kit", MFD_CLOEXEC);
    must(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int r = kit_open_file(&k, path, &e);
    if (r == 0)
        judge_all(&k);
    else
        must(r == e.code && e.text[0]);
    kit_close(&k);
    close(fd);
    return 0;
}
