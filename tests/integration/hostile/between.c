// For LD_PRELOAD: between a worker and its daemon somebody stands who listens at a Unix socket
// (RKNND_BETWEEN): before main() begins he is passed the worker's end of its socket, and one that
// goes to the worker in its place.
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define DAEMON 3 // rknnd --worker 3

static int send_two(int door, const int fds[2])
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(2 * sizeof *fds)];
    } control = {.header = {CMSG_LEN(2 * sizeof *fds), SOL_SOCKET, SCM_RIGHTS}};
    struct iovec word = {"w", 1};
    struct msghdr m = {.msg_iov = &word,
                       .msg_iovlen = 1,
                       .msg_control = control.room,
                       .msg_controllen = sizeof control.room};
    memcpy(CMSG_DATA(&control.header), fds, 2 * sizeof *fds);
    return sendmsg(door, &m, 0) == 1 ? 0 : -1;
}

// Where this fails, the worker ends. glibc passes main()'s words to constructors.
__attribute__((constructor)) static void step_between(int argc, char **argv)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *path = getenv("RKNND_BETWEEN");
    int ends[2];
    if (argc < 2 || strcmp(argv[1], "--worker") != 0 || !path)
        return;
    strncpy(address.sun_path, path, sizeof address.sun_path - 1);
    int door = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (door < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0 ||
        connect(door, (struct sockaddr *)&address, sizeof address) < 0 ||
        send_two(door, (int[]){DAEMON, ends[1]}) < 0 || dup2(ends[0], DAEMON) < 0)
        _exit(1);
    close(door);
    close(ends[0]);
    close(ends[1]);
}
