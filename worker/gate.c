// Runs that wait.
#include "worker/gate.h"

void pause_init(struct pause *p)
{
    *p = (struct pause){.waits = false};
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
}

void pause_done(struct pause *p)
{
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->changed);
}

void pause_start(struct pause *p)
{
    p->waits = false;
    atomic_store(&p->stopped, false);
}

bool pause_wait(struct pause *p, void (*post)(void *owner), void *owner)
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

void pause_end(struct pause *p, bool stop)
{
    pthread_mutex_lock(&p->lock);
    if (stop)
        atomic_store(&p->stopped, true);
    p->waits = false;
    pthread_cond_signal(&p->changed);
    pthread_mutex_unlock(&p->lock);
}
