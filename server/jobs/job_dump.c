// Dumps: the parts of a dump on their way to the client, and back.
//
//   on_part() --> frame with the window's bytes --> on_sent()       -+
//                      client: DUMP_NEXT        --> job_dump_next() -+--> job_dump_go_on()
//
// A part is out until two things have happened, in either order: the frame has been written
// (on_sent), and the client has confirmed it (job_dump_next). Only then does the run continue and
// overwrite the window. A part that the client replaces comes with DUMP_NEXT, straight into the
// window.
#include "server/jobs/job_dump.h"

#include <stdlib.h>

#include "server/clients/account.h"
#include "server/net/connection.h"

// The job and the frame on its way hold a reference each.
struct job_dump {
    unsigned refs;
    struct account *account; // that is charged, until the run has ended
    struct runner_job *run;  // NULL: has ended
    struct request *request; // while there is a run, as what follows
    struct job_hold *hold;
    struct buffer *buffer;        // one reference
    bool sending, taken;          // of the part that is out
    uint64_t wanted;              // bytes of it that are to come back
    struct connection *receiving; // they are coming from there; NULL: they are not
    char only[sizeof((rknnd_Dump){0}.only)];
};

static void job_dump_unref(struct job_dump *d)
{
    if (--d->refs > 0)
        return;
    buffer_unref(d->buffer);
    free(d);
}

// Continues the run if both conditions are met.
static void job_dump_go_on(struct job_dump *d)
{
    if (d->run && d->taken && !d->sending)
        job_hold_end(d->hold);
}

static void on_sent(void *owner)
{
    struct job_dump *d = owner;
    d->sending = false;
    job_dump_go_on(d);
    job_dump_unref(d);
}

// From the runner: the window holds a part, or (`wanted`) is to be filled by the client.
static void on_part(struct runner_job *run, const rknnd_DumpReply *part)
{
    struct job_dump *d = run->part_owner;
    if (!d->request->connection) {
        runner_job_stop(run);
        return;
    }
    struct iovec data = {d->buffer->output, (size_t)part->size};
    d->refs++;
    d->sending = true;
    d->taken = false;
    d->wanted = part->wanted ? part->size : 0;
    job_hold_begin(d->hold);
    request_answer_part(d->request, rknnd_DumpReply_fields, part, &data,
                        part->size > 0 && !part->wanted, on_sent, d);
}

int job_dump_new(struct account *account, struct runner_job *run, struct request *request,
                 struct job_hold *hold, const rknnd_Dump *m, uint64_t window, struct job_dump **ret,
                 struct error *e)
{
    struct job_dump *d = calloc(1, sizeof *d);
    if (!d)
        return error_no_memory(e, "a dump", sizeof *d);
    int r = account_charge(account, ACCOUNT_DUMPS, 1, e);
    if (r < 0) {
        free(d);
        return r;
    }
    d->account = account;
    d->refs = 1;
    d->run = run;
    d->request = request;
    d->hold = hold;
    d->buffer = buffer_ref(run->buffer);
    message_set_text(d->only, m->only);
    run->part = on_part;
    run->part_owner = d;
    run->only = d->only;
    run->window = window;
    run->replace = m->replace;
    *ret = d;
    return 0;
}

void job_dump_abandon(struct job_dump *d)
{
    if (!d || !d->receiving)
        return;
    connection_forget_payload(d->receiving);
    d->receiving = NULL;
}

// A frame that is still being sent keeps the struct and the buffer, but no longer has a run.
void job_dump_free(struct job_dump *d)
{
    if (!d)
        return;
    job_dump_abandon(d);
    account_refund(d->account, ACCOUNT_DUMPS, 1);
    d->run = NULL;
    job_dump_unref(d);
}

static void on_received(struct connection *from, void *owner)
{
    struct job_dump *d = owner;
    (void)from;
    d->receiving = NULL;
    d->taken = true;
    job_dump_go_on(d);
}

static void job_dump_refuse(struct job_dump *d, uint64_t payload_size)
{
    struct error e;
    error_set(&e, STATUS_OUTPUT_INVALID, "%llu bytes for a part of a tensor, it has %llu",
              (unsigned long long)payload_size, (unsigned long long)d->wanted);
    runner_job_fail(d->run, &e);
}

// A late or repeated DUMP_NEXT is ignored, and the connection drops its payload.
void job_dump_next(struct job_dump *d, struct connection *from, uint64_t payload_size)
{
    bool waits = runner_job_waits(d->run) && !d->taken && !d->receiving;
    if (!waits)
        return;
    if (payload_size != d->wanted) {
        job_dump_refuse(d, payload_size);
        return;
    }
    if (payload_size == 0) {
        d->taken = true;
        job_dump_go_on(d);
        return;
    }
    struct iovec data = {d->buffer->output, (size_t)payload_size};
    d->receiving = from;
    connection_receive(from, &data, 1, on_received, d);
}
