// Archives of models: found beside the program, read whole into memory. What is in them comes from
// the build, but is read as any file is: sizes first.
#include "tools/board/kit.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "tensor/arithmetic.h"
#include "tools/format/json_get.h"

#define TABLE    "kit.json"
#define MAX_FILE (16u << 20) // bytes of one file in an archive
#define MAX_ALL  (64u << 20) // and of all of them
#define MAX_N    4096        // files
#define MAX_ID   60          // of a probe: the journal has it in a line of its own
#define ID_BYTES "abcdefghijklmnopqrstuvwxyz0123456789-"

// ---- where it is ----

// Beside the program: in a build tree and in an installation.
static const char *const places[] = {"../share/rknnd/board-test", "../../share/rknnd/board-test"};

// In the folder that was named, or beside the program.
static int find_archive(const char *folder, const char *chip, char path[PATH_MAX], struct error *e)
{
    char self[PATH_MAX];
    if (folder) {
        snprintf(path, PATH_MAX, "%s/%s.tar.xz", folder, chip);
        if (access(path, R_OK) == 0)
            return 0;
        return error_set_errno(e, STATUS_MODEL_INVALID, errno, "%.300s", path);
    }
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n > 0) {
        self[n] = 0;
        const char *from = dirname(self);
        for (size_t i = 0; i < sizeof places / sizeof *places; i++)
            if (snprintf(path, PATH_MAX, "%s/%s/%s.tar.xz", from, places[i], chip) < PATH_MAX &&
                access(path, R_OK) == 0)
                return 0;
    }
    return error_set(e, STATUS_MODEL_INVALID,
                     "no models for %s were found beside this program (share/rknnd/board-test); "
                     "the package rknnd-tools has those of rk3588, rk3576, rk3566, rk3568, rk3562, "
                     "rv1126b, rv1103 and rv1106",
                     chip);
}

// ---- reading ----

// The archive's next file; its sizes are checked before memory is asked for.
static int add_file(struct kit *k, struct archive *a, struct archive_entry *entry, struct error *e)
{
    int64_t size = archive_entry_size(entry);
    const char *name = archive_entry_pathname(entry);
    size_t all = 0;
    for (size_t i = 0; i < k->n_files; i++)
        all += k->files[i].size;
    if (!name || size < 0 || size > MAX_FILE || all + (size_t)size > MAX_ALL)
        return error_set(e, STATUS_MODEL_INVALID, "a file in it has no name, or %lld bytes",
                         (long long)size);
    if (k->n_files == MAX_N)
        return error_set(e, STATUS_MODEL_INVALID, "it has more than %d files", MAX_N);
    int r = array_reserve(k->files, k->room, k->n_files + 1, "a kit", e);
    if (r < 0)
        return r;
    struct kit_file f = {strdup(name), malloc((size_t)size + 1), (size_t)size};
    k->files[k->n_files++] = f;
    if (!f.name || !f.data)
        return error_no_memory(e, "a kit", (uint64_t)size);
    if (archive_read_data(a, f.data, f.size) != (la_ssize_t)f.size)
        return error_set(e, STATUS_MODEL_INVALID, "%.100s: %s", name, archive_error_string(a));
    return 0;
}

static int read_archive(struct kit *k, const char *path, struct error *e)
{
    struct archive *a = archive_read_new();
    struct archive_entry *entry;
    int r = 0, more = ARCHIVE_OK;
    if (!a)
        return error_no_memory(e, "a kit", 0);
    archive_read_support_filter_xz(a);
    archive_read_support_format_tar(a);
    if (archive_read_open_filename(a, path, 1 << 16) != ARCHIVE_OK)
        r = error_set(e, STATUS_MODEL_INVALID, "%s", archive_error_string(a));
    while (r == 0 && (more = archive_read_next_header(a, &entry)) == ARCHIVE_OK)
        r = add_file(k, a, entry, e);
    if (r == 0 && more != ARCHIVE_EOF)
        r = error_set(e, STATUS_MODEL_INVALID, "%s", archive_error_string(a));
    archive_read_free(a);
    return r < 0 ? error_prefix(e, "%s", path) : 0;
}

// What an answer says of a chip is said by the switch's name: of one that this program does not
// have nothing could be said.
static int check_switch(json_t *probe, struct error *e)
{
    const char *name = json_get_text(probe, "switch");
    json_t *h;
    size_t i;
    int at = 0;
    while (at < CHIP_N_SWITCHES && strcmp(chip_switch_name((enum chip_switch)at), name) != 0)
        at++;
    json_array_foreach(json_object_get(probe, "hypotheses"), i, h)
    {
        const json_t *choice = json_object_get(h, "choice");
        if (choice &&
            (at == CHIP_N_SWITCHES ||
             !chip_switch_choice((enum chip_switch)at, (unsigned)json_integer_value(choice))))
            return error_set(e, STATUS_MODEL_INVALID,
                             TABLE
                             ": probe %.60s: switch \"%.60s\" with choice %" JSON_INTEGER_FORMAT
                             " is none that this rknnctl knows",
                             json_get_text(probe, "id"), name, json_integer_value(choice));
    }
    return 0;
}

// The table is a file among the others.
static int read_table(struct kit *k, struct error *e)
{
    const struct kit_file *f = kit_find(k, TABLE);
    json_error_t wrong;
    if (!f)
        return error_set(e, STATUS_MODEL_INVALID, "the kit has no " TABLE);
    k->table = json_loadb((const char *)f->data, f->size, 0, &wrong);
    if (!k->table)
        return error_set(e, STATUS_MODEL_INVALID, TABLE ":%d: %s", wrong.line, wrong.text);
    if (!json_is_array(json_object_get(k->table, "probes")))
        return error_set(e, STATUS_MODEL_INVALID, TABLE " has no probes");
    json_t *probe;
    size_t i;
    json_array_foreach(json_object_get(k->table, "probes"), i, probe)
    {
        const char *id = json_get_text(probe, "id");
        size_t size = strlen(id);
        if (size == 0 || size > MAX_ID || strspn(id, ID_BYTES) != size)
            return error_set(e, STATUS_MODEL_INVALID,
                             TABLE ": probe %zu has no id of 1 to %d bytes, each of " ID_BYTES,
                             i + 1, MAX_ID);
        int r = check_switch(probe, e);
        if (r < 0)
            return r;
    }
    return 0;
}

// What was read of a kit that turns out to be none is the caller's to close.
int kit_open_file(struct kit *k, const char *path, struct error *e)
{
    *k = (struct kit){0};
    int r = read_archive(k, path, e);
    return r == 0 ? read_table(k, e) : r;
}

int kit_open(struct kit *k, const char *folder, const char *chip, struct error *e)
{
    char path[PATH_MAX];
    *k = (struct kit){0};
    int r = find_archive(folder, chip, path, e);
    return r == 0 ? kit_open_file(k, path, e) : r;
}

void kit_close(struct kit *k)
{
    for (size_t i = 0; i < k->n_files; i++) {
        free(k->files[i].name);
        free(k->files[i].data);
    }
    free(k->files);
    json_decref(k->table);
    *k = (struct kit){0};
}

// Names come from the table and from nowhere else.
const struct kit_file *kit_find(const struct kit *k, const char *name)
{
    for (size_t i = 0; name && i < k->n_files; i++)
        if (k->files[i].name && strcmp(k->files[i].name, name) == 0)
            return &k->files[i];
    return NULL;
}

// There are few: no index is needed.
json_t *kit_probe(const struct kit *k, const char *id)
{
    json_t *list = json_object_get(k->table, "probes"), *probe;
    size_t i;
    json_array_foreach(list, i, probe)
    {
        if (strcmp(json_get_text(probe, "id"), id) == 0)
            return probe;
    }
    return NULL;
}
