// rknnctl model: models that the server keeps by name.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file/output_file.h"
#include "tools/format/format.h"
#include "tools/format/table.h"
#include "tools/rknnctl.h"
#include "tools/ui/cmd_options.h"
#include "tools/ui/print.h"
#include "tools/ui/progress.h"
#include "tools/ui/rknn_error.h"
#include "tools/ui/terminal.h"

#define MAX_LABELS (2u << 20)

struct model_words {
    const char *labels, *output;
    bool make_default, unchecked, json, csv;
};

static void json_decref_p(json_t **j)
{
    json_decref(*j);
}

// "2026-11-24 12:30", in this machine's time.
static const char *show_time(uint64_t time_s, char ret[32])
{
    time_t t = (time_t)time_s;
    struct tm tm;
    if (!localtime_r(&t, &tm) || !strftime(ret, 32, "%Y-%m-%d %H:%M", &tm))
        snprintf(ret, 32, "-");
    return ret;
}

static json_t *stored_json(const rknnd_stored_model *m)
{
    return json_pack("{s:s, s:s, s:b, s:s, s:I, s:s, s:s, s:I, s:I, s:s, s:I, s:b, s:s}", "name",
                     m->name, "version", m->version, "default", m->is_default, "sha256", m->sha256,
                     "size", (json_int_t)m->size, "file", m->file, "owner", m->owner, "time",
                     (json_int_t)m->time_s, "batch", (json_int_t)m->batch, "chip", m->chip,
                     "labels", (json_int_t)m->n_labels, "loaded", m->loaded, "problem", m->problem);
}

// ---- push ---------------------------------------------------------------------------------------

#define LETTERS_DIGITS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

// What the file is called, without its folder and ending, if that can be a model's name.
static int name_of_file(const char *path, char ret[65], struct error *e)
{
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
    const char *dot = strrchr(file, '.');
    size_t n = dot && dot > file ? (size_t)(dot - file) : strlen(file);
    if (n > 64 || strspn(file, LETTERS_DIGITS ".-_") < n || strspn(file, LETTERS_DIGITS) == 0)
        return error_set(e, STATUS_PARAM_INVALID,
                         "%s: a model cannot have the file's name (1 to 64 letters, digits, '.', "
                         "'_' and '-'): say another one, model push FILE NAME[@VERSION]",
                         path);
    snprintf(ret, 65, "%.*s", (int)n, file);
    return 0;
}

static int read_labels(const char *path, char **ret, struct error *e)
{
    cleanup(fclose_p) FILE *f = fopen(path, "re");
    cleanup(free_p) char *text = f ? malloc(MAX_LABELS + 2) : NULL;
    if (!f)
        return error_set_errno(e, STATUS_PARAM_INVALID, errno, "--labels %s", path);
    if (!text)
        return error_no_memory(e, "labels", MAX_LABELS);
    size_t n = fread(text, 1, MAX_LABELS + 1, f);
    if (ferror(f))
        return error_set(e, STATUS_PARAM_INVALID, "--labels %s cannot be read", path);
    if (n > MAX_LABELS || memchr(text, 0, n))
        return error_set(e, STATUS_PARAM_INVALID,
                         "--labels %s: no text of at most %u bytes, a name each line", path,
                         MAX_LABELS);
    text[n] = 0;
    *ret = steal_ptr(text);
    return 0;
}

static int push_done(const rknnd_stored_model *m, const struct model_words *w, struct error *e)
{
    struct format_buffer size;
    if (w->json)
        return print_json(stored_json(m), e);
    printf("%s@%s is stored (%s%s%s). Programs open it as rknnd:%s%s%s\n", m->name, m->version,
           format_bytes(&size, m->size), *m->chip ? ", " : "", m->chip, m->name,
           m->is_default ? "" : "@", m->is_default ? "" : m->version);
    return 0;
}

static int make_default(rknnd_stored_model *m, struct error *e)
{
    char name[128];
    snprintf(name, sizeof name, "%s@%s", m->name, m->version);
    int r = rknnd_set_default_model(NULL, name);
    m->is_default = 1;
    return r < 0 ? rknn_error_set(e, r, "%s is stored; --default", name) : 0;
}

// Whether programs are to say which shapes an ONNX file's inputs have.
static bool has_open_shapes(const json_t *description)
{
    const json_t *input, *dim;
    size_t i, k;
    json_array_foreach(json_object_get(description, "inputs"), i, input) json_array_foreach(
        json_object_get(input, "shape"), k, dim) if (json_is_null(dim)) return true;
    return false;
}

// What the server could not open, as a copy that broke off, would take the place of a version that
// can be opened. It reads the file for that, and loads nothing. Failures that say nothing of the
// file, and files that are not there, are for the push. One that wants shapes of who opens it has
// been read to its end.
static int check_model(const char *path, struct error *e)
{
    char *text = NULL;
    int r = rknnd_describe_model(NULL, path, &text);
    if (r == RKNN_ERR_MODEL_INVALID || r == RKNN_ERR_TARGET_PLATFORM_UNMATCH) {
        rknn_error_model(e, r, path);
        return error_prefix(e, "nothing is stored (--unchecked: as it is)");
    }
    cleanup(json_decref_p) json_t *description = r == 0 ? json_loads(text, 0, NULL) : NULL;
    const char *why = json_string_value(json_object_get(description, "refused"));
    rknnd_free(text);
    return why && !has_open_shapes(description)
               ? error_set(e, STATUS_MODEL_INVALID,
                           "nothing is stored (--unchecked: as it is): model %s: %s", path, why)
               : 0;
}

static int model_push(const struct model_words *w, int argc, char **argv, struct error *e)
{
    cleanup(free_p) char *labels = NULL;
    char from_file[65];
    rknnd_stored_model m = {.struct_size = sizeof m};
    struct progress upload;
    int r = argc > 1 ? 0 : name_of_file(argv[0], from_file, e);
    if (r == 0 && w->labels)
        r = read_labels(w->labels, &labels, e);
    if (r < 0)
        return r;
    progress_start(&upload, argv[0]);
    r = w->unchecked || access(argv[0], R_OK) < 0 ? 0 : check_model(argv[0], e);
    if (r < 0) {
        progress_end(&upload);
        return r;
    }
    r = rknnd_push_model(NULL, argv[0], argc > 1 ? argv[1] : from_file, labels, &m);
    progress_end(&upload);
    if (r < 0)
        return rknn_error_set(e, r, "%s", argv[0]);
    r = w->make_default ? make_default(&m, e) : 0;
    return r < 0 ? r : push_done(&m, w, e);
}

// ---- list ---------------------------------------------------------------------------------------

// In a spreadsheet sizes are bytes.
static void add_row(struct table *t, const rknnd_stored_model *m, bool csv)
{
    char time[32];
    struct format_buffer size;
    table_cell(t, "%s", m->name);
    table_cell(t, "%s", m->version);
    table_cell(t, "%s", m->is_default ? "yes" : "");
    table_cell(t, "%s", *m->chip ? m->chip : "-");
    table_cell(t, "%u", m->batch);
    table_cell(t, "%u", m->n_labels);
    if (csv)
        table_cell(t, "%llu", (unsigned long long)m->size);
    else
        table_cell(t, "%s", format_bytes(&size, m->size));
    table_cell(t, "%s", *m->owner ? m->owner : "-");
    table_cell(t, "%s", show_time(m->time_s, time));
    table_cell(t, "%s", *m->problem ? m->problem : m->loaded ? "loaded" : "");
}

static int print_models(const rknnd_list *list, bool csv, struct error *e)
{
    static const struct table_column columns[] = {
        {"name", TABLE_LEFT, TABLE_CUT_START, 0}, {"version", TABLE_LEFT, TABLE_FIXED, 0},
        {"default", TABLE_LEFT, TABLE_FIXED, 0},  {"chip", TABLE_LEFT, TABLE_FIXED, 0},
        {"batch", TABLE_RIGHT, TABLE_FIXED, 3},   {"labels", TABLE_RIGHT, TABLE_FIXED, 4},
        {"size", TABLE_RIGHT, TABLE_FIXED, 0},    {"by", TABLE_LEFT, TABLE_CUT_END, 2},
        {"pushed", TABLE_LEFT, TABLE_FIXED, 1},   {"state", TABLE_LEFT, TABLE_CUT_END, 0}};
    struct table t;
    table_init(&t, columns, sizeof columns / sizeof *columns);
    for (uint32_t i = 0; i < list->n; i++)
        add_row(&t, rknnd_stored_model_at(list, i), csv);
    int r = csv ? table_csv(&t, stdout) : table_print(&t, stdout, "", terminal_width(stdout));
    table_done(&t);
    return r < 0 ? error_no_memory(e, "a table", 0) : 0;
}

static int print_models_json(const rknnd_list *list, struct error *e)
{
    json_t *all = json_array();
    for (uint32_t i = 0; i < list->n; i++)
        json_array_append_new(all, stored_json(rknnd_stored_model_at(list, i)));
    return print_json(all, e);
}

static int model_list(const struct model_words *w, int argc, char **argv, struct error *e)
{
    rknnd_list *list;
    (void)argc, (void)argv;
    int r = cmd_options_check_form(w->json, w->csv, e);
    if (r < 0)
        return r;
    r = rknnd_list_models(NULL, &list);
    if (r < 0)
        return rknn_error_set(e, r, "%s", "");
    r = w->json ? print_models_json(list, e) : print_models(list, w->csv, e);
    rknnd_free(list);
    return r;
}

// ---- show ---------------------------------------------------------------------------------------

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text && *text ? text : "-";
}

static void show_tensors(const json_t *manifest, const char *which)
{
    const json_t *tensor;
    size_t i;
    json_array_foreach(json_object_get(manifest, which), i, tensor)
    {
        cleanup(free_p) char *shape = json_dumps(json_object_get(tensor, "shape"), JSON_COMPACT);
        print_line(which, "%s %s %s", text_of(tensor, "name"), text_of(tensor, "type"),
                   shape ? shape : "");
    }
}

static void show_labels(const json_t *labels)
{
    size_t n = json_array_size(labels);
    if (n > 0)
        print_line("labels", "%zu: %s, …, %s", n, json_string_value(json_array_get(labels, 0)),
                   json_string_value(json_array_get(labels, n - 1)));
}

static void show_manifest(const char *name, const json_t *m)
{
    struct format_buffer size;
    char time[32];
    print_heading("%s", name);
    print_line("file", "%s", text_of(m, "file"));
    print_line("size", "%s",
               format_bytes(&size, (uint64_t)json_integer_value(json_object_get(m, "size"))));
    print_line("sha256", "%s", text_of(m, "sha256"));
    print_line("chip", "%s", text_of(m, "chip"));
    print_line("by", "%s, %s", text_of(m, "owner"),
               show_time((uint64_t)json_integer_value(json_object_get(m, "time")), time));
    show_tensors(m, "inputs");
    show_tensors(m, "outputs");
    show_labels(json_object_get(m, "labels"));
}

static int model_show(const struct model_words *w, int argc, char **argv, struct error *e)
{
    char *text;
    json_error_t why;
    (void)argc;
    int r = rknnd_get_manifest(NULL, argv[0], &text);
    if (r < 0)
        return rknn_error_set(e, r, "%s", "");
    cleanup(json_decref_p) json_t *manifest = json_loads(text, 0, &why);
    rknnd_free(text);
    if (!manifest)
        return error_set(e, STATUS_FAIL, "the server's manifest of %s: %s", argv[0], why.text);
    if (w->json)
        return print_json(json_incref(manifest), e);
    show_manifest(argv[0], manifest);
    return 0;
}

// ---- remove, default, pull ----------------------------------------------------------------------

static int model_remove(const struct model_words *w, int argc, char **argv, struct error *e)
{
    (void)w;
    for (int i = 0; i < argc; i++) {
        int r = rknnd_remove_model(NULL, argv[i]);
        if (r < 0)
            return rknn_error_set(e, r, "%s", "");
    }
    return 0;
}

static int model_default(const struct model_words *w, int argc, char **argv, struct error *e)
{
    (void)w, (void)argc;
    int r = rknnd_set_default_model(NULL, argv[0]);
    return r < 0 ? rknn_error_set(e, r, "%s", "") : 0;
}

struct pulled {
    FILE *stream;
    int error; // of a part that could not be written
};

static int write_part(void *user, const void *data, size_t size)
{
    struct pulled *p = user;
    if (fwrite(data, 1, size, p->stream) == size)
        return 0;
    p->error = errno;
    return STATUS_FAIL;
}

// Under the name that the file had where it came from, unless that has a folder in it.
static int model_pull(const struct model_words *w, int argc, char **argv, struct error *e)
{
    struct output_file file;
    struct progress progress;
    char own[140];
    (void)argc;
    snprintf(own, sizeof own, "%.120s", argv[0]);
    own[strcspn(own, "/")] = 0;
    const char *path = w->output ? w->output : own;
    int r = output_file_open(&file, path, e);
    if (r < 0)
        return r;
    struct pulled pulled = {.stream = file.stream};
    progress_start(&progress, argv[0]);
    r = rknnd_pull_model(NULL, argv[0], write_part, &pulled, NULL);
    progress_end(&progress);
    if (r == 0)
        return output_file_close(&file, e);
    output_file_drop(&file);
    return pulled.error ? error_set_errno(e, STATUS_FAIL, pulled.error, "%s", path)
                        : rknn_error_set(e, r, "%s", "");
}

// ---- all of them --------------------------------------------------------------------------------

static const struct action {
    const char *name, *arguments;
    int min, max;
    int (*run)(const struct model_words *w, int argc, char **argv, struct error *e);
} actions[] = {
    {"push", "FILE [NAME[@VERSION]]", 1, 2, model_push},
    {"list", "", 0, 0, model_list},
    {"show", "NAME[@VERSION]", 1, 1, model_show},
    {"pull", "NAME[@VERSION]", 1, 1, model_pull},
    {"default", "NAME[@VERSION]", 1, 1, model_default},
    {"remove", "NAME[@VERSION]…", 1, 1000, model_remove},
};

static int run_action(const struct model_words *w, int argc, char **argv, struct error *e)
{
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++) {
        const struct action *a = &actions[i];
        if (strcmp(argv[0], a->name) != 0)
            continue;
        if (argc - 1 < a->min)
            return error_set(e, STATUS_PARAM_INVALID, "it should be: rknnctl model %s %s", a->name,
                             a->arguments);
        if (argc - 1 > a->max)
            return error_set(e, STATUS_PARAM_INVALID, "unexpected argument \"%.200s\"",
                             argv[a->max + 1]);
        if ((w->labels || w->make_default || w->unchecked) && a->run != model_push)
            return error_set(e, STATUS_PARAM_INVALID,
                             "--labels, --default and --unchecked belong to push");
        return a->run(w, argc - 1, argv + 1, e);
    }
    return error_set(e, STATUS_PARAM_INVALID,
                     "\"%s\" is none of push, list, show, pull, default, remove", argv[0]);
}

int cmd_model(const struct settings *settings, int argc, char **argv, struct error *e)
{
    struct model_words w = {0};
    (void)settings;
    const struct option_row rows[] = {
        {0, "labels", OPTION_TEXT, &w.labels, "FILE",
         "push: names of the model's classes, one a line", 0, 0, NULL},
        {0, "default", OPTION_FLAG, &w.make_default, NULL,
         "push: NAME alone means this version from now on", 0, 0, NULL},
        {0, "unchecked", OPTION_FLAG, &w.unchecked, NULL,
         "push: store it also if the server cannot open it", 0, 0, NULL},
        OPTIONS_OUTPUT(&w.output, "FILE", "pull: where to write it (default: NAME)"),
        OPTIONS_JSON(&w.json),
        OPTIONS_CSV(&w.csv),
    };
    const struct cmd_options options = {
        .usage = "model push|list|show|pull|default|remove [ARGUMENT…]",
        .summary = "Keeps models on the server, by name and version: push FILE [NAME[@VERSION]],\n"
                   "list, show, pull, default and remove NAME[@VERSION]. Programs, and other\n"
                   "commands, open them as rknnd:NAME or rknnd:NAME@VERSION where they would give\n"
                   "the path of a file.",
        .rows = rows,
        .n_rows = sizeof rows / sizeof *rows,
    };
    int first, r = cmd_options_parse_n(&options, argc, argv, 1, argc, &first, e);
    return r ? r : run_action(&w, argc - first, argv + first, e);
}
