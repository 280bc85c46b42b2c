// Log lines to standard error, one write() per line so that lines of several threads and processes
// do not mix. Three forms, by who reads standard error:
//
// terminal, file   2026-11-22T16:23:02.123+01:00 I text
// journald         <6>text                        (journald adds the time)
// the daemon       \x03text                       (a worker's line, which the daemon logs again)
#include "base/log.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct log {
    _Atomic int level;
    bool marks_levels, never_waits;
    _Atomic unsigned n_left_out; // since that was last said
    _Atomic unsigned long n_left_out_ever;
    const char *_Atomic name; // NULL: lines begin with the time
    _Atomic int journal;      // -1: not known yet
    // The lock is not touched while nobody watches: so a process may fork at any time.
    pthread_mutex_t lock;
    struct list watchers;
    _Atomic int n_watchers;
};

static struct log own = {.level = LOG_WARN,
                         .journal = -1,
                         .lock = PTHREAD_MUTEX_INITIALIZER,
                         .watchers = {&own.watchers, &own.watchers}};
static struct log *_Atomic used = &own;

struct log *log_used(void)
{
    return used;
}

void log_use(struct log *l)
{
    used = l;
}

void log_set_level(enum log_level level)
{
    atomic_store_explicit(&used->level, (int)level, memory_order_relaxed);
}

enum log_level log_level_now(void)
{
    return (enum log_level)atomic_load_explicit(&used->level, memory_order_relaxed);
}

void log_mark_levels(void)
{
    used->marks_levels = true;
}

bool log_set_level_text(const char *text)
{
    static const char *const names[] = {"silent", "error", "warn", "info", "debug", "trace"};
    if (!text || !*text)
        return true;
    for (int level = LOG_SILENT; level <= LOG_TRACE; level++) {
        bool number = text[0] == '0' + level && !text[1];
        if (number || strcmp(text, names[level]) == 0) {
            log_set_level((enum log_level)level);
            return true;
        }
    }
    return false;
}

void log_set_name(const char *name)
{
    used->name = name;
}

// systemd sets JOURNAL_STREAM=DEVICE:INODE of the stream it reads (systemd.exec(5)); children
// inherit the variable, so it is compared with standard error, which may have been redirected.
static bool goes_to_journal(void)
{
    const char *stream = getenv("JOURNAL_STREAM");
    char error_stream[48];
    struct stat st;
    if (!stream || fstat(STDERR_FILENO, &st) < 0)
        return false;
    snprintf(error_stream, sizeof error_stream, "%llu:%llu", (unsigned long long)st.st_dev,
             (unsigned long long)st.st_ino);
    return strcmp(stream, error_stream) == 0;
}

// "2026-11-22T16:23:02.123+01:00 I ": ISO 8601, in local time; with a name as the vendor's library
// begins its lines: "E RKNN: [16:23:02.123] ".
static int write_time(char *line, size_t size, char letter)
{
    struct timespec now;
    struct tm parts;
    char day[32] = "", zone[8] = "";
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &parts);
    long ms = now.tv_nsec / 1000000;
    const char *name = used->name;
    if (name)
        return snprintf(line, size, "%c %s: [%02d:%02d:%02d.%03ld] ", letter, name, parts.tm_hour,
                        parts.tm_min, parts.tm_sec, ms);
    strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &parts);
    strftime(zone, sizeof zone, "%z", &parts); // "+0100"
    return snprintf(line, size, "%s.%03ld%.3s:%s %c ", day, ms, zone, zone[0] ? zone + 3 : "",
                    letter);
}

// What a line begins with. The vendor's levels are mapped to those of syslog: error 3, warning 4,
// info 6, debug 7.
static int write_head(char *line, size_t size, enum log_level level)
{
    static const char letters[] = "-EWIDT";
    static const int syslog_level[] = {3, 3, 4, 6, 7, 7};
    if (used->marks_levels)
        return snprintf(line, size, "%c", level);
    if (used->journal < 0)
        used->journal = goes_to_journal();
    if (used->journal)
        return snprintf(line, size, "<%d>", syslog_level[level]);
    return write_time(line, size, letters[level]);
}

// Text may contain names that a peer chose: it must not begin a line of its own or send escape
// sequences to the terminal.
static void blank_control_characters(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            *text = ' ';
}

void log_watch(struct log_watcher *w)
{
    pthread_mutex_lock(&used->lock);
    list_append(&used->watchers, &w->link);
    used->n_watchers++;
    pthread_mutex_unlock(&used->lock);
}

void log_unwatch(struct log_watcher *w)
{
    pthread_mutex_lock(&used->lock);
    list_remove(&w->link);
    used->n_watchers--;
    pthread_mutex_unlock(&used->lock);
}

// The counter is read without the lock, so that logging without watchers never touches it: a
// process may fork at any time, and a lock held in another thread would stay locked in the child.
static void tell_watchers(enum log_level level, const char *text)
{
    struct log_watcher *w;
    if (used->n_watchers == 0)
        return;
    pthread_mutex_lock(&used->lock);
    list_for_each (w, &used->watchers, link)
        w->take(w, level, text);
    pthread_mutex_unlock(&used->lock);
}

void log_never_wait(void)
{
    used->never_waits = true;
}

unsigned long log_n_left_out(void)
{
    return used->n_left_out_ever;
}

// Whether a write would not block. A pipe that polls writable has at least a page free, and a line
// is shorter than that.
static bool has_room(void)
{
    struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};
    return !used->never_waits || poll(&p, 1, 0) != 0;
}

// Nothing useful can be done if standard error is gone.
static void write_line(const char *line, size_t length)
{
    ssize_t ignored = write(STDERR_FILENO, line, length);
    (void)ignored;
}

// Says how many lines were left out.
static void log_confess(unsigned n)
{
    char line[256];
    size_t head = (size_t)write_head(line, sizeof line, LOG_WARN);
    int n_text = snprintf(line + head, sizeof line - head,
                          "%u lines were left out: nobody read standard error\n", n);
    write_line(line, head + (size_t)n_text);
}

// Keeps errno, so that it may be called before errno is read. The count of lines left out is taken
// before the attempt and given back if there is still no room, since other threads count too.
void log_line(enum log_level level, const char *format, ...)
{
    int saved_errno = errno;
    char line[1024];
    int head = write_head(line, sizeof line, level);
    char *text = line + head;
    va_list args;
    va_start(args, format);
    if (vsnprintf(text, sizeof line - (size_t)head - 1, format, args) < 0)
        *text = 0;
    va_end(args);
    blank_control_characters(text);
    tell_watchers(level, text);
    size_t length = (size_t)head + strlen(text);
    line[length++] = '\n';
    unsigned left_out = used->n_left_out ? atomic_exchange(&used->n_left_out, 0) : 0;
    if (left_out && has_room())
        log_confess(left_out);
    else if (left_out)
        used->n_left_out += left_out;
    if (has_room()) {
        write_line(line, length);
    } else {
        used->n_left_out++;
        used->n_left_out_ever++;
    }
    errno = saved_errno;
}
