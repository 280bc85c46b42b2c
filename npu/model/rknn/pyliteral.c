// A recursive-descent parser for Python literals, which .rknn files use where JSON would do:
//
//      value    = dict | list | tuple | string | word | number
//      dict     = "{" [ key ":" value { "," key ":" value } [ "," ] ] "}"
//      word     = "True" | "False" | "None"
//
// Tuples become arrays. The text is untrusted: nesting is bounded (each level is a C stack frame),
// and the first error stops everything. Functions return a new reference or NULL, with `wrong` set.
#include "npu/model/rknn/pyliteral.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define MAX_DEPTH 32

struct parser {
    const char *start, *at;
    int depth;
    const char *wrong; // what was found wrong at `at`
};

static json_t *value(struct parser *p);

// Notes the first problem, which is the one to report; those after it are consequences.
static json_t *fail(struct parser *p, const char *words)
{
    if (!p->wrong)
        p->wrong = words;
    return NULL;
}

static void skip_space(struct parser *p)
{
    p->at += strspn(p->at, " \t\r\n");
}

// Takes the character, after white space, if it comes next.
static bool accept(struct parser *p, char c)
{
    skip_space(p);
    if (*p->at != c)
        return false;
    p->at++;
    return true;
}

// One character of a string, with the escapes that Python's repr() writes for plain text. Others
// (\x, \u) keep their backslash: they occur in no name that is looked up. Always one byte.
static size_t string_character(struct parser *p, char *out)
{
    char c = *p->at++;
    if (c != '\\') {
        *out = c;
        return 1;
    }
    static const char names[] = "nrt\\'\"", meant[] = "\n\r\t\\'\"";
    const char *name = *p->at ? strchr(names, *p->at) : NULL;
    if (name) {
        *out = meant[name - names];
        p->at++;
        return 1;
    }
    *out = '\\';
    return 1;
}

// Bytes up to the closing quote, or to the end of the text: an upper bound for the decoded string,
// as an escape is never shorter than what it stands for. Only this string is scanned, so that
// reading a text of many strings stays linear in its length.
static size_t string_length(const char *at, char quote)
{
    size_t n = 0;
    while (at[n] && at[n] != quote)
        n += at[n] == '\\' && at[n + 1] ? 2 : 1;
    return n;
}

// The decoded string, malloc()ed; NULL on failure. `at` is on the opening quote.
static char *string_text(struct parser *p)
{
    char quote = *p->at++;
    char *text = malloc(string_length(p->at, quote) + 1);
    size_t n = 0;
    if (!text) {
        fail(p, "no memory");
        return NULL;
    }
    while (*p->at && *p->at != quote)
        n += string_character(p, text + n);
    if (!*p->at) {
        free(text);
        fail(p, "a string does not end");
        return NULL;
    }
    p->at++;
    text[n] = 0;
    return text;
}

static bool starts_string(struct parser *p)
{
    skip_space(p);
    return *p->at == '\'' || *p->at == '"';
}

static json_t *string(struct parser *p)
{
    cleanup(free_p) char *text = string_text(p);
    if (!text)
        return NULL;
    json_t *s = json_string(text);
    return s ? s : fail(p, "a string is not UTF-8");
}

// An integer or a real. NaN and infinity, which strtod() takes, have no JSON form and become null.
static json_t *number(struct parser *p)
{
    size_t n = strspn(p->at, "+-0123456789.eEinfa");
    char text[64], *end;
    if (!n || n >= sizeof text)
        return fail(p, "a value was expected");
    memcpy(text, p->at, n);
    text[n] = 0;
    p->at += n;
    if (!strpbrk(text, ".eEina")) {
        long long integer = strtoll(text, &end, 10);
        return *end ? fail(p, "a number is malformed") : json_integer(integer);
    }
    double real = strtod(text, &end);
    if (*end)
        return fail(p, "a number is malformed");
    json_t *j = json_real(real);
    return j ? j : json_null(); // JSON has no infinity
}

// A list or tuple whose opening bracket is taken. A comma before the closing one is allowed.
static json_t *sequence(struct parser *p, char close)
{
    json_t *list = json_array();
    while (!p->wrong && !accept(p, close)) {
        json_t *item = value(p);
        if (!item || json_array_append_new(list, item) < 0) {
            fail(p, "no memory");
            break;
        }
        if (!accept(p, ',') && *p->at != close)
            fail(p, "a comma was expected");
    }
    if (p->wrong) {
        json_decref(list);
        return NULL;
    }
    return list;
}

// A key as text: a string, or the characters of a number as they stand. malloc()ed; NULL: no
// memory.
static char *dict_key(struct parser *p)
{
    if (starts_string(p))
        return string_text(p);
    size_t n = strcspn(p->at, ":,}");
    char *key = strndup(p->at, n);
    p->at += n;
    return key;
}

static json_t *dict(struct parser *p)
{
    json_t *object = json_object();
    while (!p->wrong && !accept(p, '}')) {
        cleanup(free_p) char *key = dict_key(p);
        if (!key || !accept(p, ':')) {
            fail(p, "a colon was expected");
            break;
        }
        json_t *item = value(p);
        if (!item)
            break;
        if (json_object_set_new(object, key, item) < 0)
            fail(p, "a key is not UTF-8");
        if (!accept(p, ',') && *p->at != '}')
            fail(p, "a comma was expected");
    }
    if (p->wrong) {
        json_decref(object);
        return NULL;
    }
    return object;
}

// True, False, None; everything else must be a number.
static json_t *word(struct parser *p)
{
    static const struct {
        const char *word;
        json_t *(*make)(void);
    } words[] = {{"True", json_true}, {"False", json_false}, {"None", json_null}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t n = strlen(words[i].word);
        if (strncmp(p->at, words[i].word, n) == 0) {
            p->at += n;
            return words[i].make();
        }
    }
    return number(p);
}

static json_t *value(struct parser *p)
{
    if (++p->depth > MAX_DEPTH)
        return fail(p, "it is nested too deep");
    json_t *v;
    if (starts_string(p))
        v = string(p);
    else if (accept(p, '{'))
        v = dict(p);
    else if (accept(p, '['))
        v = sequence(p, ']');
    else if (accept(p, '('))
        v = sequence(p, ')');
    else
        v = word(p);
    p->depth--;
    if (!v)
        fail(p, "no memory");
    return v;
}

int pyliteral_parse(const char *text, json_t **ret, struct error *e)
{
    struct parser p = {.start = text, .at = text};
    json_t *v = value(&p);
    skip_space(&p);
    if (v && *p.at)
        fail(&p, "something follows the value");
    if (p.wrong) {
        json_decref(v);
        return error_set(e, STATUS_MODEL_INVALID, "at byte %td of a Python literal: %s",
                         p.at - p.start, p.wrong);
    }
    *ret = v;
    return 0;
}
