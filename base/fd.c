// File descriptors: shared memory (memfd) with its seals, mapping, and passing over Unix sockets.
// Sizes of descriptors that come from other processes are checked before anything is mapped:
// touching a page behind the end of a file raises SIGBUS.
#include "base/fd.h"

#include <assert.h>
#include <errno.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>

// Keeps errno, so that it can stand in error paths. Returns -1 to assign to the variable.
int fd_close(int fd)
{
    if (fd >= 0) {
        int saved = errno;
        close(fd);
        errno = saved;
    }
    return -1;
}

// Even the first call may wait: somebody else may have the socket's lock.
void fd_close_passed(int fd)
{
    if (fd < 0)
        return;
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){0}, sizeof(struct linger));
    fd_close(fd);
}

void fd_keep_standard(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", O_RDONLY) < 0)
            return; // nothing of this kind can be opened later either
}

int fd_above_standard(int fd)
{
    if (fd < 0 || fd > STDERR_FILENO)
        return fd;
    int above = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    fd_close(fd);
    return above;
}

bool fd_limit_allows(uint64_t size)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) < 0 || size <= limit.rlim_cur;
}

int fd_memory(const char *name, uint64_t size, struct error *e)
{
    if (!fd_limit_allows(size))
        return error_set(e, STATUS_MALLOC_FAIL,
                         "%llu bytes of shared memory for %s are more than a file may have here "
                         "(ulimit -f, LimitFSIZE=)",
                         (unsigned long long)size, name);
    cleanup(fd_close_p) int fd =
        fd_above_standard(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (fd < 0)
        return error_set_errno(e, STATUS_MALLOC_FAIL, errno, "shared memory for %s", name);
    if (size > INT64_MAX || ftruncate(fd, (off_t)size) < 0)
        return error_set_errno(e, STATUS_MALLOC_FAIL, size > INT64_MAX ? EFBIG : errno,
                               "%llu bytes of shared memory for %s", (unsigned long long)size,
                               name);
    return steal_fd(&fd);
}

// dma-bufs have no file type in st_mode; kernels before 5.3 tell their size through lseek() only.
int fd_size(int fd, uint64_t *ret, struct error *e)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return error_set_errno(e, STATUS_PARAM_INVALID, errno, "file descriptor %d", fd);
    off_t size = st.st_mode & S_IFMT ? 0 : lseek(fd, 0, SEEK_END);
    size = S_ISREG(st.st_mode) ? st.st_size : size;
    if (size <= 0)
        return error_set(e, STATUS_PARAM_INVALID,
                         "the file descriptor is of nothing that can be mapped, or is empty: a "
                         "dma-buf, a memfd or a file is needed");
    *ret = (uint64_t)size;
    return 0;
}

// Where the file is not ours to change, it stays as its owner has it.
void fd_hide(int fd)
{
    fchmod(fd, 0600);
}

// The link of /proc is opened as the file itself would be, by its mode. Without O_NONBLOCK, which
// means nothing else here, that waits for whoever has a lease on the file (F_SETLEASE of fcntl(2)),
// as its owner may: for 45 s.
int fd_open_read_only(int fd)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

static bool is_sealed(int fd, int any_of)
{
    int seals = fcntl(fd, F_GET_SEALS);
    return seals >= 0 && (seals & any_of);
}

// A seal against writing makes a descriptor read-only however it was opened.
bool fd_is_read_only(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    return (flags >= 0 && (flags & O_ACCMODE) == O_RDONLY) ||
           is_sealed(fd, F_SEAL_WRITE | F_SEAL_FUTURE_WRITE);
}

int fd_check_writable(int fd, int code, struct error *e)
{
    if (!fd_is_read_only(fd))
        return 0;
    return error_set(e, code,
                     "the memory cannot be written: its descriptor is open for reading alone (open "
                     "it, or export the dma-buf, with O_RDWR), or sealed against writing");
}

int fd_check_stays(int fd, struct error *e)
{
    struct statfs fs;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || fstatfs(fd, &fs) < 0 || fs.f_type != TMPFS_MAGIC)
        return error_set(
            e, STATUS_PARAM_INVALID,
            "the file descriptor is neither a dma-buf nor a memfd of ordinary pages; use "
            "rknn_create_mem, or memfd_create with MFD_ALLOW_SEALING");
    int wanted = fd_is_read_only(fd) ? F_SEAL_SHRINK : F_SEAL_SHRINK | F_SEAL_SEAL;
    if ((seals & wanted) == wanted || fcntl(fd, F_ADD_SEALS, wanted) == 0)
        return 0;
    return error_set_errno(e, STATUS_PARAM_INVALID, errno,
                           "the file can shrink and cannot be sealed against it; make it by "
                           "memfd_create with MFD_ALLOW_SEALING, open for writing");
}

// Kernels before 6.7 refuse a shared mapping of a write-sealed memfd whose descriptor is open for
// writing. Contents that cannot change are the same in a private mapping.
void *fd_map(int fd, uint64_t size, struct error *e)
{
    int protection = fd_is_read_only(fd) ? PROT_READ : PROT_READ | PROT_WRITE;
    int sharing = is_sealed(fd, F_SEAL_WRITE) ? MAP_PRIVATE : MAP_SHARED;
    void *memory = MAP_FAILED;
    errno = ENOMEM;
    if (size <= PTRDIFF_MAX)
        memory = mmap(NULL, (size_t)size, protection, sharing, fd, 0);
    if (memory != MAP_FAILED)
        return memory;
    error_set_errno(e, STATUS_MALLOC_FAIL, errno, "cannot map %llu bytes of shared memory",
                    (unsigned long long)size);
    return NULL;
}

// The order matters: a memfd cannot be sealed against writing while a writable mapping exists, so
// last_seal may only be one that allows it (F_SEAL_FUTURE_WRITE). Kernels that do not know that
// seal refuse it, which is ignored: sizes are sealed all the same.
int fd_memory_sealed(const char *name, uint64_t size, int last_seal, void **ret_map,
                     struct error *e)
{
    cleanup(fd_close_p) int fd = fd_memory(name, size, e);
    if (fd < 0)
        return fd;
    void *memory = fd_map(fd, size, e);
    if (!memory)
        return STATUS_MALLOC_FAIL;
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0) {
        int code = error_set_errno(e, STATUS_FAIL, errno, "cannot seal shared memory");
        munmap(memory, (size_t)size);
        return code;
    }
    fcntl(fd, F_ADD_SEALS, last_seal | F_SEAL_SEAL);
    *ret_map = memory;
    return steal_fd(&fd);
}

bool fd_is_unix(int socket)
{
    int family = AF_UNSPEC;
    socklen_t size = sizeof family;
    return getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &family, &size) == 0 && family == AF_UNIX;
}

// Errors cannot occur on a valid descriptor.
void fd_unblock(int fd)
{
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

void fd_take_urgent(int socket)
{
    setsockopt(socket, SOL_SOCKET, SO_OOBINLINE, &(int){1}, sizeof(int));
}

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83 // everywhere but on Alpha, MIPS, PA-RISC and SPARC
#endif

void fd_refuse_passed(int socket)
{
    setsockopt(socket, SOL_SOCKET, SO_PASSRIGHTS, &(int){0}, sizeof(int));
}

void fd_limit_receive(int socket, unsigned ms)
{
    const struct timeval most = {.tv_sec = (time_t)(ms / 1000),
                                 .tv_usec = (suseconds_t)(ms % 1000 * 1000)};
    setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
}

void fd_block_for(int socket, unsigned ms)
{
    fd_limit_receive(socket, ms);
    fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) & ~O_NONBLOCK);
}

void fd_widen(int socket)
{
    int wanted = 1 << 20;
    if (fd_is_unix(socket))
        setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &wanted, sizeof wanted); // the kernel has a limit
}

// SCM_RIGHTS (unix(7)): the kernel duplicates the descriptors for the receiver; ours stay open.
static ssize_t send_with(int socket, const struct iovec *iov, int n_iov, const int *fds, int n_fds,
                         int flags)
{
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int) * FD_MAX_PASSED)];
    } control;
    struct msghdr m = {.msg_iov = (struct iovec *)iov, .msg_iovlen = (size_t)n_iov};
    assert(n_fds <= FD_MAX_PASSED);
    if (n_fds > 0) {
        memset(&control, 0, sizeof control);
        m.msg_control = &control;
        m.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)n_fds);
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)n_fds);
        memcpy(CMSG_DATA(c), fds, sizeof(int) * (size_t)n_fds);
    }
    bool is_plain = n_iov == 1 && n_fds == 0; // which is cheaper
    ssize_t n;
    do
        n = is_plain ? send(socket, iov->iov_base, iov->iov_len, MSG_NOSIGNAL | flags)
                     : sendmsg(socket, &m, MSG_NOSIGNAL | flags);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

ssize_t fd_send(int socket, const struct iovec *iov, int n_iov, const int *fds, int n_fds)
{
    return send_with(socket, iov, n_iov, fds, n_fds, 0);
}

ssize_t fd_send_now(int socket, const struct iovec *iov, int n_iov, const int *fds, int n_fds)
{
    return send_with(socket, iov, n_iov, fds, n_fds, MSG_DONTWAIT);
}

// Stores received descriptors and closes those that are too many, or they would leak.
static void take_fds(struct msghdr *m, int *fds, int *n_fds, int max_fds)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            if (*n_fds < max_fds)
                fds[(*n_fds)++] = fd_above_standard(fd);
            else
                fd_close_passed(fd);
        }
    }
}

// Without max_fds the kernel drops descriptors itself.
ssize_t fd_receive_once(int socket, void *buffer, size_t size, int *fds, int *n_fds, int max_fds,
                        int flags)
{
    if (max_fds == 0) {
        ssize_t got = recv(socket, buffer, size, flags);
        return got < 0 ? -errno : got;
    }
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int) * FD_MAX_IN_MESSAGE)];
    } control;
    struct iovec iov = {buffer, size};
    struct msghdr m = {.msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = &control,
                       .msg_controllen = sizeof control};
    ssize_t n = recvmsg(socket, &m, MSG_CMSG_CLOEXEC | flags);
    if (n < 0)
        return -errno;
    take_fds(&m, fds, n_fds, max_fds);
    if (m.msg_flags & MSG_CTRUNC && *n_fds < max_fds)
        fds[(*n_fds)++] = -1;
    return n;
}

ssize_t fd_receive(int socket, void *buffer, size_t size, int *fds, int *n_fds, int max_fds)
{
    ssize_t n;
    do
        n = fd_receive_once(socket, buffer, size, fds, n_fds, max_fds, 0);
    while (n == -EINTR);
    return n;
}
