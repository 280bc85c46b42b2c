// The last error of each thread, and its way to the log.
//
// Every public function ends in last_error_keep(). Errors that repeat, say in a loop that runs a
// model, are logged the 1st, 10th, 100th time; with RKNN_LOG_LEVEL set, each time.
#include "client/last_error.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "rknnd.h"

#define MOST_BEFORE 256 // bytes of what words are about, and of the function

static _Thread_local char words[sizeof((struct error *)0)->text + MOST_BEFORE];
static _Thread_local size_t reason; // where it begins in them

static bool says_all;         // RKNN_LOG_LEVEL is set
static atomic_bool is_silent; // the program says by itself what has failed

static void read_log_level(void)
{
    const char *level = getenv("RKNN_LOG_LEVEL");
    log_set_name("RKNN");
    log_set_level(LOG_ERROR);
    says_all = level && *level;
    if (!log_set_level_text(level))
        log_error("RKNN_LOG_LEVEL is \"%.40s\", which is no level: " LOG_LEVELS, level);
}

void last_error_read_log_level(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_log_level);
}

// ---- the same once more ------------------------------------------------------------------------

#define N_SEEN 64

// Errors seen, by hash of their words: the hash in the upper half, how often in the lower. Without
// a lock, which a fork() could leave locked; two threads that meet here may count one less. A
// collision starts anew.
static _Atomic uint64_t seen[N_SEEN];

// FNV-1a over the words without their numbers (hexadecimal ones begin with 0x), which differ each
// time.
static uint32_t last_error_hash(const char *text)
{
    uint32_t h = 2166136261u;
    while (*text) {
        if (*text >= '0' && *text <= '9')
            text += strspn(text, "0123456789abcdefx");
        else
            h = (h ^ (uint8_t)*text++) * 16777619u;
    }
    return h;
}

// How often these words have come, this time included.
static uint32_t last_error_count(const char *text)
{
    uint32_t h = last_error_hash(text);
    uint64_t old = seen[h % N_SEEN];
    uint32_t n = old >> 32 == h ? (uint32_t)old : 0;
    n += n < UINT32_MAX;
    seen[h % N_SEEN] = (uint64_t)h << 32 | n;
    return n;
}

static bool is_power_of_ten(uint32_t n)
{
    while (n >= 10 && n % 10 == 0)
        n /= 10;
    return n == 1;
}

// ------------------------------------------------------------------------------------------------

static void log_words(enum log_level level, int status)
{
    if (log_level_now() < level || (is_silent && !says_all))
        return;
    uint32_t n = says_all ? 1 : last_error_count(words);
    if (n == 1)
        log_line(level, "%s (%d)", words, status);
    else if (is_power_of_ten(n))
        log_line(level, "%s (%d) [%u times by now]", words, status, n);
}

// What stands before the reason is short, so there is room for all of it.
static int last_error_keep_words(const char *function, const char *about, int status,
                                 const struct error *e, enum log_level level)
{
    if (status >= 0)
        return status;
    size_t n = strlen(about);
    bool named = n && strncmp(e->text, about, n) == 0 && strncmp(e->text + n, ": ", 2) == 0;
    last_error_read_log_level();
    int before = snprintf(words, MOST_BEFORE, "%s: %s%s", function, about, n ? ": " : "");
    reason = before < MOST_BEFORE ? (size_t)before : MOST_BEFORE - 1;
    snprintf(words + reason, sizeof words - reason, "%s", e->text + (named ? n + 2 : 0));
    log_words(level, status);
    return status;
}

int last_error_keep(const char *function, int status, const struct error *e)
{
    return last_error_keep_words(function, "", status, e, LOG_ERROR);
}

int last_error_keep_about(const char *function, const char *about, int status,
                          const struct error *e)
{
    return last_error_keep_words(function, about, status, e, LOG_ERROR);
}

int last_error_keep_expected(const char *function, int status, const struct error *e)
{
    return last_error_keep_words(function, "", status, e, LOG_INFO);
}

RKNN_EXPORT void rknnd_print_failures(int wanted)
{
    is_silent = !wanted;
}

RKNN_EXPORT const char *rknnd_last_error(void)
{
    return words;
}

RKNN_EXPORT const char *rknnd_last_reason(void)
{
    return words + reason;
}
