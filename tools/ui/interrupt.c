// Ctrl-C and SIGTERM. By default they end the process at once; after interrupt_defer() the first
// one only sets a flag, which loops look at between runs, and the second one ends the process. One
// that comes at once is the same one: timeout(1) sends each twice, to the program and its group.
// Handlers have no argument for a state, so it is the process's.
#include "tools/ui/interrupt.h"

#include <signal.h>
#include <stddef.h>
#include <unistd.h>

#include "base/clock.h"

#define SAME_MS 300u

static volatile sig_atomic_t deferred, seen, seen_ms, drawing_now;

// Async-signal-safe: write(), clock_gettime(), signal() and raise() only. A progress line is
// erased; then the signal gets its default action, so that the shell sees a death by signal.
static void on_signal(int number)
{
    static const char erase[] = "\r\033[K";
    unsigned now = (unsigned)clock_ms();
    if (deferred && !seen) {
        seen_ms = (sig_atomic_t)(now & INT32_MAX);
        seen = 1;
        return;
    }
    if (deferred && ((now - (unsigned)seen_ms) & INT32_MAX) < SAME_MS)
        return;
    if (drawing_now && write(STDERR_FILENO, erase, sizeof erase - 1) < 0)
        drawing_now = 0;
    signal(number, SIG_DFL);
    raise(number);
}

// SIGXFSZ, of a file beyond the limit of ulimit -f: the call that would have written fails, in
// words. Programs that `record` starts would have SIG_IGN as well, and no handler.
static void on_file_too_large(int number)
{
    (void)number;
}

// SA_RESTART: a deferred signal must not make system calls fail with EINTR. An ignored signal stays
// ignored.
void interrupt_init(void)
{
    static const int numbers[] = {SIGINT, SIGTERM};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction before;
        sigaction(numbers[i], NULL, &before);
        if (before.sa_handler != SIG_IGN) // nohup and background jobs of scripts
            sigaction(numbers[i], &action, NULL);
    }
    action.sa_handler = on_file_too_large;
    sigaction(SIGXFSZ, &action, NULL);
}

void interrupt_defer(void)
{
    deferred = 1;
}

bool interrupt_seen(void)
{
    return seen != 0;
}

void interrupt_drawing(bool drawing)
{
    drawing_now = drawing;
}
