// Checks of rknnd_diagnose(): each becomes one call of the program's callback, in the thread of the
// call. What was found may quote a server or a board, so it is made printable.
#include "client/transport/checks.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text/text.h"
#include "protocol/message.h"

// The one place that calls the program; strings are valid during the call only.
void checks_tell(struct checks *c, rknnd_verdict verdict, const char *name, const char *advice,
                 const char *format, ...)
{
    char found[600];
    va_list args;
    va_start(args, format);
    vsnprintf(found, sizeof found, format, args);
    va_end(args);
    text_make_printable(found);
    rknnd_check check = {.struct_size = sizeof check,
                         .verdict = verdict,
                         .name = name,
                         .found = found,
                         .advice = advice};
    c->n_bad += verdict == RKNND_CHECK_BAD;
    c->callback(c->user, &check);
}

// `bad`: the verdict for a board that cannot be used, a fault only if it is the one that is wanted.
static bool tell_board(struct checks *c, const char *name, rknnd_verdict bad,
                       const rknnd_device *board)
{
    bool usable = !*board->obstacle;
    checks_tell(c, usable ? RKNND_CHECK_GOOD : bad, name, board->advice, "%s %s%s", board->uri,
                usable ? "can be used" : "cannot be used: ", board->obstacle);
    return usable;
}

void checks_tell_boards(struct checks *c, const char *name, const struct device_list *l)
{
    for (uint32_t i = 0; i < l->n && i < l->max; i++)
        tell_board(c, name, RKNND_CHECK_NOTE, &l->items[i]);
}

// Exactly one board of the list must match; an address without a serial number matches any.
bool checks_find_board(struct checks *c, const struct device_list *l, const struct uri *address)
{
    const rknnd_device *found = NULL;
    char wanted[300];
    unsigned n_found = 0;
    uri_format(address, wanted, sizeof wanted);
    for (uint32_t i = 0; i < l->n && i < l->max; i++) {
        if (*address->text && strcmp(l->items[i].uri, wanted) != 0)
            continue;
        found = &l->items[i];
        n_found++;
    }
    if (n_found == 1)
        return tell_board(c, "board", RKNND_CHECK_BAD, found);
    if (n_found == 0)
        checks_tell(c, RKNND_CHECK_BAD, "board",
                    "is the cable in, and does rknnd run there? `rknnctl devices` lists what there "
                    "is",
                    "there is no board %s", wanted);
    else
        checks_tell(c, RKNND_CHECK_BAD, "board",
                    "add the serial number of one of them (`rknnctl devices` lists them)",
                    "%s means any of %u boards", wanted, n_found);
    return false;
}
