// Runs that wait.
//
// The run's thread posts what it needs (a part of a dump, a call of a custom operator) and sleeps
// in gate_wait(); the loop, or the thread that reads the daemon's requests, lets it go on. `waits`
// is set before post(), so that an answer which comes from inside of post() is not lost. `stopped`
// stays for the rest of the run: the backend sees it between layers, too.
#include "worker/gate.h"

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

void gate_open(struct gate *p, bool stop)
{
    pthread_mutex_lock(&p->lock);
    if (stop)
        atomic_store(&p->stopped, true);
    p->waits = false;
    pthread_cond_signal(&p->changed);
    pthread_mutex_unlock(&p->lock);
}
