// The bodies that may be here have one or two keys and a boolean. They are checked as they are
// parsed, without a tree: every callback that this form has no place for refuses, so a key more, a
// number for the boolean or a second flag is an error and not ignored.
#include "kserve/request/json_flag.h"

#include <string.h>
#include <yajl/yajl_parse.h>

#include "kserve/request/json_memory.h"

struct reader {
    const char *text;
    size_t size;
    const char *outer, *flag;
    int inner;                // depth of the object that may have the flag
    int depth;                // open objects
    bool wanted;              // the last key is one that may be there
    bool had_outer, had_flag; // of two, some readers take the first and others the last
    bool value;               // as far as it has come
};

static int on_map(void *user)
{
    struct reader *r = user;
    bool good = r->depth == 0 || (r->depth < r->inner && r->wanted);
    r->depth++;
    r->wanted = false;
    return good;
}

static int on_end_map(void *user)
{
    struct reader *r = user;
    r->depth--;
    return 1;
}

static bool is(const char *expected, const unsigned char *key, size_t size)
{
    return strlen(expected) == size && memcmp(expected, key, size) == 0;
}

static int on_key(void *user, const unsigned char *key, size_t size)
{
    struct reader *r = user;
    if (r->depth == r->inner) {
        r->wanted = !r->had_flag && is(r->flag, key, size);
        r->had_flag = true;
    } else {
        r->wanted = !r->had_outer && is(r->outer, key, size);
        r->had_outer = true;
    }
    return r->wanted;
}

static int on_boolean(void *user, int value)
{
    struct reader *r = user;
    r->value = value;
    return r->depth > 0 && r->depth == r->inner && r->wanted;
}

static int refuse(void *user)
{
    (void)user;
    return 0;
}

static int refuse_text(void *user, const char *text, size_t size)
{
    (void)text, (void)size;
    return refuse(user);
}

static int refuse_string(void *user, const unsigned char *text, size_t size)
{
    (void)text, (void)size;
    return refuse(user);
}

// One without a function would be skipped.
static const yajl_callbacks callbacks = {
    .yajl_null = refuse,
    .yajl_boolean = on_boolean,
    .yajl_number = refuse_text,
    .yajl_string = refuse_string,
    .yajl_start_map = on_map,
    .yajl_map_key = on_key,
    .yajl_end_map = on_end_map,
    .yajl_start_array = refuse,
    .yajl_end_array = refuse,
};

static int parse(void *user, yajl_alloc_funcs *functions)
{
    struct reader *r = user;
    yajl_handle h = yajl_alloc(&callbacks, functions, r);
    bool good = yajl_parse(h, (const unsigned char *)r->text, r->size) == yajl_status_ok &&
                json_complete(h) == yajl_status_ok;
    yajl_free(h);
    return good ? 0 : STATUS_PARAM_INVALID;
}

int json_flag_read(const char *text, size_t size, const char *outer, const char *flag, bool *ret,
                   struct error *e)
{
    struct reader reader = {.text = text,
                            .size = size,
                            .outer = outer,
                            .flag = flag,
                            .inner = outer ? 2 : 1,
                            .value = *ret};
    int r = json_memory_run(parse, &reader, e);
    if (r == STATUS_PARAM_INVALID)
        return error_set(e, r, "the body is to be empty or {%s%s%s\"%s\": true or false%s}",
                         outer ? "\"" : "", outer ? outer : "", outer ? "\": {" : "", flag,
                         outer ? "}" : "");
    if (r == 0)
        *ret = reader.value;
    return r;
}
