// Load options from the command line, in the library's text form: a line "shape NAME=DIMS" for each
// --shape. They hold for the models that this thread opens next.
#include "tools/run/load_option_args.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rknnd.h"
#include "tools/ui/rknn_error.h"

// A newline would begin another option; anything else the library checks.
static int check_shape(const char *shape, struct error *e)
{
    if (strchr(shape, '=') && !strchr(shape, '\n'))
        return 0;
    return error_set(e, STATUS_PARAM_INVALID, "--shape %s: give it as NAME=1x3x224x224", shape);
}

int load_options_set(const struct text_list *shapes, struct error *e)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    int r = out ? 0 : error_no_memory(e, "load options", 0);
    for (size_t i = 0; i < shapes->n && r == 0; i++) {
        r = check_shape(shapes->items[i], e);
        fprintf(out, "shape %s\n", shapes->items[i]);
    }
    if (out && (fclose(out) != 0 || !text))
        r = error_no_memory(e, "load options", 0);
    if (r == 0 && (r = rknnd_set_load_options(text)) < 0)
        r = rknn_error_set(e, r, "--shape");
    free(text);
    return r;
}
