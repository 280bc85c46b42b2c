// Lists of length-prefixed messages that grow.
#include "server/net/delimited.h"

#include "base/array.h"

// Reserves first, so that the list is unchanged if memory is out.
int delimited_put(struct delimited *q, const pb_msgdesc_t *fields, const void *message,
                  struct error *e)
{
    size_t need = message_delimited_size(fields, message);
    int r = array_reserve(q->data, q->room, q->size + need, "a list of messages", e);
    if (r < 0)
        return r;
    uint8_t *at = q->data + q->size;
    message_delimited_put(fields, message, &at, q->data + q->room);
    q->size = (size_t)(at - q->data);
    return 0;
}
