#include "server/net/goodbye.h"

#include "protocol/message.h"

void goodbye_send(struct transport *t, const char *reason)
{
    rknnd_Goodbye m = rknnd_Goodbye_init_zero;
    struct frame_queue q;
    struct iovec iov[8];
    const int *fds;
    int n_fds;
    message_set_text(m.reason, reason);
    struct frame_out *f =
        message_frame(MESSAGE_GOODBYE, 0, 0, rknnd_Goodbye_fields, &m, NULL, 0, NULL, NULL);
    if (!f)
        return;
    frame_queue_init(&q);
    frame_queue_push(&q, f);
    int n = frame_queue_peek(&q, iov, 8, &fds, &n_fds);
    t->ops->send(t, iov, n, NULL, 0);
    frame_queue_done(&q);
}
