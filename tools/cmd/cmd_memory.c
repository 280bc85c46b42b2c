// rknnctl memory: what a model takes of memory, and which layer needs how much of it when.
// memory_measure() asks, arena_print() draws.
#include "tools/run/memory_use.h"

#include <stdio.h>

#include "tools/format/format.h"
#include "tools/rknnctl.h"
#include "tools/run/description.h"
#include "tools/ui/print.h"
#include "tools/ui/terminal.h"
#include "tools/view/arena.h"

// The runtime's SRAM, and what the chip's could do: the share of internal traffic that would stay
// in it, by the estimate.
static void print_sram(const struct memory *m)
{
    struct format_buffer b, c;
    json_t *estimate = json_object_get(m->description, "estimate");
    uint64_t size = (uint64_t)json_integer_value(json_object_get(estimate, "sram_size"));
    uint64_t moved = (uint64_t)json_integer_value(json_object_get(estimate, "internal_bytes"));
    uint64_t hits = (uint64_t)json_integer_value(json_object_get(estimate, "sram_bytes"));
    if (m->size.total_sram_size)
        print_line("SRAM", "%s free of %s", format_bytes(&b, m->size.free_sram_size),
                   format_bytes(&c, m->size.total_sram_size));
    else
        print_line("SRAM", "none for models");
    if (size && moved)
        print_line("", "with all %s of the %s, %.1f%% of internal traffic", format_bytes(&b, size),
                   json_string_value(json_object_get(estimate, "chip")),
                   100 * (double)hits / (double)moved);
}

// The names of the first lines are the SDK guide's.
static void memory_print_text(const struct memory *m, const struct task *task)
{
    struct format_buffer b;
    printf("%s on ", task->model);
    print_server_line(&m->server);
    putchar('\n');
    print_heading("Memory");
    print_line("Weight Memory", "%s", format_bytes(&b, m->size.total_weight_size));
    print_line("Internal", "%s of tensors", format_bytes(&b, m->size.total_internal_size));
    print_line("Other Memory", "%s", format_bytes(&b, memory_other(m)));
    print_line("Total Memory", "%s", format_bytes(&b, memory_total(m)));
    print_line("model", "%s, the file", format_bytes(&b, m->file_size));
    print_sram(m);
    print_heading("Internal memory over time (# is written, = is kept)");
    if (json_array_size(json_object_get(m->description, "arena")) == 0)
        printf("  the server does not say where tensors lie\n");
    else
        arena_print(m->description, stdout, terminal_width(stdout));
}

static int memory_print_json(const struct memory *m, const struct task *task, struct error *e)
{
    json_t *o = memory_json(m);
    json_object_set_new(o, "model", print_json_text(task->model));
    json_object_set_new(o, "server", print_server_json(&m->server));
    return print_json(o, e);
}

// The model is opened, so that the sizes are those of a real context on this server.
int cmd_memory(const struct settings *settings, int argc, char **argv, struct error *e)
{
    (void)settings;
    struct task task = TASK_INIT;
    struct memory m = {0};
    bool json = false, csv = false;
    const struct option_row rows[] = {
        TASK_SHAPE(&task),
        OPTIONS_JSON(&json),
        OPTIONS_CSV(&csv),
    };
    const struct cmd_options options = {
        .usage = "memory MODEL",
        .summary =
            "Shows what a model takes of memory: weights, tensors between layers, the rest;\n"
            "and which layer needs how much of it, and where.",
        .rows = rows,
        .n_rows = sizeof rows / sizeof *rows,
    };
    int r = task_parse(&task, &options, argc, argv, e);
    if (r == 0)
        r = cmd_options_check_form(json, csv, e);
    if (r == 0)
        r = memory_measure(&m, &task, e);
    if (r == 0 && !json)
        r = description_make_printable(&m.description, e);
    if (r == 0 && json)
        r = memory_print_json(&m, &task, e);
    else if (r == 0 && csv)
        arena_csv(m.description, stdout);
    else if (r == 0)
        memory_print_text(&m, &task);
    memory_done(&m);
    task_done(&task);
    return r;
}
