#include "tools/board/private_daemon.h"

#include <dirent.h>
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
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/file/find_daemon.h"
#include "rknnd.h"

#define START_MS 30000u // a daemon, and an answer from the driver's first opening
#define STOP_MS  3000u
#define SOCKET   "s"

// A driver waits three times for what it is given before it gives up and resets the core; the
// daemon is to hear of that before it ends the worker.
static const char *const job_limit = "15000"; // ms: longer than a driver's own

// ---- the program ----

static int find_program(char *path, struct error *e)
{
    char own[PATH_MAX];
    return find_daemon(realpath("/proc/self/exe", own), path, e);
}

// In the child: never returns. Nobody else waits for the NPU, and a run in slices would have cores
// wait for each other where they end. Other than a private daemon of the client library (spawn.h)
// it has a name, which this process's client library is told, is this process's child, of its
// group, and gets its signal: who ends this process can tell whether a driver still holds the
// daemon.
static void run_daemon(const char *path, const char *backend, const char *listen)
{
    const char *arguments[] = {"rknnd", "--backend",        backend,   "--listen",
                               listen,  "--job-timeout-ms", job_limit, "--slice-us",
                               "0",     "--log-level",      "info",    NULL};
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    execv(path, (char *const *)(uintptr_t)arguments);
    fprintf(stderr, "%s cannot be started: %s\n", path, strerror(errno));
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
int server_start(struct server *s, const char *backend, const char *folder, struct error *e)
{
    char path[PATH_MAX];
    *s = (struct server){0};
    int r = find_program(path, e);
    if (r < 0)
        return r;
    FILE *log = server_log_new(e);
    if (!log)
        return e->code;
    snprintf(s->uri, sizeof s->uri, "unix:%s/" SOCKET, folder);
    fflush(NULL);
    s->pid = fork();
    if (s->pid == 0) {
        dup2(fileno(log), STDERR_FILENO);
        dup2(fileno(log), STDOUT_FILENO);
        run_daemon(path, backend, s->uri);
    }
    r = s->pid < 0 ? error_set_errno(e, STATUS_FAIL, errno, "rknnd cannot be started")
                   : wait_for_answer(s, log, e);
    fclose(log);
    return r;
}

// In memory: there may be no folder that can be written.
FILE *server_log_new(struct error *e)
{
    cleanup(fd_close_p) int fd = fd_memory("board-test", 0, e);
    FILE *log = fd >= 0 ? fdopen(fd, "w+e") : NULL;
    if (log)
        (void)steal_fd(&fd);
    else if (fd >= 0)
        error_set_errno(e, STATUS_FAIL, errno, "no room for what rknnd says");
    return log;
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
    *s = (struct server){0};
}

// ---- its folder ----

#define FOLDER_NAME "rknnd-board-"
#define DEAD_S      600 // no probe takes as long, by far

// The i-th place for folders, "" where it is not known; NULL: there are no more. A board may have a
// file system that is read-only.
static const char *place(size_t i)
{
    const char *const places[] = {getenv("TMPDIR"), "/tmp", getenv("XDG_RUNTIME_DIR"), "/dev/shm",
                                  "/run"};
    if (i >= sizeof places / sizeof *places)
        return NULL;
    return places[i] ? places[i] : "";
}

// The first one that can be written.
int server_folder_make(char ret[SERVER_FOLDER], struct error *e)
{
    static const char name[] = FOLDER_NAME "XXXXXX";
    const char *in;
    error_set(e, STATUS_FAIL, "no folder for a socket: TMPDIR names one that is too long");
    for (size_t i = 0; (in = place(i)); i++) {
        if (!*in || strlen(in) + 1 + sizeof name > SERVER_FOLDER)
            continue;
        snprintf(ret, SERVER_FOLDER, "%s/%s", in, name);
        if (mkdtemp(ret))
            return 0;
        error_set_errno(e, STATUS_FAIL, errno,
                        "no folder for a socket in %s (TMPDIR names another)", in);
    }
    ret[0] = 0;
    return e->code;
}

// One of this user's that has been there for long.
static bool is_dead(const char *folder)
{
    struct stat st;
    return lstat(folder, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
           time(NULL) - st.st_mtime > DEAD_S;
}

void server_folders_sweep(void)
{
    const char *in;
    for (size_t i = 0; (in = place(i)); i++) {
        DIR *d = *in ? opendir(in) : NULL;
        struct dirent *entry;
        while (d && (entry = readdir(d))) {
            char folder[PATH_MAX];
            int n = snprintf(folder, sizeof folder, "%s/%s", in, entry->d_name);
            if (strncmp(entry->d_name, FOLDER_NAME, strlen(FOLDER_NAME)) == 0 && n > 0 &&
                n < SERVER_FOLDER && is_dead(folder))
                server_folder_remove(folder);
        }
        if (d)
            closedir(d);
    }
}

void server_folder_remove(const char *folder)
{
    char socket[SERVER_FOLDER + 8];
    if (!*folder)
        return;
    snprintf(socket, sizeof socket, "%s/" SOCKET, folder);
    unlink(socket);
    rmdir(folder);
}
