// Filling the list of rknnd_list_devices(). What boards and other programs say is made printable.
#include "client/transport/device_list.h"

#include <stdio.h>

#include "base/text/text.h"
#include "protocol/message.h"

// Entries beyond the list's room are written to a spare one and only counted, so that the caller
// can try again with more room.
rknnd_device *device_list_add(struct device_list *l, const char *scheme, const char *rest,
                              const char *serial)
{
    rknnd_device *d = l->n < l->max ? &l->items[l->n] : &l->beyond;
    l->n++;
    *d = (rknnd_device){.struct_size = sizeof *d};
    snprintf(d->uri, sizeof d->uri, "%s%s", scheme, rest);
    snprintf(d->serial, sizeof d->serial, "%s", serial);
    text_make_printable(d->uri);
    text_make_printable(d->serial);
    return d;
}

void device_list_hinder(rknnd_device *d, const char *state, const char *obstacle,
                        const char *detail)
{
    snprintf(d->state, sizeof d->state, "%s", state);
    snprintf(d->obstacle, sizeof d->obstacle, "%s%s", obstacle, detail);
    text_make_printable(d->obstacle);
}

void device_list_advise(rknnd_device *d, const char *advice)
{
    snprintf(d->advice, sizeof d->advice, "%s", advice);
}
