// Journals of board-test: what has not ended there is told, whatever else there is, and an end ends
// it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/board/journal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool it)
{
    if (!it)
        abort();
}

// With an end of `key` behind the text, it is none of what is left.
static void check_end(const char *text, const char *key, size_t left)
{
    char *longer;
    must(asprintf(&longer, "%s\nend x %s\n", text, key) > 0);
    json_t *rest = journal_read(longer);
    must(rest && json_object_size(rest) == left - 1 && !json_object_get(rest, key));
    json_decref(rest);
    free(longer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = strndup((const char *)data, size);
    struct journal j = {.fd = -1, .boot = "b1", .past = text ? journal_read(text) : NULL};
    json_t *boot, *words = json_array();
    const char *key;
    size_t told = 0;
    must(text && j.past && words);
    json_object_foreach(j.past, key, boot)
    {
        char target[64] = "", probe[64] = "";
        must(sscanf(key, "%63[^ ] %63[^ ]", target, probe) == 2 && json_is_string(boot));
        must(journal_past(&j, target, probe) ==
             (strcmp(json_string_value(boot), "b1") == 0 ? JOURNAL_CUT : JOURNAL_REBOOTED));
        journal_tell(&j, target, words);
        must(json_array_size(words) > told);
        told = json_array_size(words);
        check_end(text, key, json_object_size(j.past));
    }
    json_decref(words);
    json_decref(j.past);
    free(text);
    return 0;
}
