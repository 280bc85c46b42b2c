// Threads that hash.
//
// Those that hash what is still arriving are nicer than the loop: hashing costs more than all else
// that an upload does, and nobody waits for it. Once a file is complete its client does, and a
// thread that has stepped back cannot step forward again without a privilege: others go on.
#include "server/models/hashers.h"

#include "base/cleanup.h"
#include "base/step_back.h"

#define NICE 15 // step_back()

int hashers_start(struct hashers *all, uv_loop_t *loop, struct error *e)
{
    int r = threads_new(loop, &all->patient, e);
    return r < 0 ? r : threads_new(loop, &all->awaited, e);
}

int hashers_need(struct hashers *all, unsigned n, struct error *e)
{
    n = n < HASHERS_MAX ? n : HASHERS_MAX;
    int r = threads_grow(all->patient, n, e);
    return r < 0 ? r : threads_grow(all->awaited, n, e);
}

// On a thread.
static void hashing_work(struct task *task)
{
    struct hashing *h = container_of(task, struct hashing, task);
    if (!h->awaited)
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
    threads_do(h->awaited ? all->awaited : all->patient, &h->task);
}

void hashers_close(struct hashers *all)
{
    if (all->patient)
        threads_free(steal_ptr(all->patient), NULL, NULL);
    if (all->awaited)
        threads_free(steal_ptr(all->awaited), NULL, NULL);
}
