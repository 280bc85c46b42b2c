// Structs of rknnd.h between a program and a library of different versions: the program's may be
// shorter (it is older) or longer (it is newer) than the library's.
#include "../conformance.h"
#include "rknnd.h"

#define UNTOUCHED 0x55

typedef int get(void *place);

static rknn_context context;

static int get_server_info(void *place)
{
    return rknnd_get_server_info(NULL, place);
}

static int get_status(void *place)
{
    return rknnd_get_server_status(NULL, place);
}

static int get_run_info(void *place)
{
    return rknnd_get_run_info(context, place);
}

// `size` bytes are the library's; the program believes that there are struct_size of them.
static void ask(get *ask_for, uint8_t place[2048], uint32_t struct_size)
{
    memset(place, UNTOUCHED, 2048);
    memcpy(place, &struct_size, sizeof struct_size);
    EXPECT_OK(ask_for(place));
    uint32_t after;
    memcpy(&after, place, sizeof after);
    EXPECT_CMP(after, ==, struct_size);
    for (size_t i = struct_size; i < 2048; i++)
        if (!EXPECT_CMP(place[i], ==, UNTOUCHED))
            return;
}

// `n` bytes behind the size are the same in each answer.
static void expect_growth(get *ask_for, uint32_t size, size_t n)
{
    uint8_t exact[2048], older[2048], newer[2048];
    ask(ask_for, exact, size);
    ask(ask_for, older, (uint32_t)(sizeof(uint32_t) + n));
    EXPECT_MEMORY(exact + sizeof size, older + sizeof size, n);
    ask(ask_for, newer, size + 24);
    EXPECT_MEMORY(exact + sizeof size, newer + sizeof size, n);
    for (uint32_t i = size; i < size + 24; i++)
        EXPECT_CMP(newer[i], ==, 0);
    uint32_t none = 0;
    memcpy(exact, &none, sizeof none);
    EXPECT_REFUSED(RKNN_ERR_PARAM_INVALID, "struct_size", ask_for(exact));
}

// ---- lists -------------------------------------------------------------------------------------

// A layer as a program sees it whose header has no more than this.
struct older_layer {
    uint32_t struct_size, core_mask;
    const char *name;
};

// A list of a later library's, whose elements have more than this header knows.
static void expect_stride(void)
{
    struct {
        rknnd_core_stats known;
        uint64_t later[3];
    } items[3] = {{{.busy_us = 1}, {77, 77, 77}}, {{.busy_us = 2}, {0}}, {{.busy_us = 3}, {0}}};
    const rknnd_list list = {sizeof list, 3, sizeof *items, 0, items};
    for (uint32_t i = 0; i < 3; i++)
        EXPECT_CMP(rknnd_core_stats_at(&list, i)->busy_us, ==, i + 1);
    EXPECT_CMP(rknnd_core_stats_at(&list, 3), ==, NULL);
}

static void expect_layers(void)
{
    rknnd_list *layers;
    NEED_OK(rknnd_get_layers(context, &layers));
    EXPECT_CMP(layers->n, >, 2);
    EXPECT_CMP(layers->stride, >=, sizeof(rknnd_layer));
    for (uint32_t i = 0; i < layers->n; i++) {
        const struct older_layer *older =
            (const void *)((const char *)layers->items + (size_t)i * layers->stride);
        const rknnd_layer *l = rknnd_layer_at(layers, i);
        EXPECT_STRING(l->name, older->name);
        EXPECT(*l->name);
        EXPECT(RKNND_HAS(l, core_work));
    }
    rknnd_free(layers);
}

static void expect_has(void)
{
    rknnd_clock older = {.struct_size = offsetof(rknnd_clock, max_hz)};
    EXPECT(RKNND_HAS(&older, hz));
    EXPECT(RKNND_HAS(&older, governor));
    EXPECT(!RKNND_HAS(&older, max_hz));
}

// ---- options -----------------------------------------------------------------------------------

struct newer_options {
    rknnd_compare_options known;
    uint64_t later;
};

struct newer_pair {
    rknnd_name_pair known;
    uint64_t later;
};

struct found {
    char name[256], golden_name[256]; // of the last tensor
    unsigned n, n_compared;
};

static int on_comparison(void *user, const rknnd_comparison *c)
{
    struct found *f = user;
    f->n++;
    f->n_compared += c->golden != NULL;
    EXPECT_CMP(!c->golden, ==, !c->distance);
    EXPECT_CMP(!c->golden, ==, !c->stored);
    EXPECT(!c->distance || (RKNND_HAS(c->distance, largest) && c->distance->largest == 0));
    snprintf(f->name, sizeof f->name, "%s", c->tensor->name);
    snprintf(f->golden_name, sizeof f->golden_name, "%s", c->golden ? c->golden_name : "");
    return RKNN_SUCC;
}

static void expect_compared(const rknnd_golden *golden, const void *options, const char *last)
{
    struct found f = {.n = 0};
    EXPECT_OK(rknnd_compare_layers(context, golden, options, on_comparison, &f));
    EXPECT_CMP(f.n, >, 2);
    EXPECT_CMP(f.n_compared + !*last, ==, f.n);
    EXPECT_STRING(f.golden_name, last);
}

static int on_quick_comparison(void *user, const rknnd_comparison *c)
{
    unsigned *n = user;
    *n += c->golden != NULL;
    EXPECT_CMP(!c->golden, ==, !c->distance);
    EXPECT(!c->stored);
    EXPECT(!c->distance || (c->distance->largest == 0 && c->distance->cosine > 0.999999));
    return RKNN_SUCC;
}

static void expect_without_stored(const rknnd_golden *golden)
{
    unsigned n = 0;
    const rknnd_compare_options o = {.struct_size = sizeof o, .without_stored = 1};
    EXPECT_OK(rknnd_compare_layers(context, golden, &o, on_quick_comparison, &n));
    EXPECT_CMP(n, >, 2);
}

static void expect_options(const rknnd_golden *golden)
{
    struct found f = {.n = 0};
    struct newer_options o = {.known = {.struct_size = sizeof(uint32_t)}};
    EXPECT_OK(rknnd_compare_layers(context, golden, NULL, on_comparison, &f));
    expect_compared(golden, &o, f.name); // the oldest program that there could be
    o.known.struct_size = sizeof o;
    expect_compared(golden, &o, f.name); // a newer one that asks for nothing new
    o.later = 1ull << 40;
    EXPECT_REFUSED(RKNN_ERR_PARAM_INVALID, "later",
                   rknnd_compare_layers(context, golden, &o.known, on_comparison, &f));
    o = (struct newer_options){.known = {.struct_size = sizeof o.known}};

    // The second pair is the one that names the last tensor.
    struct newer_pair items[] = {
        {{sizeof *items, 0, "no such tensor", "nor this"}, 0},
        {{sizeof *items, 0, f.name, "unknown to the golden run"}, 0},
    };
    rknnd_list pairs = {sizeof pairs, 2, sizeof *items, 0, items};
    o.known.pairs = &pairs;
    expect_compared(golden, &o, "");
    items[1].later = 1;
    EXPECT_REFUSED(RKNN_ERR_PARAM_INVALID, "list of names",
                   rknnd_compare_layers(context, golden, &o.known, on_comparison, &f));
    items[1].later = 0;
    pairs.stride = 0;
    EXPECT_REFUSED(RKNN_ERR_PARAM_INVALID, "stride",
                   rknnd_compare_layers(context, golden, &o.known, on_comparison, &f));
    pairs.stride = sizeof *items;
    items[0].known.struct_size = sizeof *items + 8;
    EXPECT_REFUSED(RKNN_ERR_PARAM_INVALID, "stride",
                   rknnd_compare_layers(context, golden, &o.known, on_comparison, &f));
}

int main(int argc, char **argv)
{
    rknnd_golden *golden;
    conformance_start(argc, argv);
    context = conformance_open("two_inputs.rknn", RKNN_FLAG_COLLECT_PERF_MASK);
    conformance_set_inputs(context, "two_inputs");
    NEED_OK(rknn_run(context, NULL));
    expect_growth(get_server_info, sizeof(rknnd_server_info), 300);
    expect_growth(get_status, sizeof(rknnd_server_status), 16);
    expect_growth(get_run_info, sizeof(rknnd_run_info), 8);
    expect_stride();
    expect_has();
    expect_layers();
    NEED_OK(rknnd_golden_new(context, &golden));
    expect_options(golden);
    expect_without_stored(golden);
    rknnd_golden_free(golden);
    EXPECT_OK(rknn_destroy(context));
    return conformance_finish();
}
