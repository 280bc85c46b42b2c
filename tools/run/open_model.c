// A model that is open at the server. Opening hashes the file, uploads it unless the server has it
// already, and loads it there; the time of all that is load_ns.
#include "tools/run/open_model.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "tools/run/load_option_args.h"
#include "tools/ui/exit_code.h"
#include "tools/ui/rknn_error.h"

bool model_is_stored(const char *path)
{
    return strncmp(path, "rknnd:", strlen("rknnd:")) == 0;
}

// A file that is not there is the user's mistake; say so before a server is looked for. O_NONBLOCK:
// a pipe would wait for somebody who writes to it.
static int check_readable(const char *path, struct error *e)
{
    if (model_is_stored(path))
        return 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return error_set(e, STATUS_MODEL_INVALID, "model %s: %s", path, strerror(errno));
    close(fd);
    return 0;
}

static int query_attrs(struct model *m, rknn_query_cmd command, uint32_t n, rknn_tensor_attr *attrs,
                       struct error *e)
{
    for (uint32_t i = 0; i < n; i++) {
        attrs[i].index = i;
        int r = rknn_query(m->context, command, &attrs[i], sizeof attrs[i]);
        if (r < 0)
            return rknn_error_model(e, r, m->path);
    }
    return 0;
}

// The current attributes, not those of the file: with several shape sets they differ.
static int query_shapes(struct model *m, struct error *e)
{
    int r = query_attrs(m, RKNN_QUERY_CURRENT_INPUT_ATTR, m->n_inputs, m->inputs, e);
    return r ? r : query_attrs(m, RKNN_QUERY_CURRENT_OUTPUT_ATTR, m->n_outputs, m->outputs, e);
}

// Allocates at least one element each, so that NULL always means out of memory.
static int query_model(struct model *m, struct error *e)
{
    rknn_input_output_num n;
    int r = rknn_query(m->context, RKNN_QUERY_IN_OUT_NUM, &n, sizeof n);
    if (r < 0)
        return rknn_error_model(e, r, m->path);
    m->n_inputs = n.n_input;
    m->n_outputs = n.n_output;
    m->inputs = calloc(n.n_input ? n.n_input : 1, sizeof *m->inputs);
    m->outputs = calloc(n.n_output ? n.n_output : 1, sizeof *m->outputs);
    return m->inputs && m->outputs ? query_shapes(m, e)
                                   : error_no_memory(e, "a model's tensors", 0);
}

// After a failure model_close() frees what there is: `open` tells whether there is a context.
int model_open(struct model *m, const char *path, uint32_t flags, const struct text_list *shapes,
               struct error *e)
{
    *m = (struct model){.path = path};
    int r = check_readable(path, e);
    if (r == 0)
        r = load_options_set(shapes, e);
    if (r)
        return r;
    progress_start(&m->upload, path);
    uint64_t start = clock_ns();
    r = rknn_init(&m->context, (void *)(uintptr_t)path, 0, flags, NULL);
    m->load_ns = clock_ns() - start;
    progress_end(&m->upload);
    if (r < 0)
        return rknn_error_model(e, r, path);
    m->open = true;
    return query_model(m, e);
}

// Input i gets its shape of the shape set. A model with one set refuses the query with an
// unspecific code; here that is the user's mistake.
static int choose_shape(struct model *m, uint32_t i, uint32_t shape_set, struct error *e)
{
    rknn_input_range range = {.index = i};
    rknn_tensor_attr *a = &m->inputs[i];
    int r = rknn_query(m->context, RKNN_QUERY_INPUT_DYNAMIC_RANGE, &range, sizeof range);
    if (r < 0) {
        rknn_error_set(e, r, "--shape-set %u", shape_set);
        return exit_code_of(e->code) == EXIT_RUNTIME ? (e->code = STATUS_PARAM_INVALID) : e->code;
    }
    if (shape_set >= range.shape_number)
        return error_set(e, STATUS_PARAM_INVALID,
                         "--shape-set %u: the model has %u shape sets, from 0 on", shape_set,
                         range.shape_number);
    a->n_dims = range.n_dims;
    a->fmt = range.fmt;
    memcpy(a->dims, range.dyn_range[shape_set], sizeof a->dims);
    return 0;
}

// Attributes are queried again: they are those of the shape set from here on.
int model_set_shape_set(struct model *m, uint32_t shape_set, struct error *e)
{
    int r = 0;
    for (uint32_t i = 0; i < m->n_inputs && r == 0; i++)
        r = choose_shape(m, i, shape_set, e);
    if (r)
        return r;
    r = rknn_set_input_shapes(m->context, m->n_inputs, m->inputs);
    return r < 0 ? rknn_error_set(e, r, "--shape-set %u", shape_set) : query_shapes(m, e);
}

int model_borrow(struct model *m, const char *path, rknn_context context, struct error *e)
{
    *m = (struct model){.path = path, .context = context};
    return query_model(m, e);
}

void model_close(struct model *m)
{
    if (m->open)
        rknn_destroy(m->context);
    model_forget(m);
}

void model_forget(struct model *m)
{
    free(m->inputs);
    free(m->outputs);
    *m = (struct model){0};
}
