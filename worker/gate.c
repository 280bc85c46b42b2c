// The gate where a run waits for the outside world.
//
// The run's thread posts what it needs (a part of a dump, a call of a custom operator) and sleeps
// in gate_wait(). The loop, or in a worker the thread that reads requests, opens the gate. `waits`
// is set before post(), so that an answer that arrives during post() is not lost. `stopped` stays
// set for the rest of the run, because the backend also polls it between layers.
#include "worker/gate.h"

#include "base/list.h"

void gate_init(struct gate *p)
{
    *p = (struct gate){.waits = false};
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
}

void gate_done(struct gate *p)
{
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->changed);
}

void gate_start(struct gate *p)
{
    p->waits = false;
    atomic_store(&p->stopped, false);
}

// The lock is not held while post() runs: post() may open the gate itself, on this thread.
bool gate_wait(struct gate *p, void (*post)(void *owner), void *owner)
{
    pthread_mutex_lock(&p->lock);
    p->waits = true;
    pthread_mutex_unlock(&p->lock);
    post(owner);
    pthread_mutex_lock(&p->lock);
    while (p->waits)
        pthread_cond_wait(&p->changed, &p->lock);
    pthread_mutex_unlock(&p->lock);
    return !atomic_load(&p->stopped);
}

// Harmless when nobody waits: a stop may come at any time of the run.
void gate_open(struct gate *p, bool stop)
{
    pthread_mutex_lock(&p->lock);
    if (stop)
        atomic_store(&p->stopped, true);
    p->waits = false;
    pthread_cond_signal(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

// ---- slices ------------------------------------------------------------------------------------

static void slices_post(void *owner)
{
    struct run_slices *s = owner;
    s->post(s);
}

static int slices_wait(struct npu_slices *npu, struct error *e)
{
    struct run_slices *s = container_of(npu, struct run_slices, npu);
    atomic_store(&s->wanted, false); // before post(), after which it may be asked again
    return gate_wait(s->gate, slices_post, s)
               ? 0
               : error_set(e, STATUS_FAIL, "the run was stopped while others had its cores");
}

void run_slices_start(struct run_slices *s, uint32_t us, struct gate *gate,
                      void (*post)(struct run_slices *s))
{
    s->npu = (struct npu_slices){.us = us, .wanted = &s->wanted, .wait = slices_wait};
    s->gate = gate;
    s->post = post;
    atomic_store(&s->wanted, false);
}

void run_slices_ask(struct run_slices *s)
{
    atomic_store(&s->wanted, true);
}
