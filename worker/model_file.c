// Copies of a model file's descriptor: the fd is duplicated, the texts are copied.
#include "worker/model_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fd.h"

// The duplicate is at least 3, so that it cannot take the place of a closed standard stream. `to`
// may be the same as `from`, as it is written only at the end.
int model_file_copy(struct model_file *to, const struct model_file *from, struct error *e)
{
    struct model_file f = {
        .fd = from->fd < 0 ? -1 : fcntl(from->fd, F_DUPFD_CLOEXEC, 3),
        .size = from->size,
        .name = strdup(from->name),
        .options = strdup(from->options ? from->options : ""),
    };
    if ((from->fd >= 0 && f.fd < 0) || !f.name || !f.options) {
        error_set_errno(e, STATUS_MALLOC_FAIL, errno, "model %s", from->name);
        model_file_done(&f);
        return STATUS_MALLOC_FAIL;
    }
    *to = f;
    return 0;
}

void model_file_done(struct model_file *f)
{
    fd_close(f->fd);
    free((char *)f->name);
    free((char *)f->options);
    *f = (struct model_file){.fd = -1};
}
