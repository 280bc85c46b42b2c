// rknnd_set_interrupt: a thread's waits end when its program wants that. A signal that comes
// between the question and poll() would only be noticed after the wait, so waits are asked about
// once in a while, too.
#include "client/wait_end.h"

#include <stddef.h>

#include "client/last_error.h"
#include "rknnd.h"

#define ASK_EVERY_MS 1000

static _Thread_local rknnd_interrupt *ask;
static _Thread_local void *ask_user;

RKNN_EXPORT void rknnd_set_interrupt(rknnd_interrupt *is_wanted, void *user)
{
    ask = is_wanted;
    ask_user = user;
}

bool interrupt_asked(void)
{
    return ask && ask(ask_user);
}

uint64_t interrupt_before(uint64_t now, uint64_t until)
{
    return ask && until > now + ASK_EVERY_MS ? now + ASK_EVERY_MS : until;
}
