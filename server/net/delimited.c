// Sequences that grow.
#include "server/net/delimited.h"

#include <stdlib.h>

int delimited_put(struct delimited *q, const pb_msgdesc_t *fields, const void *message,
                  struct error *e)
{
    size_t need = message_delimited_size(fields, message);
    if (q->room - q->size < need) {
        size_t room = 2 * (q->room + need);
        uint8_t *data = realloc(q->data, room);
        if (!data)
            return error_no_memory(e, "a list of messages", room);
        q->data = data;
        q->room = room;
    }
    uint8_t *at = q->data + q->size;
    message_delimited_put(fields, message, &at, q->data + q->room);
    q->size = (size_t)(at - q->data);
    return 0;
}
