// rknnctl memory: what a model takes of it.
#include <stdio.h>
#include <sys/stat.h>

#include "rknnd.h"
#include "tools/arena.h"
#include "tools/description.h"
#include "tools/format.h"
#include "tools/report.h"
#include "tools/rknnctl.h"
#include "tools/terminal.h"

struct memory {
    rknnd_server_info server;
    rknn_mem_size size;
    uint64_t file_size;
    json_t *description;
};

static int measure(struct memory *m, const struct task *task, struct failure *f)
{
    struct model model;
    struct stat file;
    int r = task_open(task, 0, &model, f);
    if (r == 0)
        r = report_get_server(&m->server, f);
    if (r == 0) {
        r = rknn_query(model.context, RKNN_QUERY_MEM_SIZE, &m->size, sizeof m->size);
        r = r < 0 ? failure_rknn(f, r, "model %s", task->model) : 0;
    }
    if (r == 0)
        r = description_get(task, &m->description, f);
    m->file_size = stat(task->model, &file) == 0 ? (uint64_t)file.st_size : 0;
    model_close(&model);
    return r;
}

static uint64_t other(const rknn_mem_size *s)
{
    uint64_t known = (uint64_t)s->total_weight_size + s->total_internal_size;
    return s->total_dma_allocated_size > known ? s->total_dma_allocated_size - known : 0;
}

static uint64_t total(const rknn_mem_size *s)
{
    return (uint64_t)s->total_weight_size + s->total_internal_size + other(s);
}

static void print_sram(const struct memory *m)
{
    struct format_buffer b, c;
    json_t *estimate = json_object_get(m->description, "estimate");
    uint64_t size = (uint64_t)json_integer_value(json_object_get(estimate, "sram_size"));
    uint64_t moved = (uint64_t)json_integer_value(json_object_get(estimate, "internal_bytes"));
    uint64_t hits = (uint64_t)json_integer_value(json_object_get(estimate, "sram_bytes"));
    report_line("SRAM", "%s free of %s", format_bytes(&b, m->size.free_sram_size),
                format_bytes(&c, m->size.total_sram_size));
    if (size && moved)
        report_line("", "with all %s of the %s, %.1f%% of internal traffic", format_bytes(&b, size),
                    json_string_value(json_object_get(estimate, "chip")),
                    100 * (double)hits / (double)moved);
}

static void print_text(const struct memory *m, const struct task *task)
{
    struct format_buffer b;
    printf("%s on ", task->model);
    report_server_line(&m->server);
    putchar('\n');
    report_heading("Memory");
    report_line("Weight Memory", "%s", format_bytes(&b, m->size.total_weight_size));
    report_line("Internal", "%s of tensors", format_bytes(&b, m->size.total_internal_size));
    report_line("Other Memory", "%s", format_bytes(&b, other(&m->size)));
    report_line("Total Memory", "%s", format_bytes(&b, total(&m->size)));
    report_line("model", "%s, the file", format_bytes(&b, m->file_size));
    print_sram(m);
    report_heading("Internal memory over time (# is written, = is kept)");
    if (json_array_size(json_object_get(m->description, "arena")) == 0)
        printf("  the server does not say where tensors lie\n");
    else
        arena_print(m->description, stdout, terminal_width(stdout));
}

static int print_json(const struct memory *m, const struct task *task, struct failure *f)
{
    const rknn_mem_size *s = &m->size;
    json_t *arena = json_object_get(m->description, "arena");
    json_t *estimate = json_object_get(m->description, "estimate");
    return report_json(
        json_pack("{s:s, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:O?, s:O?}", "model", task->model,
                  "server", report_server_json(&m->server), "weight_bytes",
                  (json_int_t)s->total_weight_size, "internal_bytes",
                  (json_int_t)s->total_internal_size, "other_bytes", (json_int_t)other(s),
                  "total_bytes", (json_int_t)total(s), "file_bytes", (json_int_t)m->file_size,
                  "sram_bytes", (json_int_t)s->total_sram_size, "free_sram_bytes",
                  (json_int_t)s->free_sram_size, "arena", arena, "estimate", estimate),
        f);
}

int cmd_memory(const struct settings *settings, int argc, char **argv, struct failure *f)
{
    (void)settings;
    struct task task = TASK_INIT;
    struct memory m = {0};
    bool json = false;
    const struct option_row rows[] = {
        TASK_SHAPE(&task),
        {'j', "json", OPTION_FLAG, &json, NULL, "print JSON", 0, 0},
    };
    const struct options options = {
        .usage = "[--server URI] memory MODEL",
        .summary =
            "Shows what a model takes of memory: weights, tensors between layers, the rest;\n"
            "and which layer needs how much of it, and where.",
        .rows = rows,
        .n_rows = sizeof rows / sizeof *rows,
    };
    int r = task_parse(&task, &options, argc, argv, f);
    if (r == 0)
        r = measure(&m, &task, f);
    if (r == 0 && json)
        r = print_json(&m, &task, f);
    else if (r == 0)
        print_text(&m, &task);
    json_decref(m.description);
    task_done(&task);
    return r;
}
