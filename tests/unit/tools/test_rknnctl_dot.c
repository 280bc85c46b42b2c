// The graph of a model, read back by a parser of the part of Graphviz' language that a digraph of
// plain nodes and edges needs.
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tools/view/dot.h"

#define MAX_THINGS 64
#define MAX_TEXT   256

struct thing {
    char from[MAX_TEXT], to[MAX_TEXT]; // to is empty: a node
    char label[MAX_TEXT];
};

struct parser {
    const char *at;
    char token[MAX_TEXT];
    struct thing things[MAX_THINGS];
    size_t n;
};

// A name, a number, a quoted text without its quotes, or one of the signs.
static const char *take(struct parser *p)
{
    size_t n = 0;
    while (isspace((unsigned char)*p->at))
        p->at++;
    if (*p->at == '"') {
        for (p->at++; *p->at != '"'; p->token[n++] = *p->at++) {
            assert_true(*p->at);
            assert_cmp(n + 2, <, MAX_TEXT);
            if (*p->at == '\\')
                p->token[n++] = *p->at++;
        }
        p->at++;
    } else if (strncmp(p->at, "->", 2) == 0) {
        p->token[n++] = *p->at++;
        p->token[n++] = *p->at++;
    } else if (strchr("{}[]=;,", *p->at)) {
        p->token[n++] = *p->at++;
    } else {
        while (isalnum((unsigned char)*p->at) || *p->at == '_')
            p->token[n++] = *p->at++;
        assert_cmp(n, >, 0);
    }
    p->token[n] = 0;
    return p->token;
}

static void expect(struct parser *p, const char *token)
{
    assert_string_equal(take(p), token);
}

static void take_attributes(struct parser *p, char *label)
{
    do {
        char key[MAX_TEXT];
        strcpy(key, take(p));
        expect(p, "=");
        take(p);
        if (strcmp(key, "label") == 0)
            strcpy(label, p->token);
        take(p);
    } while (strcmp(p->token, ",") == 0);
    assert_string_equal(p->token, "]");
    expect(p, ";");
}

static void take_statement(struct parser *p)
{
    struct thing t = {0};
    strcpy(t.from, p->token);
    if (strcmp(take(p), "=") == 0) {
        take(p);
        expect(p, ";");
        return;
    }
    if (strcmp(p->token, "->") == 0) {
        strcpy(t.to, take(p));
        take(p);
    }
    assert_string_equal(p->token, "[");
    take_attributes(p, t.label);
    if (strcmp(t.from, "node") == 0 || strcmp(t.from, "edge") == 0)
        return;
    assert_cmp(p->n, <, MAX_THINGS);
    p->things[p->n++] = t;
}

static const struct thing *find(const struct parser *p, const char *from, const char *to)
{
    for (size_t i = 0; i < p->n; i++)
        if (strcmp(p->things[i].from, from) == 0 && strcmp(p->things[i].to, to) == 0)
            return &p->things[i];
    return NULL;
}

static void draw(struct parser *p, const char *json)
{
    json_error_t error;
    json_t *model = json_loads(json, 0, &error);
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!model)
        fail_msg("%s", error.text);
    assert_int_equal(dot_write(model, out), 0);
    fclose(out);
    json_decref(model);
    *p = (struct parser){.at = text};
    expect(p, "digraph");
    take(p);
    expect(p, "{");
    while (strcmp(take(p), "}") != 0)
        take_statement(p);
    assert_string_equal(p->at, "\n");
    for (size_t i = 0; i < p->n; i++) {
        assert_non_null(find(p, p->things[i].from, "")); // both ends are declared
        assert_true(!p->things[i].to[0] || find(p, p->things[i].to, ""));
    }
    free(text);
}

static void branches(void **state)
{
    (void)state;
    struct parser p;
    draw(&p,
         "{\"nodes\": ["
         "{\"name\": \"In\", \"op\": \"InputOperator\", \"device\": \"CPU\", \"inputs\": [],"
         " \"outputs\": [{\"name\": \"x\", \"type\": \"INT8\", \"shape\": [1, 3, 4, 5]}]},"
         "{\"name\": \"c\", \"op\": \"Conv\", \"device\": \"NPU\", \"inputs\": ["
         "{\"name\": \"x\", \"type\": \"INT8\", \"shape\": [1, 3, 4, 5]},"
         "{\"name\": \"w\", \"type\": \"INT8\", \"shape\": [8, 3, 1, 1]}, null],"
         " \"outputs\": [{\"name\": \"y\", \"type\": \"INT8\", \"shape\": [1, 8, 4, 5]}]},"
         "{\"name\": \"a\", \"op\": \"Add\", \"device\": \"NPU\", \"inputs\": ["
         "{\"name\": \"y\", \"type\": \"INT8\", \"shape\": [1, 8, 4, 5]},"
         "{\"name\": \"x\", \"type\": \"INT8\", \"shape\": [1, 3, 4, 5]}],"
         " \"outputs\": [{\"name\": \"z\", \"type\": \"FP16\", \"shape\": [1, 8]}]}],"
         "\"inputs\": [{\"name\": \"x\"}],"
         "\"outputs\": [{\"name\": \"z\", \"type\": \"FP16\", \"shape\": [1, 8]}],"
         "\"layer_estimates\": [{\"node\": \"c\", \"us\": 12.5}, {\"node\": \"a\", \"us\": 0}]}");
    assert_int_equal(p.n, 3 + 1 + 3 + 1); // nodes, the output, edges, its edge; no constant
    assert_string_equal(find(&p, "n0", "")->label, "InputOperator\\nIn\\nCPU");
    assert_string_equal(find(&p, "n1", "")->label, "Conv\\nc\\nNPU, 12.5 us");
    assert_string_equal(find(&p, "n2", "")->label, "Add\\na\\nNPU");
    assert_string_equal(find(&p, "n0", "n1")->label, "1x3x4x5 INT8");
    assert_string_equal(find(&p, "n0", "n2")->label, "1x3x4x5 INT8");
    assert_string_equal(find(&p, "n1", "n2")->label, "1x8x4x5 INT8");
    assert_string_equal(find(&p, "o0", "")->label, "z\\n1x8 FP16");
    assert_string_equal(find(&p, "n2", "o0")->label, "1x8 FP16");
}

// Nodes of ONNX files have no device, inputs may have a batch that is left open.
static void what_is_not_known(void **state)
{
    (void)state;
    struct parser p;
    draw(&p, "{\"nodes\": [{\"name\": \"c\", \"op\": \"Conv\", \"inputs\": [{\"name\": \"x\"}],"
             " \"outputs\": [{\"name\": \"y\"}]}],"
             "\"inputs\": [{\"name\": \"x\", \"type\": \"FP32\", \"shape\": [null, 3]}]}");
    assert_string_equal(find(&p, "n0", "")->label, "Conv\\nc");
    assert_string_equal(find(&p, "i0", "")->label, "x\\n?x3 FP32");
}

// Names come from the file.
static void names_that_could_break_out(void **state)
{
    (void)state;
    struct parser p;
    draw(&p,
         "{\"nodes\": [{\"name\": \"a\\\"]; evil -> more; \\\\\", \"op\": \"x\\n\\u001b\\\\\","
         " \"device\": \"NPU\", \"inputs\": [{\"name\": \"\\\"\", \"type\": \"\\\"\"}],"
         " \"outputs\": []}],"
         "\"inputs\": [{\"name\": \"\\\"\", \"type\": \"]\", \"shape\": [2]}], \"outputs\": []}");
    assert_int_equal(p.n, 3);
    assert_string_equal(find(&p, "n0", "")->label, "x??\\\\\\na\\\"]; evil -> more; \\\\\\nNPU");
    assert_string_equal(find(&p, "i0", "")->label, "\\\"\\n2 ]");
    assert_string_equal(find(&p, "i0", "n0")->label, " \\\"");
}

static void descriptions_without_parts(void **state)
{
    (void)state;
    struct parser p;
    draw(&p, "{}");
    assert_int_equal(p.n, 0);
    draw(&p, "{\"nodes\": [3, {}, {\"inputs\": 1, \"outputs\": [[], {}]}], \"outputs\": [7]}");
    assert_int_equal(p.n, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(branches),
        cmocka_unit_test(what_is_not_known),
        cmocka_unit_test(names_that_could_break_out),
        cmocka_unit_test(descriptions_without_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
