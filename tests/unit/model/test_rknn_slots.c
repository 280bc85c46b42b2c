// Nothing unread: a table of a model file that has one slot more, or an attribute that no operator
// has, is refused with the place and what it holds. The files are real ones and our writer's.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "npu/model/rknn/rknn_file.h"
#include "tests/support/sim_support.h"

#define NEW_SLOT 30 // no table has so many

static struct npu_device *device;

static const char *const models[] = {
    "@tests/fuzz/corpus/rknn/argmax.rknn",
    "@tests/fuzz/corpus/rknn/rk3588_half_groups.rknn",
    "@tests/fuzz/corpus/rknn/rv1106_2_1.rknn",
    "@examples/digits/digits.rknn",
    "rknn/lprnet.rk3568.rknn",
    "rknn/multiple_input_demo_container2.rk3562.rknn",
    "rknn/retinaface.rv1106.rknn",
    "rknn/sub2_after_mul.rk3588.rknn",
    "strangers/osnet_container1.rk3588.rknn",
    "strangers/lprnet_us.rk3576.rknn",
    "strangers/mobilenetv2.rk3562.rknn",
    "strangers/retinaface.rv1126b.rknn",
    "strangers/yolov8.rv1103.rknn",
    "strangers/zipformer_decoder.rk3588.rknn",
};

struct model {
    struct sim_file bytes;
    struct rknn_file file;
    size_t meta;  // where its flatbuffer starts
    bool of_lite; // 0x1004
};

static bool model_open(struct model *m, const char *name)
{
    struct error e = {0};
    *m = (struct model){0};
    bool ours = name[0] == '@';
    if (ours ? !sim_file_read(&m->bytes, "%s/%s", PROJECT_ROOT, name + 1)
             : !sim_shared_folder() ||
                   !sim_file_read(&m->bytes, "%s/models/%s", sim_shared_folder(), name))
        return false;
    if (rknn_file_open(&m->file, (struct bytes){m->bytes.data, m->bytes.size}, &e) < 0)
        fail_msg("%s: %s", name, e.text);
    m->meta = (size_t)(m->file.container.meta.data - m->bytes.data);
    m->of_lite = m->file.container.kind == RKNN_LITE;
    return true;
}

static void model_close(struct model *m)
{
    rknn_file_done(&m->file);
    sim_file_free(&m->bytes);
}

static void add_to(uint8_t *number, uint32_t more)
{
    uint32_t sum = read_le32(number) + more;
    for (int i = 0; i < 4; i++)
        number[i] = (uint8_t)(sum >> 8 * i);
}

// The file with `size` bytes behind its flatbuffer. To be freed.
static uint8_t *longer(const struct model *m, const uint8_t *tail, size_t size)
{
    size_t end = m->meta + m->file.container.meta.size;
    uint8_t *copy = malloc(m->bytes.size + size);
    assert_non_null(copy);
    memcpy(copy, m->bytes.data, end);
    memcpy(copy + end, tail, size);
    memcpy(copy + end + size, m->bytes.data + end, m->bytes.size - end);
    add_to(copy + 0x10, (uint32_t)size);
    if (m->of_lite)
        add_to(copy + 0x40, (uint32_t)size);
    return copy;
}

static void expect_refused(const uint8_t *data, size_t size, const char *model, const char *where,
                           const char *words)
{
    struct error e = {0};
    struct npu_model *loaded = NULL;
    struct npu_model_source source = {.file = {data, size}, .name = model};
    int r = npu_backend.model_load(device, &source, &loaded, &e);
    npu_backend.model_free(loaded);
    if (r >= 0)
        fail_msg("%s: what is new in %s was not seen", model, where);
    if (r != STATUS_MODEL_INVALID || !strstr(e.text, words))
        fail_msg("%s: %s: \"%s\" does not say \"%s\"", model, where, e.text, words);
}

// Gives the table a vtable of its own, behind everything, with one slot more, which shares the
// bytes of one that says something.
static void one_slot_more(const struct model *m, const char *model, const struct fb_table *t,
                          const char *where)
{
    uint32_t value, said = 0;
    while (said < t->n_slots && !fb_says(t, said, &value))
        said++;
    if (said >= t->n_slots)
        return;
    const uint8_t *meta = m->file.container.meta.data;
    size_t old = 4 + 2 * (size_t)t->n_slots, size = 4 + 2 * (NEW_SLOT + 1);
    size_t gap = m->file.container.meta.size % 2; // vtables lie at even places
    uint8_t vtable[80] = {0}, *to = vtable + gap;
    assert_cmp(old, <, size);
    memcpy(to, meta + t->vtable, old);
    to[0] = (uint8_t)size;
    memcpy(to + size - 2, meta + t->vtable + 4 + 2 * (size_t)said, 2);
    uint8_t *copy = longer(m, vtable, gap + size);
    uint32_t at = (uint32_t)(m->file.container.meta.size + gap), back = t->at - at;
    for (int i = 0; i < 4; i++)
        copy[m->meta + t->at + (size_t)i] = (uint8_t)(back >> 8 * i);
    char words[40];
    snprintf(words, sizeof words, "number %u of its", (unsigned)NEW_SLOT);
    expect_refused(copy, m->bytes.size + gap + size, model, where, words);
    free(copy);
}

static struct fb_table first(const struct fb_table *of, unsigned slot)
{
    struct fb_list list = fb_tables(of, slot);
    return list.n ? fb_list_get(&list, 0) : (struct fb_table){.fb = of->fb};
}

static bool computes(const struct rknn_node *n)
{
    return strcmp(n->op, "InputOperator") != 0 && strcmp(n->op, "OutputOperator") != 0;
}

static void tables_have_no_slot_more(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        struct model m;
        if (!model_open(&m, models[i]))
            continue;
        struct fb_table root = fb_root(&m.file.fb, "RKNN"), graph = first(&root, 2);
        one_slot_more(&m, models[i], &root, "the root table");
        one_slot_more(&m, models[i], &graph, "the graph");
        struct fb_table mean = first(&graph, 4), sizes = fb_sub(&root, 19);
        one_slot_more(&m, models[i], &mean, "an input's mean");
        if (!m.of_lite)
            one_slot_more(&m, models[i], &sizes, "the sizes");
        struct fb_list tensors = fb_tables(&graph, 0), nodes = fb_tables(&graph, 1);
        struct fb_table input = fb_list_get(&tensors, m.file.inputs[0]);
        one_slot_more(&m, models[i], &input, "the input");
        for (uint32_t n = 0; n < m.file.n_nodes && n < 8; n++) {
            struct fb_table node = fb_list_get(&nodes, n), task = first(&node, 6);
            if (!computes(&m.file.nodes[n]))
                continue;
            one_slot_more(&m, models[i], &node, m.file.nodes[n].name);
            if (strncmp(m.file.nodes[n].op, "cst", 3) != 0)
                one_slot_more(&m, models[i], &m.file.nodes[n].attr, m.file.nodes[n].name);
            if (m.file.container.blobs)
                one_slot_more(&m, models[i], &task, "a task");
        }
        model_close(&m);
    }
}

// Turns the last letter of each attribute's name, where BSON has them: 0x03, the name, 0.
static void attributes_have_known_names(void **state)
{
    (void)state;
    uint32_t tried = 0;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        struct model m;
        if (!model_open(&m, models[i]))
            continue;
        for (uint32_t n = 0; n < m.file.n_nodes && tried < 100; n++) {
            struct bytes b = m.file.nodes[n].bson;
            if (!computes(&m.file.nodes[n]) || strncmp(m.file.nodes[n].op, "cst", 3) == 0 ||
                b.size < 8 || b.data[4] != 3)
                continue;
            uint8_t *name = m.bytes.data + (b.data - m.bytes.data) + 5, *last = name;
            char words[80];
            while (last[1])
                last++;
            *last ^= 0x1f;
            snprintf(words, sizeof words, "\"%s\"", (const char *)name);
            expect_refused(m.bytes.data, m.bytes.size, models[i], m.file.nodes[n].name, words);
            *last ^= 0x1f;
            tried++;
        }
        model_close(&m);
    }
    assert_cmp(tried, >, 2);
}

int main(void)
{
    struct error e;
    if (npu_backend.device_open("any,strict", &device, &e) < 0)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_have_no_slot_more),
        cmocka_unit_test(attributes_have_known_names),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    npu_backend.device_free(device);
    return failed;
}
