// Lists of texts from a command line. The texts are not copied: they are argv's, or owned by an
// input_list.
#include "tools/ui/text_list.h"

#include <stdlib.h>

#include "base/array.h"

int text_list_add(struct text_list *l, const char *item, struct failure *f)
{
    if (array_reserve(l->items, l->room, l->n + 1, "arguments", NULL) < 0)
        return failure_no_memory(f);
    l->items[l->n++] = item;
    return 0;
}

void text_list_done(struct text_list *l)
{
    free(l->items);
    *l = (struct text_list){0};
}
