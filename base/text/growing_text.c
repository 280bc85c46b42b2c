// A stream of stdio's with our own write function. What it lacks once is lacking for good, so that
// no later and shorter line goes where a longer one did not fit.
#include "base/text/growing_text.h"

#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "base/array.h"

// 0 tells the FILE that it failed; a line in the middle may have been lost all the same, as what
// printf() returns is looked at by nobody.
static ssize_t add(void *owner, const char *bytes, size_t n)
{
    struct growing_text *m = owner;
    if (m->lacks || array_reserve(m->text, m->room, m->size + n + 1, "a text", NULL) < 0) {
        m->lacks = true;
        return 0;
    }
    memcpy(m->text + m->size, bytes, n);
    m->size += n;
    m->text[m->size] = 0;
    return (ssize_t)n;
}

int growing_text_open(struct growing_text *m, struct error *e)
{
    m->text = NULL;
    m->size = m->room = 0;
    m->lacks = false;
    m->file = fopencookie(m, "w", (cookie_io_functions_t){.write = add});
    if (!m->file)
        return error_no_memory(e, "a text", sizeof *m);
    setvbuf(m->file, m->buffer, _IOFBF, sizeof m->buffer);
    return 0;
}

int growing_text_close(struct growing_text *m, const char *what, char **ret, size_t *ret_size,
                       struct error *e)
{
    bool whole = !ferror(m->file);
    whole = fclose(m->file) == 0 && whole && (m->text || add(m, "", 0) == 0) && !m->lacks;
    m->file = NULL;
    if (whole) {
        *ret = m->text;
        *ret_size = m->size;
        return 0;
    }
    free(m->text);
    m->text = NULL;
    return error_no_memory(e, what, m->size);
}
