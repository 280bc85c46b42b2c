// Integers are compared bit by bit, halves within the tolerance of the probe. Every hypothesis is
// tried; the kit's writer has seen to it that no two expect the same.
#include "tools/board/judge.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/cleanup.h"
#include "tensor/arithmetic.h"
#include "tensor/convert.h"
#include "tools/format/json_get.h"

// A tensor's values and what they are to be.
struct pair {
    const char *tensor, *node;
    const uint8_t *expected;
    uint8_t *seen;
    size_t size;      // bytes of both
    bool half;        // else int8
    double tolerance; // of halves: of the value
};

struct count {
    size_t n, n_wrong, first; // elements
};

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// try_probe() sends tensors as digits, since its answer is text. NULL: they are none.
static uint8_t *from_hex(const char *text, size_t *size)
{
    size_t n = strlen(text) / 2;
    bool wrong = strlen(text) % 2 != 0;
    uint8_t *data = malloc(n + 1);
    for (size_t i = 0; data && i < n; i++) {
        int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
        wrong = wrong || high < 0 || low < 0;
        data[i] = (uint8_t)((unsigned)high << 4 | (unsigned)low);
    }
    *size = n;
    if (!wrong)
        return data;
    free(data);
    return NULL;
}

// A stored value as a number: of int8 its steps.
static double value_at(const struct pair *p, const uint8_t *from, size_t i)
{
    return p->half ? (double)convert_fp16_to_float(read_le16(from + 2 * i))
                   : (double)(int8_t)from[i];
}

// How many values differ, and which is the first.
static struct count compare(const struct pair *p)
{
    struct count c = {.n = p->size / (p->half ? 2 : 1)};
    for (size_t i = 0; i < c.n; i++) {
        double expected = value_at(p, p->expected, i), seen = value_at(p, p->seen, i);
        double most = p->half ? p->tolerance * fmax(fabs(expected), 1.0 / 64) : 0;
        if (fabs(seen - expected) <= most)
            continue;
        if (!c.n_wrong++)
            c.first = i;
    }
    return c;
}

// The tensor that the answer has under a name: of its nodes, else of its outputs.
static json_t *find_tensor(json_t *answer, const char *name)
{
    static const char *const lists[] = {"nodes", "tensors"};
    json_t *tensor;
    size_t i;
    for (int l = 0; l < 2; l++) {
        json_array_foreach(json_object_get(answer, lists[l]), i, tensor)
        {
            if (strcmp(json_get_text(tensor, "name"), name) == 0)
                return tensor;
        }
    }
    return NULL;
}

// What people need to find it: where it is, and both values.
static json_t *describe_first(const struct pair *p, const struct count *c)
{
    return json_pack("{s:s, s:s, s:I, s:f, s:f}", "tensor", p->tensor, "node", p->node, "index",
                     (json_int_t)c->first, "expected", value_at(p, p->expected, c->first), "seen",
                     value_at(p, p->seen, c->first));
}

// Compares one of the hypothesis' tensors; what is wrong is added to `verdict`. Tensors that the
// target did not tell of are no fault, as long as the outputs are there.
static bool tensor_fits(const struct kit *k, json_t *want, json_t *answer, json_t *verdict)
{
    json_t *tensor = find_tensor(answer, json_get_text(want, "name"));
    const struct kit_file *f = kit_find(k, json_get_text(want, "file"));
    if (!tensor || !f)
        return f && !json_is_true(json_object_get(want, "output"));
    size_t size;
    cleanup(free_p) uint8_t *seen = from_hex(json_get_text(tensor, "hex"), &size);
    struct pair p = {
        .tensor = json_get_text(want, "name"),
        .node = json_get_text(want, "node"),
        .expected = f->data,
        .seen = seen,
        .size = size,
        .half = strcmp(json_get_text(want, "type"), "float16") == 0,
        .tolerance = json_number_value(json_object_get(want, "tolerance")),
    };
    if (!seen || size != f->size) {
        json_object_set_new(
            verdict, "words",
            json_sprintf(seen ? "%s has %zu bytes, %zu were expected"
                              : "%s is no text of digits (%zu bytes); %zu bytes were expected",
                         p.tensor, size, f->size));
        return false;
    }
    struct count c = compare(&p);
    if (c.n_wrong && !json_object_get(verdict, "first")) {
        json_object_set_new(verdict, "first", describe_first(&p, &c));
        json_object_set_new(verdict, "n_wrong", json_integer((json_int_t)c.n_wrong));
        json_object_set_new(verdict, "n", json_integer((json_int_t)c.n));
    }
    return c.n_wrong == 0;
}

// All of its tensors have to fit; the first that does not is what is reported.
static bool hypothesis_fits(const struct kit *k, json_t *h, json_t *answer, json_t *verdict)
{
    json_t *want;
    size_t i;
    bool fits = true;
    json_array_foreach(json_object_get(h, "tensors"), i, want)
    {
        fits = tensor_fits(k, want, answer, verdict) && fits;
    }
    return fits;
}

// What rknnd takes the chip to do: as its switch of the probe's name says, else as the kit does.
static bool is_taken(const struct kit *k, json_t *probe, json_t *h)
{
    const struct chip *chip = chip_find(json_get_text(k->table, "chip"));
    const json_t *choice = json_object_get(h, "choice");
    for (int s = 0; chip && choice && s < CHIP_N_SWITCHES; s++)
        if (strcmp(chip_switch_name((enum chip_switch)s), json_get_text(probe, "switch")) == 0)
            return json_integer_value(choice) == chip_switch_taken(chip, (enum chip_switch)s);
    return json_is_true(json_object_get(h, "default"));
}

static json_t *judge_values(const struct kit *k, json_t *probe, json_t *answer)
{
    json_t *h, *taken = NULL, *verdict = json_pack("{s:s}", "is", "wrong");
    size_t i;
    json_array_foreach(json_object_get(probe, "hypotheses"), i, h)
    {
        if (is_taken(k, probe, h))
            taken = json_object_get(h, "id");
    }
    json_array_foreach(json_object_get(probe, "hypotheses"), i, h)
    {
        bool is_default = is_taken(k, probe, h);
        json_t *differs = json_object();
        if (hypothesis_fits(k, h, answer, differs)) {
            json_decref(differs);
            json_decref(verdict);
            return json_pack("{s:s, s:O?, s:O?, s:O?, s:O?}", "is", is_default ? "ok" : "other",
                             "hypothesis", json_object_get(h, "id"), "says",
                             json_object_get(h, "says"), "switch", json_object_get(probe, "switch"),
                             "taken", taken);
        }
        if (is_default)
            json_object_update(verdict, differs);
        json_decref(differs);
    }
    return verdict;
}

// A probe that failed says nothing of the chip's arithmetic: no hypothesis is looked at.
json_t *judge_answer(const struct kit *k, json_t *probe, json_t *answer)
{
    const json_t *failed = json_object_get(answer, "failed");
    if (failed)
        return json_pack("{s:s, s:O}", "is", "failed", "words", failed);
    return judge_values(k, probe, answer);
}
