// Threads that hash.
//
// They are nicer than the loop: hashing costs more than all else that an upload does, and nobody
// waits for a hash before the file is complete.
#include "server/models/hashers.h"

#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"

#define NICE 15 // setpriority(2)

void hashers_init(struct hashers *all, uv_loop_t *loop)
{
    *all = (struct hashers){.loop = loop};
}

int hashers_need(struct hashers *all, unsigned n, struct error *e)
{
    int r = all->threads ? 0 : threads_new(all->loop, &all->threads, e);
    return r < 0 ? r : threads_grow(all->threads, n < HASHERS_MAX ? n : HASHERS_MAX, e);
}

// threads_free() wants no task under way, so the last one to finish ends the threads.
static void end_if_idle(struct hashers *all)
{
    if (all->closed && all->n_busy == 0 && all->threads)
        threads_free(steal_ptr(all->threads), NULL, NULL);
}

// On a thread. On Linux the nice value belongs to a thread, which setpriority() takes by its thread
// id.
static void hashing_work(struct task *task)
{
    struct hashing *h = container_of(task, struct hashing, task);
    setpriority(PRIO_PROCESS, (id_t)gettid(), NICE); // of this thread
    sha256_update(h->hash, h->data, h->size);
    threads_post(task->threads, task);
}

// On the loop. done() may free `h`.
static void hashing_finish(struct task *task)
{
    struct hashing *h = container_of(task, struct hashing, task);
    struct hashers *all = h->all;
    all->n_busy--;
    h->done(h);
    end_if_idle(all);
}

void hashers_do(struct hashers *all, struct hashing *h)
{
    h->all = all;
    h->task = (struct task){.work = hashing_work, .finish = hashing_finish};
    all->n_busy++;
    threads_do(all->threads, &h->task);
}

void hashers_close(struct hashers *all)
{
    all->closed = true;
    end_if_idle(all);
}
