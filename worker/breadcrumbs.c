// Breadcrumbs of workers: which foreign code each thread is in, for the report of a crash.
//
// The slots are in a memfd that the daemon has mapped as well, so they survive a crash. A thread
// takes a free slot with an atomic test-and-set and writes its text; no lock is used, because a
// crash would leave it taken. The daemon reads the slots only after the worker has died, and treats
// them as untrusted: the text may lack its terminator and contain any byte.
#include "worker/breadcrumbs.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text/text.h"
#include "protocol/message.h"

// When all slots are taken the crumb is dropped: the crash report then names another thread's code
// or none, which is better than waiting here.
int breadcrumbs_enter(struct breadcrumbs *n, const char *format, ...)
{
    va_list args;
    int i = 0;
    while (n && i < BREADCRUMBS_MAX && __atomic_test_and_set(&n->in_use[i], __ATOMIC_ACQUIRE))
        i++;
    if (!n || i == BREADCRUMBS_MAX)
        return -1;
    va_start(args, format);
    vsnprintf(n->text[i], sizeof n->text[i], format, args);
    va_end(args);
    return i;
}

// The text is cleared before the slot is released, so that a released slot never shows old text.
void breadcrumbs_leave(struct breadcrumbs *n, int crumb)
{
    if (!n || crumb < 0)
        return;
    n->text[crumb][0] = 0;
    __atomic_clear(&n->in_use[crumb], __ATOMIC_RELEASE);
}

bool breadcrumbs_last(const struct breadcrumbs *n, char *ret, size_t size)
{
    for (int i = 0; n && i < BREADCRUMBS_MAX; i++)
        if (n->text[i][0]) {
            snprintf(ret, size, "%.*s", (int)sizeof n->text[i] - 1, n->text[i]);
            text_make_printable(ret);
            return true;
        }
    return false;
}
