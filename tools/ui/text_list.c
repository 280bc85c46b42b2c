// Lists of texts from a command line. The texts are not copied: they are argv's, or owned by an
// input_list.
#include "tools/ui/text_list.h"

#include <stdlib.h>

#include "base/array.h"

int text_list_option(void *list, const char *text, struct error *e)
{
    return text_list_add(list, text, e);
}

int text_list_add(struct text_list *l, const char *item, struct error *e)
{
    if (array_reserve(l->items, l->room, l->n + 1, "arguments", e) < 0)
        return e->code;
    l->items[l->n++] = item;
    return 0;
}

void text_list_done(struct text_list *l)
{
    free(l->items);
    *l = (struct text_list){0};
}
