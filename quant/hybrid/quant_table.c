// Reads a line at a time: its depth, what it begins with, and what may follow. All of this is YAML,
// but not all YAML is this: anchors, flow maps (but for {}, an empty section), other types are
// refused.
//
//     custom_quantize_layers:
//         NAME: float16                  or int16, int8
//     quantize_parameters:
//         NAME:
//             qtype: asymmetric_quantized
//             qmethod: layer
//             dtype: int8                or int16
//             min:
//             - -1.5
//             max:
//             - 6
//             scale:
//             - 0.0294117648
//             zero_point:
//             - -77
//
// Four blanks for each step, as shown, or as many as a section's first step has. Any number of them
// may stand around a colon. Lines that are empty or begin with # say nothing, nor do comments
// behind a blank, a byte order mark, and what YAML begins with (%YAML 1.2, ---). A NAME is plain
// where it can be, else in double quotes, with \", \\ and \xNN, or in single ones; types may be in
// quotes, too. A number may also stand behind its colon, as [6].
#include "quant/hybrid/quant_table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

#define MOST_STEP  16
#define MOST_BYTES ((size_t)64 << 20)
#define MOST_NAME  4096

// What a tensor's lines say, in the order in which they are written. They may be read in any order,
// but all have to be there, so that a file which lost a line in an editor is noticed.
enum table_field {
    TABLE_QTYPE,
    TABLE_QMETHOD,
    TABLE_DTYPE,
    TABLE_MIN,
    TABLE_MAX,
    TABLE_SCALE,
    TABLE_ZERO_POINT,
    TABLE_FIELDS
};
static const char *const fields[] = {"qtype", "qmethod", "dtype",     "min",
                                     "max",   "scale",   "zero_point"};

enum table_section { TABLE_NOWHERE, TABLE_LAYERS, TABLE_PARAMETERS };

struct reading {
    struct quant_table *t;
    enum table_section section;
    bool had[TABLE_PARAMETERS + 1];
    uint32_t line;
    size_t step;    // blanks, in this section; 0: not seen yet
    uint32_t given; // bits of the present tensor's fields
    int awaits;     // the field whose number is on the next line; -1: none
    struct error *e;
};

static int table_refuse(const struct reading *g, const char *what, const char *text, size_t n)
{
    return error_set(g->e, STATUS_PARAM_INVALID, "line %u: %s: \"%.*s\"", g->line, what,
                     (int)(n < 100 ? n : 100), text);
}

// ---- names ----

static int table_hex(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// The inside of quotes from *at on, which ends behind the second one. False: it is damaged.
// A name cannot hold a zero byte, as names in C end there.
static bool table_unquote(const char **at, const char *end, char *ret, size_t *ret_n)
{
    const char *p = *at + 1;
    size_t n = 0;
    for (; p < end && *p != '"' && n < MOST_NAME; p++) {
        if (*p != '\\') {
            ret[n++] = *p;
        } else if (end - p > 1 && (p[1] == '"' || p[1] == '\\')) {
            ret[n++] = *++p;
        } else if (end - p > 3 && p[1] == 'x' && table_hex(p[2]) >= 0 && table_hex(p[3]) >= 0) {
            ret[n] = (char)(table_hex(p[2]) * 16 + table_hex(p[3]));
            if (!ret[n++])
                return false;
            p += 3;
        } else {
            return false;
        }
    }
    *ret_n = n;
    *at = p + 1;
    return p < end && *p == '"' && n;
}

// The same of single quotes, in which '' is one.
static bool table_unquote_single(const char **at, const char *end, char *ret, size_t *ret_n)
{
    const char *p = *at + 1;
    size_t n = 0;
    for (; p < end && (*p != '\'' || (end - p > 1 && p[1] == '\'')) && n < MOST_NAME; p++) {
        p += *p == '\'';
        ret[n++] = *p;
    }
    *ret_n = n;
    *at = p + 1;
    return p < end && *p == '\'' && n;
}

// Whether YAML, too, reads the name as it is.
static bool table_is_plain(const char *name)
{
    if (!*name || strchr("\"'#-?:,[]{}&*!|>%@` ", *name) || name[strlen(name) - 1] == ' ' ||
        strstr(name, ": ") || strstr(name, " #"))
        return false;
    for (; *name; name++)
        if ((unsigned char)*name < 32 || *name == 127 || *name == '\\')
            return false;
    return true;
}

// The name at the line's begin; *ret_rest: what follows, from its colon on. NULL: damaged, or out
// of memory, with words.
static char *table_name(const struct reading *g, const char *at, const char *end,
                        const char **ret_rest)
{
    char name[MOST_NAME + 1];
    size_t n = 0;
    const char *p = at;
    bool quoted = *at == '"' || *at == '\'';
    if (quoted) {
        if (!(*at == '"' ? table_unquote : table_unquote_single)(&p, end, name, &n)) {
            table_refuse(g, "a name in damaged quotes", at, (size_t)(end - at));
            return NULL;
        }
    } else {
        // The colon that ends a name has a blank or nothing behind it.
        for (; p < end && !(*p == ':' && (p + 1 == end || p[1] == ' ')); p++)
            n = *p == ' ' ? n : (size_t)(p + 1 - at);
    }
    while (p < end && *p == ' ')
        p++;
    if (p >= end || *p != ':' || !n || n > MOST_NAME) {
        table_refuse(g, "a name and a colon are expected", at, (size_t)(end - at));
        return NULL;
    }
    if (!quoted)
        memcpy(name, at, n);
    name[n] = 0;
    if (!quoted && !table_is_plain(name)) {
        table_refuse(g, "such a name has to be in double quotes", at, n);
        return NULL;
    }
    *ret_rest = p + 1;
    char *own = strdup(name);
    if (!own)
        error_no_memory(g->e, "a name", n);
    return own;
}

// ---- lines ----

static bool table_equals(const char *at, const char *end, const char *word)
{
    size_t n = strlen(word);
    return (size_t)(end - at) == n && memcmp(at, word, n) == 0;
}

static const char *table_trim(const char *at, const char *end)
{
    while (end > at && end[-1] == ' ')
        end--;
    return end;
}

// Whether a word is all that stands behind a colon.
static bool table_says(const char *at, const char *end, const char *word)
{
    const char *p = at;
    while (p < end && *p == ' ')
        p++;
    bool quoted = end - p > 1 && (*p == '"' || *p == '\'') && end[-1] == *p;
    return p > at && table_equals(p + quoted, end - quoted, word);
}

// A tensor ends where the next one or another section begins.
static int table_finish_tensor(const struct reading *g)
{
    if (g->section != TABLE_PARAMETERS || !g->t->n_tensors)
        return 0;
    const struct quant_table_tensor *t = &g->t->tensors[g->t->n_tensors - 1];
    for (int i = 0; i < TABLE_FIELDS; i++)
        if (!(g->given >> i & 1) || g->awaits == i)
            return error_set(g->e, STATUS_PARAM_INVALID, "line %u: tensor %s has no %s", t->line,
                             t->name, fields[i]);
    return 0;
}

static int table_read_section(struct reading *g, const char *at, const char *end)
{
    bool empty = end - at > 3 && memcmp(end - 3, " {}", 3) == 0;
    const char *stop = empty ? end - 3 : end;
    enum table_section s = table_equals(at, stop, "custom_quantize_layers:") ? TABLE_LAYERS
                           : table_equals(at, stop, "quantize_parameters:")  ? TABLE_PARAMETERS
                                                                             : TABLE_NOWHERE;
    bool begun = g->had[TABLE_LAYERS] || g->had[TABLE_PARAMETERS];
    bool directive = end - at > 6 && memcmp(at, "%YAML ", 6) == 0;
    if (!begun && (directive || table_equals(at, end, "---")))
        return 0;
    int r = table_finish_tensor(g);
    if (r < 0)
        return r;
    if (table_equals(at, stop, "customized_quantize_layers:"))
        return table_refuse(g, "a table of RKNN-Toolkit 1: make one anew with the first step", at,
                            (size_t)(end - at));
    if (!s || g->had[s])
        return table_refuse(g, s ? "it is there twice" : "not known", at, (size_t)(end - at));
    g->section = s;
    g->step = 0;
    g->had[s] = true;
    return 0;
}

// 8, 16; -1: neither.
static int table_bits(const char *at, const char *end)
{
    return table_says(at, end, "int8") ? 8 : table_says(at, end, "int16") ? 16 : -1;
}

static int table_read_layer(const struct reading *g, const char *at, const char *end)
{
    struct quant_table *t = g->t;
    const char *rest;
    char *name = table_name(g, at, end, &rest);
    if (!name)
        return g->e->code;
    int bits = table_says(rest, end, "float16") ? 0 : table_bits(rest, end);
    if (bits < 0) {
        free(name);
        return table_refuse(g, "a layer's type can only be float16, int16 or int8", at,
                            (size_t)(end - at));
    }
    int r = array_reserve(t->layers, t->room_layers, t->n_layers + 1, "layers", g->e);
    if (r < 0) {
        free(name);
        return r;
    }
    t->layers[t->n_layers++] =
        (struct quant_table_layer){.name = name, .bits = (uint8_t)bits, .line = g->line};
    return 0;
}

static int table_read_tensor(struct reading *g, const char *at, const char *end)
{
    struct quant_table *t = g->t;
    const char *rest;
    int r = table_finish_tensor(g);
    char *name = r < 0 ? NULL : table_name(g, at, end, &rest);
    if (!name)
        return g->e->code;
    if (rest != end) {
        free(name);
        return table_refuse(g, "nothing is expected behind a tensor's colon", at,
                            (size_t)(end - at));
    }
    r = array_reserve(t->tensors, t->room_tensors, t->n_tensors + 1, "tensors", g->e);
    if (r < 0) {
        free(name);
        return r;
    }
    t->tensors[t->n_tensors++] = (struct quant_table_tensor){.name = name, .line = g->line};
    g->given = 0;
    g->awaits = -1;
    return 0;
}

// The words behind qtype, qmethod and dtype. There are others in the manuals (channel), which are
// no mistake of spelling but nothing that can be done here.
static int table_read_word(const struct reading *g, int field, const char *at, const char *end)
{
    struct quant_table_tensor *t = &g->t->tensors[g->t->n_tensors - 1];
    if (field == TABLE_QTYPE && table_says(at, end, "symmetric_quantized"))
        t->symmetric = true;
    else if (field == TABLE_DTYPE && table_bits(at, end) > 0)
        t->bits = (uint8_t)table_bits(at, end);
    else if (!(field == TABLE_QTYPE && table_says(at, end, "asymmetric_quantized")) &&
             !(field == TABLE_QMETHOD && table_says(at, end, "layer")))
        return error_set(g->e, STATUS_PARAM_INVALID, "line %u: %s can only be %s: \"%.*s\"",
                         g->line, fields[field],
                         field == TABLE_QTYPE     ? "asymmetric_quantized or symmetric_quantized"
                         : field == TABLE_QMETHOD ? "layer"
                                                  : "int8 or int16",
                         (int)(end - at < 100 ? end - at : 100), at);
    return 0;
}

// A number from `at` on, for the field that awaits one.
static int table_take_number(struct reading *g, const char *at, const char *end)
{
    struct quant_table_tensor *t = &g->t->tensors[g->t->n_tensors - 1];
    char text[64], *stop;
    int field = g->awaits;
    while (at < end && *at == ' ')
        at++;
    size_t n = (size_t)(end - at);
    if (!n || n >= sizeof text || !strchr("+-.0123456789", *at))
        return table_refuse(g, "\"- \" and a number are expected", at, n);
    memcpy(text, at, n);
    text[n] = 0;
    float value = strtof(text, &stop);
    if (*stop || !isfinite(value) || strpbrk(text, "xX") ||
        (field == TABLE_ZERO_POINT && (value < -32768 || value > 32767 || value != rintf(value))))
        return table_refuse(g,
                            field == TABLE_ZERO_POINT
                                ? "an integer from -32768 to 32767 is expected"
                                : "a number is expected",
                            at, n);
    if (field == TABLE_ZERO_POINT)
        t->zp = (int32_t)value;
    else
        *(field == TABLE_MIN ? &t->min : field == TABLE_MAX ? &t->max : &t->scale) = value;
    g->awaits = -1;
    return 0;
}

// As the only item of a list, in a line of its own.
static int table_read_number(struct reading *g, const char *at, const char *end)
{
    if (end - at < 3 || at[0] != '-' || at[1] != ' ')
        return table_refuse(g, "\"- \" and a number are expected", at, (size_t)(end - at));
    return table_take_number(g, at + 2, end);
}

static int table_read_field(struct reading *g, const char *at, const char *end)
{
    const char *colon = memchr(at, ':', (size_t)(end - at)), *p = colon;
    int field = 0;
    while (p && p > at && p[-1] == ' ')
        p--;
    for (; field < TABLE_FIELDS && !(colon && table_equals(at, p, fields[field])); field++)
        ;
    if (field == TABLE_FIELDS || g->given >> field & 1)
        return table_refuse(g,
                            field == TABLE_FIELDS ? "no property of a tensor" : "it is there twice",
                            at, (size_t)(end - at));
    g->given |= 1u << field;
    if (field < TABLE_MIN)
        return table_read_word(g, field, colon + 1, end);
    g->awaits = field;
    for (p = colon + 1; p < end && *p == ' ';)
        p++;
    if (p == end)
        return 0;
    if (p > colon + 1 && *p == '[' && end[-1] == ']')
        return table_take_number(g, p + 1, table_trim(p + 1, end - 1));
    return table_refuse(g, "its number is expected on the next line, behind \"- \", or as [6]", at,
                        (size_t)(end - at));
}

// Where a comment begins, which has a blank before it and is in no quotes; else `end`.
static const char *table_before_comment(const char *at, const char *end)
{
    char quotes = 0;
    for (const char *p = at; p < end; p++) {
        if (quotes == '"' && *p == '\\')
            p++;
        else if (quotes && *p == quotes)
            quotes = 0;
        else if (!quotes && p == at && (*p == '"' || *p == '\''))
            quotes = *p;
        else if (!quotes && *p == '#' && p > at && p[-1] == ' ')
            return p;
    }
    return end;
}

// Blanks at the end, and what editors of other systems put there, say nothing.
static int table_read_line(struct reading *g, const char *at, const char *end)
{
    const char *begin = at;
    while (at < end && *at == ' ')
        at++;
    end = table_before_comment(at, end);
    while (end > at && (end[-1] == ' ' || end[-1] == '\r'))
        end--;
    if (at == end || *at == '#')
        return 0;
    if (memchr(at, 0, (size_t)(end - at)) || memchr(at, '\t', (size_t)(end - at)))
        return table_refuse(g, "tabs and zero bytes are not taken", at, (size_t)(end - at));
    size_t depth = (size_t)(at - begin);
    if (depth && !g->step && g->section)
        g->step = depth;
    if (g->step > MOST_STEP)
        return table_refuse(g, "behind too many blanks", at, (size_t)(end - at));
    bool in_tensor = g->section == TABLE_PARAMETERS && g->t->n_tensors;
    if (in_tensor && g->awaits >= 0)
        return depth >= 2 * g->step
                   ? table_read_number(g, at, end)
                   : table_refuse(g, "a number is expected", at, (size_t)(end - at));
    if (depth == 0)
        return table_read_section(g, at, end);
    if (depth == g->step && g->section == TABLE_LAYERS)
        return table_read_layer(g, at, end);
    if (depth == g->step && g->section == TABLE_PARAMETERS)
        return table_read_tensor(g, at, end);
    if (depth == 2 * g->step && in_tensor)
        return table_read_field(g, at, end);
    return table_refuse(g, "not expected here, or behind so many blanks", at, (size_t)(end - at));
}

int quant_table_parse(struct quant_table *t, const char *text, size_t size, struct error *e)
{
    struct error own = {0};
    struct reading g = {.t = t, .awaits = -1, .e = e ? e : &own};
    const char *end = text + size;
    *t = (struct quant_table){0};
    if (size > MOST_BYTES)
        return error_set(e, STATUS_PARAM_INVALID, "it is larger than 64 MiB");
    int r = 0;
    if (size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        text += 3;
    for (const char *at = text; at < end && r == 0;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        stop = stop ? stop : end;
        g.line++;
        r = table_read_line(&g, at, stop);
        at = stop < end ? stop + 1 : end;
    }
    if (r == 0)
        r = table_finish_tensor(&g);
    if (r == 0 && !(g.had[TABLE_LAYERS] && g.had[TABLE_PARAMETERS]))
        r = error_set(e, STATUS_PARAM_INVALID, "line %u: it ends without \"%s:\"", g.line,
                      g.had[TABLE_LAYERS] ? "quantize_parameters" : "custom_quantize_layers");
    return r;
}

void quant_table_done(struct quant_table *t)
{
    for (size_t i = 0; i < t->n_layers; i++)
        free(t->layers[i].name);
    for (size_t i = 0; i < t->n_tensors; i++)
        free(t->tensors[i].name);
    free(t->layers);
    free(t->tensors);
    *t = (struct quant_table){0};
}

// ---- writing ----

// Bytes above 127 are written as they are: names are UTF-8, as the file is.
static void table_write_name(const char *name, FILE *file)
{
    if (table_is_plain(name)) {
        fputs(name, file);
        return;
    }
    fputc('"', file);
    for (; *name; name++)
        if (*name == '"' || *name == '\\')
            fprintf(file, "\\%c", *name);
        else if ((unsigned char)*name < 32 || *name == 127)
            fprintf(file, "\\x%02x", (unsigned)(unsigned char)*name);
        else
            fputc(*name, file);
    fputc('"', file);
}

void quant_table_write(const struct quant_table *t, FILE *file)
{
    fputs("custom_quantize_layers:\n", file);
    for (size_t i = 0; i < t->n_layers; i++) {
        fputs("    ", file);
        table_write_name(t->layers[i].name, file);
        fputs(t->layers[i].bits == 0   ? ": float16\n"
              : t->layers[i].bits == 8 ? ": int8\n"
                                       : ": int16\n",
              file);
    }
    fputs("quantize_parameters:\n", file);
    for (size_t i = 0; i < t->n_tensors; i++) {
        const struct quant_table_tensor *one = &t->tensors[i];
        fputs("    ", file);
        table_write_name(one->name, file);
        fprintf(file,
                ":\n        qtype: %s_quantized\n        qmethod: layer\n        dtype: int%d\n"
                "        min:\n        - %.9g\n        max:\n        - %.9g\n        scale:\n"
                "        - %.9g\n        zero_point:\n        - %d\n",
                one->symmetric ? "symmetric" : "asymmetric", one->bits, (double)one->min,
                (double)one->max, (double)one->scale, one->zp);
    }
}
