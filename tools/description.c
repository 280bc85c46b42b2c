// What a model file says.
#include "tools/description.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "rknnd.h"
#include "tools/load_options.h"
#include "tools/progress.h"

int description_get(const struct task *t, json_t **ret, struct failure *f)
{
    const char *path = t->model;
    struct progress progress;
    json_error_t error;
    char *text = NULL;
    if (access(path, R_OK) < 0)
        return failure_set(f, EXIT_MODEL, "model %s: %s", path, strerror(errno));
    int r = load_options_set(&t->shapes, f);
    if (r)
        return r;
    progress_start(&progress, path);
    r = rknnd_describe_model(NULL, path, &text);
    progress_end(&progress);
    if (r < 0)
        return failure_rknn(f, r, "model %s", path);
    *ret = json_loads(text, 0, &error);
    rknnd_free(text);
    if (!*ret)
        return failure_set(f, EXIT_RUNTIME,
                           "model %s: the server's description is not JSON: line %d: %s", path,
                           error.line, error.text);
    return 0;
}
