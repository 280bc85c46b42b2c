// SIGTERM, SIGINT, SIGHUP and SIGUSR2, delivered on the loop by libuv.
#include "server/signals.h"

#include <signal.h>

static const int numbers[SIGNALS] = {SIGTERM, SIGINT, SIGHUP, SIGUSR2};

static void on_signal(uv_signal_t *handle, int number)
{
    struct signals *s = handle->data;
    if (number == SIGHUP)
        s->hung_up(s->owner);
    else if (number == SIGUSR2)
        s->upgrade(s->owner);
    else
        s->ended(s->owner);
}

// The handles do not keep the loop alive: the daemon ends when its work does.
void signals_init(struct signals *s, uv_loop_t *loop, void (*ended)(void *owner),
                  void (*hung_up)(void *owner), void (*upgrade)(void *owner), void *owner)
{
    *s = (struct signals){.ended = ended, .hung_up = hung_up, .upgrade = upgrade, .owner = owner};
    for (size_t i = 0; i < SIGNALS; i++) {
        uv_signal_init(loop, &s->handles[i]);
        s->handles[i].data = s;
        uv_signal_start(&s->handles[i], on_signal, numbers[i]);
        uv_unref((uv_handle_t *)&s->handles[i]);
    }
}

// Once its handle is closed, libuv restores a signal's default action, which would end the process
// with a signal instead of its exit code. So they are blocked first here, and then ignored, which
// holds for other threads too.
void signals_close(struct signals *s)
{
    sigset_t late;
    sigemptyset(&late);
    for (size_t i = 0; i < SIGNALS; i++)
        sigaddset(&late, numbers[i]);
    pthread_sigmask(SIG_BLOCK, &late, NULL);
    for (size_t i = 0; i < SIGNALS; i++)
        uv_close((uv_handle_t *)&s->handles[i], NULL);
    for (size_t i = 0; i < SIGNALS; i++)
        signal(numbers[i], SIG_IGN);
}
