// Bodies with one flag: refused with words, or of a form that another reader, written for this
// test alone, understands in the same way. The first byte says which form is asked for.
#include <stdlib.h>
#include <string.h>

#include "kserve/request/json_flag.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
    if (!ok)
        abort();
}

struct text {
    const char *at, *end;
};

// yajl takes two spaces more than there are.
static bool take(struct text *t, const char *word)
{
    while (t->at < t->end && memchr(" \t\r\n\v\f", *t->at, 6))
        t->at++;
    size_t n = strlen(word);
    if ((size_t)(t->end - t->at) < n || memcmp(t->at, word, n) != 0)
        return false;
    t->at += n;
    return true;
}

// {"flag": true}, once; {} is none.
static bool take_object(struct text *t, bool *ret)
{
    if (!take(t, "{"))
        return false;
    if (take(t, "}"))
        return true;
    if (!take(t, "\"flag\"") || !take(t, ":"))
        return false;
    if (take(t, "true"))
        *ret = true;
    else if (take(t, "false"))
        *ret = false;
    else
        return false;
    return take(t, "}");
}

// What has no escapes, which this reader does not know.
static bool read_plainly(struct text t, bool outer, bool *ret)
{
    bool good = !outer
                    ? take_object(&t, ret)
                    : take(&t, "{") && (take(&t, "}") || (take(&t, "\"outer\"") && take(&t, ":") &&
                                                          take_object(&t, ret) && take(&t, "}")));
    take(&t, "");
    return good && t.at == t.end;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || memchr(data, '\\', size) || memchr(data, '/', size) || memchr(data, '*', size))
        return 0; // escapes, and what some take for comments
    bool outer = data[0] & 1, start = data[0] & 2, got = start, expected = start;
    struct text t = {(const char *)data + 1, (const char *)data + size};
    struct error e = {0};
    int r = json_flag_read(t.at, size - 1, outer ? "outer" : NULL, "flag", &got, &e);
    if (r < 0)
        check(r == e.code && e.text[0] && got == start);
    check((r == 0) == read_plainly(t, outer, &expected));
    check(r < 0 || got == expected);
    return 0;
}
