// What all commands that run a model take from their command line. The texts point into argv, the
// lists are the task's.
#include "tools/task.h"

#include "tools/ui/rknn_error.h"

int task_parse(struct task *t, const struct cmd_options *o, int argc, char **argv, struct error *e)
{
    int first, r = cmd_options_parse_n(o, argc, argv, 1, 1, &first, e);
    if (r == 0)
        t->model = argv[first];
    return r;
}

void task_done(struct task *t)
{
    text_list_done(&t->inputs);
    text_list_done(&t->shapes);
    input_options_done(&t->forms);
}

// A shape set can be chosen only once the model is loaded. Without --core-mask the context keeps
// the server's default.
int task_open(const struct task *t, uint32_t flags, struct model *m, struct error *e)
{
    int r = model_open(m, t->model, flags, &t->shapes, e);
    if (r == 0 && t->shape_set != TASK_NO_SHAPE_SET)
        r = model_set_shape_set(m, t->shape_set, e);
    if (r || t->core_mask == RKNN_NPU_CORE_UNDEFINED)
        return r;
    r = rknn_set_core_mask(m->context, (rknn_core_mask)t->core_mask);
    return r < 0 ? rknn_error_set(e, r, "--core-mask") : 0;
}

int task_load(const struct task *t, const struct model *m, struct input_set *s, struct error *e)
{
    int r = input_set_load(s, m, &t->inputs, &t->forms, e);
    if (r == 0)
        input_set_tell(s, m, stderr);
    return r;
}
