// A manifest is read with the same strictness as a message of a client: somebody may have edited
// the file, or a newer rknnd may have written it. A member that is unknown, missing, there twice or
// of another kind makes the version unusable, with words that name the member; it is listed with
// them, and can be removed.
#include "server/shelf/manifest.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"

#define FORMAT 1

static inline void json_decref_pp(json_t **j)
{
    json_decref(*j);
}

// ---- writing ------------------------------------------------------------------------------------

static void put_hex(const uint8_t *bytes, size_t n, char *ret)
{
    for (size_t i = 0; i < n; i++)
        sprintf(ret + 2 * i, "%02x", bytes[i]);
}

static int labels_refused(size_t line, const char *why, struct error *e)
{
    return error_set(e, STATUS_PARAM_INVALID, "labels, line %zu: %s", line, why);
}

// An empty line is the name of a class, too; the one behind the last newline is none.
static int read_labels(struct bytes text, json_t *ret, struct error *e)
{
    const char *at = (const char *)text.data, *end = at + text.size;
    for (size_t line = 1; at < end; line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t n = (size_t)((stop ? stop : end) - at);
        if (n > 0 && at[n - 1] == '\r')
            n--;
        if (line > MANIFEST_MAX_LABELS)
            return labels_refused(line, "there are more than 65536", e);
        if (n > 1024)
            return labels_refused(line, "it has more than 1024 bytes", e);
        json_t *label = memchr(at, 0, n) ? NULL : json_stringn(at, n);
        if (!label)
            return labels_refused(line, "it is not UTF-8", e);
        if (json_array_append_new(ret, label) < 0)
            return error_no_memory(e, "labels", n);
        at = stop ? stop + 1 : end;
    }
    return 0;
}

// Of a tensor, what programs need to know before they open the model.
static json_t *shorten_tensor(const json_t *tensor)
{
    static const char *const keys[] = {"name", "type", "layout", "shape"};
    json_t *ret = json_object();
    for (size_t i = 0; ret && i < sizeof keys / sizeof *keys; i++) {
        json_t *value = json_object_get(tensor, keys[i]);
        if (value)
            json_object_set(ret, keys[i], value);
    }
    return ret;
}

static json_t *shorten_tensors(const json_t *description, const char *which)
{
    json_t *ret = json_array(), *tensor;
    size_t i;
    json_array_foreach(json_object_get(description, which), i, tensor)
        json_array_append_new(ret, shorten_tensor(tensor));
    return ret;
}

// The text comes out of the file, so people only get to see what is harmless.
static void take_chip(struct manifest *m, const json_t *description)
{
    const char *chip = json_string_value(json_object_get(description, "chip"));
    snprintf(m->chip, sizeof m->chip, "%s", chip ? chip : "");
    text_make_printable(m->chip);
}

// The first dimension of the first input, where that is a number.
static void take_batch(struct manifest *m, const json_t *inputs)
{
    const json_t *shape = json_object_get(json_array_get(inputs, 0), "shape");
    json_int_t n = json_integer_value(json_array_get(shape, 0));
    m->batch = n > 0 && n <= UINT32_MAX ? (uint32_t)n : 0;
}

static json_t *pack(const struct manifest *m, json_t *labels, json_t *inputs, json_t *outputs)
{
    char hex[2 * SHA256_SIZE + 1];
    put_hex(m->sha256, sizeof m->sha256, hex);
    return json_pack("{s:i, s:s, s:I, s:s, s:s, s:I, s:I, s:s, s:I, s:O, s:O, s:O}", "format",
                     FORMAT, "sha256", hex, "size", (json_int_t)m->size, "file", m->file, "owner",
                     m->owner, "time", (json_int_t)m->time_s, "order", (json_int_t)m->order, "chip",
                     m->chip, "batch", (json_int_t)m->batch, "labels", labels, "inputs", inputs,
                     "outputs", outputs);
}

// What is kept is small on purpose: all manifests are read when models are listed, and a name's
// labels or tensors must not make that slow for others.
int manifest_write(struct manifest *m, struct bytes labels, struct bytes description, char **ret,
                   struct error *e)
{
    json_error_t why;
    cleanup(json_decref_pp) json_t *said =
        json_loadb((const char *)description.data, description.size, 0, &why);
    cleanup(json_decref_pp) json_t *names = json_array();
    if (!said || !names)
        return error_set(e, STATUS_FAIL, "the backend describes the model in what is no JSON: %s",
                         why.text);
    int r = read_labels(labels, names, e);
    if (r < 0)
        return r;
    cleanup(json_decref_pp) json_t *inputs = shorten_tensors(said, "inputs");
    cleanup(json_decref_pp) json_t *outputs = shorten_tensors(said, "outputs");
    m->n_labels = (uint32_t)json_array_size(names);
    take_chip(m, said);
    take_batch(m, inputs);
    cleanup(json_decref_pp) json_t *all = pack(m, names, inputs, outputs);
    cleanup(free_p) char *text = all ? json_dumps(all, JSON_INDENT(1)) : NULL;
    if (!text)
        return error_no_memory(e, "a manifest", 0);
    if (strlen(text) > MANIFEST_MAX_SIZE)
        return error_set(e, STATUS_PARAM_INVALID,
                         "labels and tensors have %zu bytes in the manifest, at most %u are kept",
                         strlen(text), MANIFEST_MAX_SIZE);
    *ret = steal_ptr(text);
    return 0;
}

// ---- reading ------------------------------------------------------------------------------------

enum member_kind { MEMBER_NUMBER, MEMBER_SMALL, MEMBER_TEXT, MEMBER_HASH, MEMBER_LIST };

static const struct member {
    const char *key;
    enum member_kind kind;
    size_t offset, size; // in struct manifest; size 0: it is only checked
} members[] = {
#define IN(KIND, KEY, FIELD)                                                                       \
    {                                                                                              \
        KEY, MEMBER_##KIND, offsetof(struct manifest, FIELD), sizeof((struct manifest *)0)->FIELD  \
    }
    {"format", MEMBER_NUMBER, 0, 0}, IN(HASH, "sha256", sha256),    IN(NUMBER, "size", size),
    IN(TEXT, "file", file),          IN(TEXT, "owner", owner),      IN(NUMBER, "time", time_s),
    IN(NUMBER, "order", order),      IN(TEXT, "chip", chip),        IN(SMALL, "batch", batch),
    IN(LIST, "labels", n_labels),    {"inputs", MEMBER_LIST, 0, 0}, {"outputs", MEMBER_LIST, 0, 0},
#undef IN
};

#define N_MEMBERS (sizeof members / sizeof *members)

static bool read_hash(const char *text, uint8_t *ret)
{
    static const char digits[] = "0123456789abcdef";
    if (strlen(text) != 2 * SHA256_SIZE || strspn(text, digits) != 2 * SHA256_SIZE)
        return false;
    for (size_t i = 0; i < SHA256_SIZE; i++)
        ret[i] = (uint8_t)((strchr(digits, text[2 * i]) - digits) << 4 |
                           (strchr(digits, text[2 * i + 1]) - digits));
    return true;
}

static bool read_text(const char *text, char *ret, size_t size)
{
    if (strlen(text) >= size)
        return false;
    strcpy(ret, text);
    text_make_printable(ret);
    return true;
}

// False: it is not of its kind.
static bool read_member(const struct member *k, const json_t *value, uint8_t *to)
{
    json_int_t number = json_integer_value(value);
    uint64_t n = (uint64_t)number;
    uint32_t small = (uint32_t)(json_is_array(value) ? json_array_size(value) : n);
    switch (k->kind) {
    case MEMBER_NUMBER:
        if (json_is_integer(value) && number >= 0 && k->size)
            memcpy(to, &n, sizeof n);
        return json_is_integer(value) && number >= 0;
    case MEMBER_SMALL:
        if (!json_is_integer(value) || number < 0 || number > UINT32_MAX)
            return false;
        break;
    case MEMBER_TEXT:
        return json_is_string(value) && read_text(json_string_value(value), (char *)to, k->size);
    case MEMBER_HASH:
        return json_is_string(value) && read_hash(json_string_value(value), to);
    case MEMBER_LIST:
        if (!json_is_array(value))
            return false;
        break;
    }
    if (k->size)
        memcpy(to, &small, sizeof small);
    return true;
}

static int read_members(const json_t *all, struct manifest *m, struct error *e)
{
    for (size_t i = 0; i < N_MEMBERS; i++) {
        const json_t *value = json_object_get(all, members[i].key);
        if (!value)
            return error_set(e, STATUS_MODEL_INVALID, "\"%s\" is missing", members[i].key);
        if (!read_member(&members[i], value, (uint8_t *)m + members[i].offset))
            return error_set(e, STATUS_MODEL_INVALID, "\"%s\" is not what it should be",
                             members[i].key);
    }
    return 0;
}

static int check_members(const json_t *all, struct error *e)
{
    json_int_t format = json_integer_value(json_object_get(all, "format"));
    const char *key;
    json_t *value;
    if (json_object_get(all, "format") && format != FORMAT)
        return error_set(e, STATUS_MODEL_INVALID,
                         "its format is %lld, this rknnd reads format %d; a newer one wrote it",
                         (long long)format, FORMAT);
    json_object_foreach((json_t *)(uintptr_t)all, key, value)
    {
        size_t i = 0;
        while (i < N_MEMBERS && strcmp(members[i].key, key) != 0)
            i++;
        char shown[64];
        snprintf(shown, sizeof shown, "%.60s", key);
        text_make_printable(shown);
        if (i == N_MEMBERS)
            return error_set(e, STATUS_MODEL_INVALID, "\"%s\" is not known", shown);
    }
    return 0;
}

int manifest_read(struct bytes text, struct manifest *ret, struct error *e)
{
    json_error_t why;
    struct manifest m = {0};
    if (text.size > MANIFEST_MAX_SIZE)
        return error_set(e, STATUS_MODEL_INVALID, "it has %zu bytes, at most %u are read",
                         text.size, MANIFEST_MAX_SIZE);
    cleanup(json_decref_pp) json_t *all =
        json_loadb((const char *)text.data, text.size, JSON_REJECT_DUPLICATES, &why);
    if (!json_is_object(all))
        return error_set(e, STATUS_MODEL_INVALID, "it is no JSON object%s%.100s", all ? "" : ": ",
                         all ? "" : why.text);
    int r = check_members(all, e);
    if (r == 0)
        r = read_members(all, &m, e);
    if (r == 0)
        *ret = m;
    return r;
}

int manifest_hide(char **text, struct error *e)
{
    json_error_t why;
    cleanup(json_decref_pp) json_t *all = json_loads(*text, 0, &why);
    char *hidden = NULL;
    if (json_object_set_new(all, "file", json_string("")) == 0 &&
        json_object_set_new(all, "owner", json_string("")) == 0)
        hidden = json_dumps(all, JSON_INDENT(1));
    if (!hidden)
        return error_no_memory(e, "a manifest", strlen(*text));
    free(*text);
    *text = hidden;
    return 0;
}
