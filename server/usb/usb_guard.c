// The guard: a process that outlives a relay and tells the board when the relay has died.
//
//     relay ──pipe: struct guarded, whenever its board changes──► guard (rknnd --guard 0)
//       dies: the pipe ends ────────────────────────────────────► guard claims the interface and
//                                                                 sets its alternate setting: the
//                                                                 board drops all channels
//
// The guard blocks in read() and has no other state. It is the same program, started again.
#include "server/usb/usb_guard.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/usbdevice_fs.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"

#define CLAIMS   100
#define CLAIM_MS 20

// One record in the pipe. Smaller than PIPE_BUF, so it is written, and read, whole.
struct guarded {
    char node[48]; // "": no board
    int interface;
};

// A session of its own, so that the terminal's signals (Ctrl-C, hang-up) do not reach it with the
// relay. It is not waited for: it ends after the relay.
static int usb_guard_spawn(int input, struct error *e)
{
    char *args[] = {(char *)"rknnd", (char *)"--guard", (char *)"0", NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    pid_t pid;
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
    int r = posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
    r = r ? r : posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
    r = r ? r : posix_spawn(&pid, "/proc/self/exe", &actions, &attributes, args, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return r ? error_set_errno(e, STATUS_FAIL, r, "the process that guards the board") : 0;
}

int usb_guard_start(int *ret_fd, struct error *e)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_set_errno(e, STATUS_FAIL, errno, "a pipe");
    cleanup(fd_close_p) int theirs = ends[0], ours = ends[1];
    int r = usb_guard_spawn(theirs, e);
    if (r < 0)
        return r;
    fd_unblock(ours);
    *ret_fd = steal_fd(&ours);
    return 0;
}

// Non-blocking: a guard that has died must not stop the relay, so a failure is only logged.
void usb_guard_name(int fd, const char *node, int interface)
{
    struct guarded g = {.interface = interface};
    snprintf(g.node, sizeof g.node, "%s", node ? node : "");
    if (write(fd, &g, sizeof g) != sizeof g)
        log_warn("usb: the board is not told if this relay is killed: %s", strerror(errno));
}

// The relay's death makes the kernel release the interface, but not before the pipe ends: a process
// that dies loses its descriptors one after the other. One that is busy for longer is another
// relay's, which has told the board already by its own SETINTERFACE.
static bool claim(int device, unsigned interface)
{
    for (int i = 0; i < CLAIMS; i++) {
        if (ioctl(device, USBDEVFS_CLAIMINTERFACE, &interface) == 0)
            return true;
        if (errno != EBUSY)
            return false;
        poll(NULL, 0, CLAIM_MS);
    }
    return false;
}

static void tell_board(const struct guarded *g)
{
    struct usbdevfs_setinterface setting = {.interface = (unsigned)g->interface};
    cleanup(fd_close_p) int device = open(g->node, O_RDWR | O_CLOEXEC);
    if (device >= 0 && claim(device, setting.interface))
        ioctl(device, USBDEVFS_SETINTERFACE, &setting);
}

// Ignores the signals that end the relay: it has to live a moment longer when both are told to end.
int usb_guard_run(int fd)
{
    struct guarded last = {.node = ""}, g;
    ssize_t n;
    signal(SIGTERM, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    while ((n = read(fd, &g, sizeof g)) == sizeof g || (n < 0 && errno == EINTR))
        if (n == sizeof g)
            last = g;
    // The pipe is at its end. A board is still named: the relay died, or ended with programs
    // connected.
    last.node[sizeof last.node - 1] = 0;
    if (last.node[0])
        tell_board(&last);
    return EXIT_SUCCESS;
}
