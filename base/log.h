// Log lines to standard error, with journald's level prefixes when that is where they go.
#pragma once

#include <stdbool.h>

#include "base/list.h"

// The numbers are those of the vendor's RKNN_SERVER_LOGLEVEL (SDK guide, section 2.2).
enum log_level { LOG_SILENT, LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG, LOG_TRACE };

/// Sets the level of the process; safe from any thread, any time.
void log_set_level(enum log_level level);
enum log_level log_level_now(void);

#define LOG_LEVELS "0 to 5 or silent, error, warn, info, debug, trace" // for people

/// Sets the level from a number or a name, as in LOG_LEVELS (NULL or "": unchanged). False if it is
/// anything else.
bool log_set_level_text(const char *text);

/// From now on each line begins with its level as a byte, and has no time: whoever reads standard
/// error logs it again. Before there are threads.
void log_mark_levels(void);

/// From now on lines begin as those of the vendor's library: "E NAME: [14:54:19.438] ". `name`
/// lives as long as the process. Before there are threads that log.
void log_set_name(const char *name);

/// From now on a line that standard error has no room for (a pipe that nobody reads, a terminal
/// that is held) is left out, instead of waiting; the next one that goes says how many. Watchers
/// get them all. Before there are threads.
void log_never_wait(void);

/// How many lines have been left out.
unsigned long log_n_left_out(void);

/// Writes one line in one write(); text past 1,000 bytes is cut, control characters become spaces.
/// Thread-safe.
void log_line(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define log_at(level, ...) (log_level_now() >= (level) ? log_line((level), __VA_ARGS__) : (void)0)
#define log_error(...)     log_at(LOG_ERROR, __VA_ARGS__)
#define log_warn(...)      log_at(LOG_WARN, __VA_ARGS__)
#define log_info(...)      log_at(LOG_INFO, __VA_ARGS__)
#define log_debug(...)     log_at(LOG_DEBUG, __VA_ARGS__)
#define log_trace(...)     log_at(LOG_TRACE, __VA_ARGS__)

// The level, the watchers and the form of lines, of a process. A library that has this code once
// more logs with the process's own once it uses them.
struct log;
struct log *log_used(void);
/// Before the library logs anything.
void log_use(struct log *l);

// An observer of every line. Embedded by its owner.
struct log_watcher {
    struct list link;
    /// `text` is the line without time, level and newline. From any thread, one at a time; must not
    /// log.
    void (*take)(struct log_watcher *w, enum log_level level, const char *text);
};

/// take() is called for each line from now on, and no longer once log_unwatch() has returned.
void log_watch(struct log_watcher *w);
void log_unwatch(struct log_watcher *w);
