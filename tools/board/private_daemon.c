// The daemon listens at a socket in a folder of its own, which only this user may enter.
#include "tools/board/private_daemon.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "rknnd.h"

#define START_MS 30000u // a daemon, and an answer from the driver's first opening
#define STOP_MS  3000u

// A driver waits three times for what it is given before it gives up and resets the core; the
// daemon is to hear of that before it ends the worker.
static const char *const job_limit = "15000"; // ms: longer than a driver's own

// ---- the program ----

// In the child: never returns.
static void run_daemon(const char *backend, const char *listen)
{
    char beside[PATH_MAX], *given = getenv("RKNND_DAEMON");
    const char *arguments[] = {
        "rknnd",   "--backend",   backend, "--listen", listen, "--job-timeout-ms",
        job_limit, "--log-level", "info",  NULL};
    char *const *words = (char *const *)(uintptr_t)arguments;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (given && *given)
        execv(given, words);
    ssize_t n = readlink("/proc/self/exe", beside, sizeof beside - 8);
    char *slash = n > 0 ? (beside[n] = 0, strrchr(beside, '/')) : NULL;
    if (slash) {
        strcpy(slash + 1, "rknnd");
        execv(beside, words);
    }
    execvp("rknnd", words);
    execv("/usr/sbin/rknnd", words);
    fprintf(stderr, "rknnd was not found: install the package rknnd, or set RKNND_DAEMON\n");
    _exit(127);
}

// ---- waiting for it ----

// "2026-01-31T12:00:00.000+00:00 E words" are words.
static const char *without_time(const char *line)
{
    const char *level = *line >= '0' && *line <= '9' ? strchr(line, ' ') : NULL;
    return level && level[1] && level[2] == ' ' ? level + 3 : line;
}

// Why it ended: the last line that it wrote to standard error, which `log` repeats.
static int explain_end(int status, FILE *log, struct error *e)
{
    char line[400], last[400] = "";
    rewind(log);
    while (fgets(line, sizeof line, log)) {
        fputs(line, stderr);
        line[strcspn(line, "\n")] = 0;
        if (*line)
            snprintf(last, sizeof last, "%s", line);
    }
    if (WIFSIGNALED(status))
        return error_set(e, STATUS_DEVICE_UNAVAILABLE, "rknnd died of signal %d", WTERMSIG(status));
    const char *words = without_time(last);
    return error_set(e, STATUS_DEVICE_UNAVAILABLE, "%s", *words ? words : "rknnd ended at once");
}

// Until it greets; a daemon whose backend cannot be opened ends instead, with words in its log.
static int wait_for_answer(struct server *s, FILE *log, struct error *e)
{
    rknnd_server_info info = {.struct_size = sizeof info};
    char path[sizeof s->uri];
    snprintf(path, sizeof path, "%s", s->uri + strlen("unix:"));
    for (uint64_t until = clock_ms() + START_MS; clock_ms() < until; poll(NULL, 0, 10)) {
        int status;
        if (waitpid(s->pid, &status, WNOHANG) == s->pid) {
            s->pid = 0;
            return explain_end(status, log, e);
        }
        if (access(path, F_OK) == 0 && rknnd_get_server_info(s->uri, &info) == RKNN_SUCC)
            return 0;
    }
    return error_set(e, STATUS_TIMEOUT, "rknnd did not answer within %u s", START_MS / 1000);
}

// Its words go to a file, of which the last line is the reason when it does not start.
int server_start(struct server *s, const char *backend, struct error *e)
{
    *s = (struct server){.folder = "/tmp/rknnd-board-XXXXXX"};
    FILE *log = tmpfile();
    if (!log || !mkdtemp(s->folder)) {
        s->folder[0] = 0;
        if (log)
            fclose(log);
        return error_set_errno(e, STATUS_FAIL, errno, "no folder for a socket");
    }
    snprintf(s->uri, sizeof s->uri, "unix:%s/s", s->folder);
    fflush(NULL);
    s->pid = fork();
    if (s->pid == 0) {
        dup2(fileno(log), STDERR_FILENO);
        dup2(fileno(log), STDOUT_FILENO);
        run_daemon(backend, s->uri);
    }
    int r = s->pid < 0 ? error_set_errno(e, STATUS_FAIL, errno, "rknnd cannot be started")
                       : wait_for_answer(s, log, e);
    fclose(log);
    return r;
}

// Asked first, so that it can let go of the device in order.
void server_stop(struct server *s)
{
    if (s->pid > 0) {
        kill(s->pid, SIGTERM);
        for (uint64_t until = clock_ms() + STOP_MS;
             waitpid(s->pid, NULL, WNOHANG) == 0 && clock_ms() < until;)
            poll(NULL, 0, 10);
        kill(s->pid, SIGKILL);
    }
    if (s->folder[0]) {
        char socket[sizeof s->folder + 8];
        snprintf(socket, sizeof socket, "%s/s", s->folder);
        unlink(socket);
        rmdir(s->folder);
    }
    *s = (struct server){0};
}
