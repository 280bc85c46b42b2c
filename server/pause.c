// Runs that wait.
#include "server/pause.h"

void pause_init(struct pause *p)
{
    *p = (struct pause){.state = PAUSE_NOT};
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
    p->state = PAUSE_NOT;
}

bool pause_wait(struct pause *p, void (*post)(void *owner), void *owner)
{
    pthread_mutex_lock(&p->lock);
    p->state = PAUSE_WAITS;
    pthread_mutex_unlock(&p->lock);
    post(owner);
    pthread_mutex_lock(&p->lock);
    while (p->state == PAUSE_WAITS)
        pthread_cond_wait(&p->changed, &p->lock);
    bool stopped = p->state == PAUSE_STOPPED;
    pthread_mutex_unlock(&p->lock);
    return !stopped;
}

void pause_end(struct pause *p, bool stop)
{
    pthread_mutex_lock(&p->lock);
    if (p->state == PAUSE_WAITS)
        p->state = stop ? PAUSE_STOPPED : PAUSE_NOT;
    pthread_cond_signal(&p->changed);
    pthread_mutex_unlock(&p->lock);
}
