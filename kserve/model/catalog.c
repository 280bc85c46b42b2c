// A folder is listed anew each time it is asked for: files come and go without a word. What makes a
// model another one is its stamp, of which its options are a part. A model that cannot be served
// stays in the list with its obstacle, for the index tells what is wrong with it.
#include "kserve/model/catalog.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "kserve/small_file.h"

#define MAX_OPTIONS 4096
#define MAX_MODELS  4096

static void model_done(struct catalog_model *m)
{
    free(m->options);
    free(m->labels);
}

void catalog_done(struct catalog *c)
{
    for (size_t i = 0; i < c->n; i++)
        model_done(&c->models[i]);
    free(c->models);
    *c = (struct catalog){0};
}

struct catalog_model *catalog_add(struct catalog *c, const char *name, const char *version,
                                  struct error *e)
{
    if (c->n == MAX_MODELS) {
        error_set(e, STATUS_FAIL, "there are more than %d models", MAX_MODELS);
        return NULL;
    }
    if (array_reserve(c->models, c->room, c->n + 1, "models", e) < 0)
        return NULL;
    struct catalog_model *m = &c->models[c->n++];
    *m = (struct catalog_model){0};
    snprintf(m->name, sizeof m->name, "%s", name);
    snprintf(m->version, sizeof m->version, "%s", version);
    return m;
}

static int compare_models(const void *a, const void *b)
{
    const struct catalog_model *x = a, *y = b;
    int r = strcmp(x->name, y->name);
    if (r == 0)
        r = (x->rank > y->rank) - (x->rank < y->rank);
    if (r == 0)
        r = strcmp(x->version, y->version);
    return r ? r : strcmp(x->path, y->path);
}

void catalog_finish(struct catalog *c)
{
    if (c->n == 0)
        return;
    qsort(c->models, c->n, sizeof *c->models, compare_models);
    size_t n = 1;
    for (size_t i = 1; i < c->n; i++) {
        struct catalog_model *last = &c->models[n - 1], *m = &c->models[i];
        if (strcmp(last->name, m->name) == 0 && strcmp(last->version, m->version) == 0) {
            snprintf(last->obstacle, sizeof last->obstacle,
                     "there are %.200s and %.200s: remove one", last->path, m->path);
            model_done(m);
        } else {
            c->models[n++] = *m;
        }
    }
    c->n = n;
}

// ---- a folder -----------------------------------------------------------------------------------

static bool is_model_file(const char *name, size_t *ret_stem)
{
    const char *dot = strrchr(name, '.');
    *ret_stem = dot ? (size_t)(dot - name) : 0;
    return *ret_stem > 0 && name[0] != '.' &&
           (strcmp(dot, ".rknn") == 0 || strcmp(dot, ".onnx") == 0);
}

// As in Triton's repositories: a folder of another name is none of a model's versions. 18 digits
// fit an int64_t.
static bool is_version(const char *name)
{
    return name[0] >= '1' && name[0] <= '9' && strlen(name) <= 18 &&
           strspn(name, "0123456789") == strlen(name);
}

// Changes with the file, its times and its place on the disk. False: there is none.
static bool add_stamp(struct catalog_model *m, const char *path)
{
    struct stat s;
    if (stat(path, &s) < 0)
        return false;
    const uint64_t parts[] = {(uint64_t)s.st_ino, (uint64_t)s.st_size, (uint64_t)s.st_mtim.tv_sec,
                              (uint64_t)s.st_mtim.tv_nsec};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        m->stamp = (m->stamp ^ parts[i]) * 0x9e3779b97f4a7c15;
    return true;
}

// `stem`: what is in front of "options" and "labels" in the names of the files beside it.
static int find_labels(struct catalog_model *m, const char *folder, const char *stem,
                       struct error *e)
{
    char path[sizeof m->path];
    if (snprintf(path, sizeof path, "%s/%slabels", folder, stem) >= (int)sizeof path)
        return error_set(e, STATUS_PARAM_INVALID, "%s/%slabels: the path is too long", folder,
                         stem);
    if (!add_stamp(m, path))
        return 0;
    m->labels = strdup(path);
    return m->labels ? 0 : error_no_memory(e, "labels", strlen(path));
}

static int set_place(struct catalog_model *m, const char *folder, const char *file,
                     const char *stem, struct error *e)
{
    char path[sizeof m->path];
    int n = snprintf(m->path, sizeof m->path, "%s/%s", folder, file);
    int k = snprintf(path, sizeof path, "%s/%soptions", folder, stem);
    if (n >= (int)sizeof m->path || k >= (int)sizeof path)
        return error_set(e, STATUS_PARAM_INVALID, "%s/%s: the path is too long", folder, file);
    m->rank = strtoull(m->version, NULL, 10);
    m->is_onnx = strcmp(strrchr(file, '.'), ".onnx") == 0;
    add_stamp(m, m->path);
    add_stamp(m, path);
    int r = find_labels(m, folder, stem, e);
    if (r < 0)
        return r;
    struct error own;
    r = small_file_read(path, MAX_OPTIONS, &m->options, &own);
    if (r == STATUS_MALLOC_FAIL || r == STATUS_DEVICE_UNAVAILABLE)
        return error_set(e, r, "%s", own.text);
    if (r < 0)
        snprintf(m->obstacle, sizeof m->obstacle, "%s", own.text);
    return 0;
}

static int list_file(struct catalog *c, const char *folder, const char *file, size_t stem,
                     struct error *e)
{
    char name[128], front[300];
    snprintf(name, sizeof name, "%.*s", (int)stem, file);
    snprintf(front, sizeof front, "%.*s.", (int)stem, file);
    struct catalog_model *m = stem < sizeof name ? catalog_add(c, name, "1", e) : NULL;
    if (!m)
        return stem < sizeof name ? e->code
                                  : error_set(e, STATUS_PARAM_INVALID,
                                              "%s/%s: the name is too long", folder, file);
    return set_place(m, folder, file, front, e);
}

// The one model in NAME/VERSION.
static int add_version(struct catalog *c, const char *name, const char *version, const char *folder,
                       struct error *e)
{
    cleanup(closedir_p) DIR *d = opendir(folder);
    if (!d)
        return file_cannot_open(folder, e);
    struct catalog_model *m = NULL;
    const struct dirent *entry;
    size_t stem;
    while ((entry = readdir(d))) {
        if (!is_model_file(entry->d_name, &stem))
            continue;
        if (m) {
            snprintf(m->obstacle, sizeof m->obstacle, "%.300s has several models: leave one",
                     folder);
            return 0;
        }
        if (!(m = catalog_add(c, name, version, e)))
            return e->code;
        int r = set_place(m, folder, entry->d_name, "", e);
        if (r < 0)
            return r;
    }
    return 0;
}

static int add_versions(struct catalog *c, const char *place, const char *name, struct error *e)
{
    char folder[4096], inner[4096];
    snprintf(folder, sizeof folder, "%s/%s", place, name);
    cleanup(closedir_p) DIR *d = opendir(folder);
    const struct dirent *entry;
    int r = 0;
    while (d && r == 0 && (entry = readdir(d))) {
        if (!is_version(entry->d_name))
            continue;
        if (snprintf(inner, sizeof inner, "%s/%s", folder, entry->d_name) >= (int)sizeof inner)
            return error_set(e, STATUS_PARAM_INVALID, "%s: the path is too long", folder);
        r = add_version(c, name, entry->d_name, inner, e);
    }
    return r;
}

int catalog_list_folder(const char *place, const char *name, struct catalog *ret, struct error *e)
{
    cleanup(closedir_p) DIR *d = opendir(place);
    if (!d) {
        file_cannot_open(place, e);
        return error_prefix(e, "the models' folder");
    }
    const struct dirent *entry;
    int r = 0;
    while (r == 0 && (entry = readdir(d))) {
        const char *file = entry->d_name;
        size_t stem = strlen(file);
        bool is_file = is_model_file(file, &stem);
        if (file[0] == '.' || (name && (strlen(name) != stem || memcmp(name, file, stem) != 0)))
            continue;
        r = is_file              ? list_file(ret, place, file, stem, e)
            : strlen(file) < 128 ? add_versions(ret, place, file, e)
                                 : 0;
    }
    return r;
}
