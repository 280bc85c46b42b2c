// Threads that hash.
//
// They are nicer than the loop: hashing costs more than all else that an upload does, and nobody
// waits for a hash before the file is complete.
#include "server/models/hashers.h"

#include "base/cleanup.h"
#include "base/step_back.h"

#define NICE 15 // step_back()

int hashers_start(struct hashers *all, uv_loop_t *loop, struct error *e)
{
    return threads_new(loop, &all->threads, e);
}

int hashers_need(struct hashers *all, unsigned n, struct error *e)
{
    return threads_grow(all->threads, n < HASHERS_MAX ? n : HASHERS_MAX, e);
}

// On a thread.
static void hashing_work(struct task *task)
{
    struct hashing *h = container_of(task, struct hashing, task);
    step_back(NICE);
    sha256_update(h->hash, h->data, h->size);
    threads_post(task->threads, task);
}

// On the loop. done() may free `h`.
static void hashing_finish(struct task *task)
{
    struct hashing *h = container_of(task, struct hashing, task);
    h->done(h);
}

void hashers_do(struct hashers *all, struct hashing *h)
{
    h->task = (struct task){.work = hashing_work, .finish = hashing_finish};
    threads_do(all->threads, &h->task);
}

void hashers_close(struct hashers *all)
{
    if (all->threads)
        threads_free(steal_ptr(all->threads), NULL, NULL);
}
