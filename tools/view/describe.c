// Prints a model's description (JSON) for people, by shape alone: it knows no member's name, so
// that new members appear without a change here.
//
//   plain value or short object     one line: key, value
//   object with nested lists        key, then its members indented
//   list of objects                 a table, one column for each key
//   list of many texts              one a line
//
// Texts come from files: control characters are replaced. Recursion is limited to MAX_DEPTH.
#include "tools/view/describe.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "tools/format/table.h"
#include "tools/ui/terminal.h"

#define MAX_COLUMNS 20
#define MAX_DEPTH   8
#define NAME_COLUMN 22
#define FEW_ROWS    8

struct printer {
    FILE *out;
    size_t max_rows, width;
};

static int print_object(const struct printer *p, json_t *object, unsigned depth);

// A list that becomes a table.
static bool all_objects(json_t *array)
{
    size_t i;
    json_t *item;
    json_array_foreach(array, i, item) if (!json_is_object(item)) return false;
    return json_array_size(array) > 0;
}

// A shape, a kernel, strides: what is read as 1x3x4.
static bool is_shape(json_t *array)
{
    size_t i;
    json_t *item;
    json_array_foreach(array, i, item) if (!json_is_integer(item) ||
                                           json_integer_value(item) <= 0) return false;
    return json_array_size(array) > 0;
}

// Fits one line: no lists of objects, and nested objects only where they are a value with a type.
static bool is_plain(json_t *object)
{
    const char *key;
    json_t *value;
    json_object_foreach(object, key,
                        value) if ((json_is_object(value) && !json_object_get(value, "value")) ||
                                   (json_is_array(value) && all_objects(value))) return false;
    return true;
}

// Control characters could change the terminal's state.
static void write_text(FILE *out, const char *text)
{
    for (; *text; text++)
        fputc((unsigned char)*text < 0x20 || *text == 0x7f ? '?' : *text, out);
}

static void write_value(FILE *out, json_t *value, unsigned depth);

static void write_array(FILE *out, json_t *array, unsigned depth)
{
    const char *between = is_shape(array) ? "x" : ", ";
    size_t i;
    json_t *item;
    if (json_array_size(array) == 0)
        fputs("-", out);
    json_array_foreach(array, i, item)
    {
        fputs(i ? between : "", out);
        write_value(out, item, depth + 1);
    }
}

// An object in one line. One with a name is written without its keys ("image INT8 1x8x8x1"); of a
// value with a type only the value is written.
static void write_object(FILE *out, json_t *object, unsigned depth)
{
    bool named = json_object_get(object, "name") != NULL;
    const char *key, *gap = "";
    json_t *value;
    if (json_object_size(object) == 0)
        fputs("-", out);
    if (json_object_get(object, "value")) {
        write_value(out, json_object_get(object, "value"), depth + 1);
        return;
    }
    json_object_foreach(object, key, value)
    {
        fputs(gap, out);
        if (!named)
            fprintf(out, "%s ", key);
        write_value(out, value, depth + 1);
        gap = named ? " " : ", ";
    }
}

// A value in one line: text without quotes, shapes as 1x3x4, other lists with commas.
static void write_value(FILE *out, json_t *value, unsigned depth)
{
    if (depth > MAX_DEPTH)
        fputs("…", out);
    else if (json_is_string(value))
        write_text(out, json_string_value(value));
    else if (json_is_integer(value))
        fprintf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value))
        fprintf(out, "%.6g", json_real_value(value));
    else if (json_is_boolean(value))
        fputs(json_is_true(value) ? "yes" : "no", out);
    else if (json_is_null(value))
        fputs("-", out);
    else if (json_is_array(value))
        write_array(out, value, depth);
    else
        write_object(out, value, depth);
}

// The text is the caller's; NULL when memory ran out.
static char *value_text(json_t *value)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return NULL;
    if (value)
        write_value(out, value, 0);
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

// The keys of all objects, in order of first appearance; a column with any number is aligned right.
static size_t find_columns(json_t *array, struct table_column *columns)
{
    size_t i, n = 0;
    json_t *item, *value;
    const char *key;
    json_array_foreach(array, i, item) json_object_foreach(item, key, value)
    {
        size_t c = 0;
        while (c < n && strcmp(columns[c].title, key) != 0)
            c++;
        if (c == n && n < MAX_COLUMNS)
            columns[n++] = (struct table_column){key, TABLE_LEFT, TABLE_CUT_END, 0};
        if (c < n && json_is_number(value))
            columns[c].align = TABLE_RIGHT;
    }
    return n;
}

// Text from column `at` on, wrapped after commas and indented below itself.
static void describe_print_line(const struct printer *p, const char *text, size_t at)
{
    size_t room = p->width > at + 2 ? p->width - at - 2 : SIZE_MAX;
    for (;;) {
        size_t n = strlen(text), end = n;
        for (const char *c = strstr(text, ", "); n > room && c; c = strstr(c + 1, ", "))
            if (end == n || (size_t)(c - text) < room)
                end = (size_t)(c - text) + 1;
        fprintf(p->out, "%.*s\n", (int)end, text);
        if (end == n)
            return;
        text += end + 1;
        fprintf(p->out, "%*s", (int)at + 2, "");
    }
}

// "key value, key value, …"; the caller's to free, NULL without memory.
static char *record_text(json_t *object)
{
    char *text = NULL;
    size_t size;
    const char *key, *gap = "";
    json_t *value;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return NULL;
    json_object_foreach(object, key, value)
    {
        fprintf(out, "%s%s ", gap, key);
        write_value(out, value, 0);
        gap = ", ";
    }
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

static int print_records(const struct printer *p, json_t *array, const char *indent)
{
    size_t i;
    json_t *item;
    json_array_foreach(array, i, item)
    {
        cleanup(free_p) char *text = record_text(item);
        if (!text)
            return -1;
        fputs(indent, p->out);
        describe_print_line(p, text, strlen(indent));
    }
    return 0;
}

// A table; but a few rows that are too wide for the terminal are printed as records instead, since
// cutting would lose what they say.
static int print_table(const struct printer *p, json_t *array, const char *indent)
{
    struct table_column columns[MAX_COLUMNS];
    struct table t;
    size_t i, n = find_columns(array, columns);
    json_t *item;
    if (n == 0)
        return 0;
    table_init(&t, columns, n);
    json_array_foreach(array, i, item) for (size_t c = 0; c < n; c++)
    {
        cleanup(free_p) char *text = value_text(json_object_get(item, columns[c].title));
        if (!text)
            t.failed = 1;
        table_cell(&t, "%s", text ? text : "");
    }
    bool too_wide = !t.failed && p->width && table_width(&t) + strlen(indent) > p->width;
    bool whole = too_wide && json_array_size(array) <= FEW_ROWS;
    int r = whole ? print_records(p, array, indent) : table_print(&t, p->out, indent, p->width);
    table_done(&t);
    return r;
}

// Many texts, like the names of steps, get a line each instead of one endless line.
static bool is_long_text(json_t *array)
{
    return json_array_size(array) > FEW_ROWS && json_is_string(json_array_get(array, 0));
}

static void print_texts(const struct printer *p, json_t *array, int margin)
{
    size_t i;
    json_t *item;
    json_array_foreach(array, i, item)
    {
        fprintf(p->out, "%*s", margin, "");
        write_value(p->out, item, 0);
        fputc('\n', p->out);
    }
}

// Only the description's own keys (depth 1) have '_' for a space; below, names are the file's.
static void print_key(const struct printer *p, const char *key, unsigned depth, int width)
{
    int n = 0;
    for (; key[n]; n++)
        fputc(depth == 1 && key[n] == '_' ? ' ' : key[n], p->out);
    fprintf(p->out, "%*s", width > n ? width - n : 0, "");
}

// Dispatches by the value's kind (see the file's head). Lists longer than max_rows show their
// length only.
static int print_member(const struct printer *p, const char *key, json_t *value, unsigned depth)
{
    int margin = 2 * (int)depth;
    char indent[2 * MAX_DEPTH + 3] = "                  ";
    if (json_is_object(value) && !is_plain(value) && depth < MAX_DEPTH) {
        fprintf(p->out, "%*s", margin, "");
        print_key(p, key, depth, 0);
        fputc('\n', p->out);
        return print_object(p, value, depth + 1);
    }
    if (json_is_array(value) && (all_objects(value) || is_long_text(value))) {
        size_t n = json_array_size(value);
        fprintf(p->out, "%*s", margin, "");
        print_key(p, key, depth, 0);
        fprintf(p->out, " (%zu)\n", n);
        if (is_long_text(value) && n <= p->max_rows)
            print_texts(p, value, margin + 2);
        if (is_long_text(value))
            return 0;
        indent[margin + 2] = 0;
        return n > p->max_rows ? 0 : print_table(p, value, indent);
    }
    cleanup(free_p) char *text = value_text(value);
    if (!text)
        return -1;
    fprintf(p->out, "%*s", margin, "");
    print_key(p, key, depth, NAME_COLUMN - margin);
    fputc(' ', p->out);
    describe_print_line(p, *text ? text : "-", NAME_COLUMN + 1);
    return 0;
}

static int print_object(const struct printer *p, json_t *object, unsigned depth)
{
    const char *key;
    json_t *value;
    int r = 0;
    json_object_foreach(object, key, value) if (r == 0) r = print_member(p, key, value, depth);
    return r;
}

int describe_print(json_t *object, FILE *out, size_t max_rows, size_t width)
{
    const struct printer p = {out, max_rows, width};
    return print_object(&p, object, 1);
}
