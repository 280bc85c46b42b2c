// Calls that fail on purpose. A library for LD_PRELOAD: what a process asks of the C library and
// the kernel goes through here, is counted, and fails when its turn comes.
//
// The file that RKNND_FAULTS names holds a struct role_faults for each role of ours; a test has it
// mapped and changes it while the processes run. A process knows its role by its command line. Each
// file is written by one test and read by processes that it started, so nothing in it is checked.
//
// What fails, fails as the kernel would: with an errno that the call has, and without an effect.
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default")))
#define FRAMES 24

// Bits of role_faults.calls; names in tests/support/faults.py, in this order.
enum call {
    CALL_MEMORY,
    CALL_MMAP,
    CALL_MEMFD,
    CALL_SOCKETPAIR,
    CALL_FORK,
    CALL_THREAD,
    CALL_EPOLL,
    CALL_ACCEPT,
    CALL_SEND,
    CALL_RECEIVE,
    CALL_OPEN,
    CALL_DESCRIPTOR,
    CALL_STORAGE,
    CALL_FILES,
    N_CALLS
};

static const int usual_errno[] = {ENOMEM, ENOMEM,  EMFILE,     EMFILE, EAGAIN, EAGAIN, ENOSPC,
                                  EMFILE, ENOBUFS, ECONNRESET, EMFILE, EMFILE, ENOSPC, EIO};
_Static_assert(sizeof usual_errno / sizeof *usual_errno == N_CALLS, "one for each kind");

// As in tests/support/faults.py. Sizes in bytes: 64, then text.
struct role_faults {
    _Atomic uint64_t calls;  // bit i: those of enum call i are counted
    _Atomic uint64_t nth;    // that fails, from 1; 0: none
    _Atomic uint64_t last;   // up to which all fail; 0: that one alone
    _Atomic uint64_t count;  // since the test has set it to 0
    _Atomic uint64_t failed; // likewise
    _Atomic int64_t clock_s; // what the real-time clock is ahead
    _Atomic uint64_t error;  // errno; 0: the usual one
    _Atomic uint64_t kills; // 1: the process gets SIGKILL before the call, which does not come back
    char where[4032];       // stack of the first one that failed
};

// In the order of tests/support/faults.py.
enum role {
    ROLE_DAEMON,
    ROLE_WORKER,
    ROLE_CLIENT,
    ROLE_TOOL,
    ROLE_SUCCESSOR, // a daemon that was started to take over
    ROLE_RELAY,
    ROLE_KSERVE,
    ROLE_HTTP,
    ROLE_ANNOUNCE,
    N_ROLES
};

static const char *const programs[N_ROLES] = {[ROLE_CLIENT] = "life",
                                              [ROLE_TOOL] = "rknnctl",
                                              [ROLE_KSERVE] = "rknnd-kserve",
                                              [ROLE_HTTP] = "rknnd-http",
                                              [ROLE_ANNOUNCE] = "rknnd-announce",
                                              [ROLE_DAEMON] = "rknnd"};
static const char *const options[N_ROLES] = { // of rknnd, which make it something else
    [ROLE_WORKER] = "--worker",
    [ROLE_SUCCESSOR] = "--takeover",
    [ROLE_RELAY] = "--relay"};

static struct role_faults *mine; // NULL: of no interest
static __thread bool inside;

// ---- the role -----------------------------------------------------------------------------------

static int role_of(const char *words, size_t size)
{
    const char *name = strrchr(words, '/') ? strrchr(words, '/') + 1 : words;
    int role = 0;
    while (role < N_ROLES && !(programs[role] && strcmp(name, programs[role]) == 0))
        role++;
    if (role == N_ROLES)
        return -1;
    for (const char *w = words; role == ROLE_DAEMON && w < words + size; w += strlen(w) + 1)
        for (int other = 0; other < N_ROLES; other++)
            if (options[other] && strcmp(w, options[other]) == 0)
                return other;
    return role;
}

__attribute__((constructor)) static void faults_init(void)
{
    char words[4096];
    void *warm[2];
    const char *path = getenv("RKNND_FAULTS");
    int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, words, sizeof words - 1);
    close(fd);
    if (!path || n <= 0)
        return;
    words[n] = 0;
    int role = role_of(words, (size_t)n);
    fd = role < 0 ? -1 : (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return;
    backtrace(warm, 2); // loads what it needs
    void *p = (void *)syscall(SYS_mmap, NULL, sizeof *mine * N_ROLES, PROT_READ | PROT_WRITE,
                              MAP_SHARED, fd, 0L);
    close(fd);
    if (p != MAP_FAILED)
        mine = (struct role_faults *)p + role;
}

// ---- whether it fails ---------------------------------------------------------------------------

static void note_where(void)
{
    void *frames[FRAMES];
    int n = backtrace(frames, FRAMES);
    size_t used = 0;
    for (int i = 2; i < n && used < sizeof mine->where - 1; i++) {
        Dl_info info;
        if (!dladdr(frames[i], &info))
            continue;
        int r = snprintf(mine->where + used, sizeof mine->where - used, "%s+%#tx\n", info.dli_fname,
                         (char *)frames[i] - (char *)info.dli_fbase);
        used += r > 0 ? (size_t)r : 0;
    }
}

// Sets errno.
static __attribute__((noinline)) bool call_fails(enum call c)
{
    if (!mine || inside || !(mine->calls >> c & 1))
        return false;
    uint64_t n = ++mine->count, nth = mine->nth, last = mine->last;
    if (nth == 0 || n < nth || n > (last ? last : nth))
        return false;
    if (mine->failed++ == 0) {
        inside = true;
        note_where();
        inside = false;
    }
    if (mine->kills)
        syscall(SYS_kill, syscall(SYS_getpid), SIGKILL);
    errno = mine->error ? (int)mine->error : usual_errno[c];
    return true;
}

// The function that ours stands before.
#define NEXT(name)                                                                                 \
    ({                                                                                             \
        static __typeof__(&name) next;                                                             \
        if (!next)                                                                                 \
            next = (__typeof__(&name))find_next(#name);                                            \
        next;                                                                                      \
    })

// dlsym() may allocate.
static void *find_next(const char *name)
{
    bool was = inside;
    inside = true;
    void *p = dlsym(RTLD_NEXT, name);
    inside = was;
    if (!p)
        abort();
    return p;
}

#define STANDS_BEFORE(call, failure, type, name, parameters, arguments)                            \
    PUBLIC type name parameters                                                                    \
    {                                                                                              \
        return call_fails(call) ? failure : NEXT(name) arguments;                                  \
    }

// The C library's own names of parameters are reserved to it.
// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name)

// ---- memory -------------------------------------------------------------------------------------

// dlsym() allocates before there is anybody to do it: from here, never freed.
static char first_memory[16384] __attribute__((aligned(16)));
static size_t first_used;

static bool is_first(const void *p)
{
    return (const char *)p >= first_memory && (const char *)p < first_memory + sizeof first_memory;
}

static void *first_allocate(size_t size)
{
    void *p = first_memory + first_used;
    first_used += (size + 15) & ~(size_t)15;
    if (first_used > sizeof first_memory)
        abort();
    return p;
}

static void *(*real_malloc)(size_t);
static void *(*real_calloc)(size_t, size_t);
static void *(*real_realloc)(void *, size_t);
static void (*real_free)(void *);
static bool finding;

static bool memory_is_found(void)
{
    if (real_free)
        return true;
    if (finding)
        return false;
    finding = true;
    real_malloc = (void *(*)(size_t))find_next("malloc");
    real_calloc = (void *(*)(size_t, size_t))find_next("calloc");
    real_realloc = (void *(*)(void *, size_t))find_next("realloc");
    real_free = (void (*)(void *))find_next("free");
    finding = false;
    return true;
}

PUBLIC void *malloc(size_t size)
{
    if (!memory_is_found())
        return first_allocate(size);
    return call_fails(CALL_MEMORY) ? NULL : real_malloc(size);
}

PUBLIC void *calloc(size_t n, size_t size)
{
    if (!memory_is_found())
        return first_allocate(n * size);
    return call_fails(CALL_MEMORY) ? NULL : real_calloc(n, size);
}

PUBLIC void *realloc(void *p, size_t size)
{
    if (!memory_is_found() || is_first(p)) {
        void *moved = memory_is_found() ? real_malloc(size) : first_allocate(size);
        if (moved && p) // what was there ends somewhere in first_memory
            memcpy(moved, p,
                   (size_t)(first_memory + sizeof first_memory - (char *)p) < size
                       ? (size_t)(first_memory + sizeof first_memory - (char *)p)
                       : size);
        return moved;
    }
    return call_fails(CALL_MEMORY) ? NULL : real_realloc(p, size);
}

PUBLIC void free(void *p)
{
    if (p && !is_first(p) && memory_is_found())
        real_free(p);
}

PUBLIC int posix_memalign(void **ret, size_t alignment, size_t size)
{
    return call_fails(CALL_MEMORY) ? ENOMEM : NEXT(posix_memalign)(ret, alignment, size);
}

STANDS_BEFORE(CALL_MEMORY, NULL, void *, aligned_alloc, (size_t alignment, size_t size),
              (alignment, size))
STANDS_BEFORE(CALL_MMAP, MAP_FAILED, void *, mmap,
              (void *p, size_t size, int protection, int flags, int fd, off_t offset),
              (p, size, protection, flags, fd, offset))

// ---- processes and threads ----------------------------------------------------------------------

STANDS_BEFORE(CALL_FORK, -1, pid_t, fork, (void), ())

PUBLIC int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                       const posix_spawnattr_t *attr, char *const argv[], char *const environment[])
{
    return call_fails(CALL_FORK) ? EAGAIN
                                 : NEXT(posix_spawn)(pid, path, actions, attr, argv, environment);
}

PUBLIC int clone(int (*start)(void *), void *stack, int flags, void *arg, ...)
{
    if (call_fails(CALL_FORK)) {
        errno = EAGAIN;
        return -1;
    }
    return NEXT(clone)(start, stack, flags, arg);
}

PUBLIC int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *),
                          void *arg)
{
    return call_fails(CALL_THREAD) ? EAGAIN : NEXT(pthread_create)(thread, attr, start, arg);
}

// ---- descriptors --------------------------------------------------------------------------------

STANDS_BEFORE(CALL_MEMFD, -1, int, memfd_create, (const char *name, unsigned flags), (name, flags))
STANDS_BEFORE(CALL_SOCKETPAIR, -1, int, socketpair,
              (int domain, int type, int protocol, int fds[2]), (domain, type, protocol, fds))
STANDS_BEFORE(CALL_ACCEPT, -1, int, accept4,
              (int fd, struct sockaddr *address, socklen_t *size, int flags),
              (fd, address, size, flags))
STANDS_BEFORE(CALL_DESCRIPTOR, -1, int, socket, (int domain, int type, int protocol),
              (domain, type, protocol))
STANDS_BEFORE(CALL_DESCRIPTOR, -1, int, dup, (int fd), (fd))
STANDS_BEFORE(CALL_DESCRIPTOR, -1, int, pipe2, (int fds[2], int flags), (fds, flags))
STANDS_BEFORE(CALL_DESCRIPTOR, -1, int, eventfd, (unsigned value, int flags), (value, flags))
STANDS_BEFORE(CALL_OPEN, NULL, FILE *, fopen, (const char *path, const char *mode), (path, mode))
STANDS_BEFORE(CALL_OPEN, NULL, DIR *, opendir, (const char *path), (path))
STANDS_BEFORE(CALL_STORAGE, -1, int, ftruncate, (int fd, off_t size), (fd, size))
STANDS_BEFORE(CALL_STORAGE, -1, ssize_t, pwrite, (int fd, const void *data, size_t size, off_t at),
              (fd, data, size, at))

PUBLIC int posix_fallocate(int fd, off_t offset, off_t size)
{
    return call_fails(CALL_STORAGE) ? ENOSPC : NEXT(posix_fallocate)(fd, offset, size);
}

static mode_t mode_from(int flags, va_list *args)
{
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(*args, mode_t) : 0;
}

PUBLIC int open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = mode_from(flags, &args);
    va_end(args);
    return call_fails(CALL_OPEN) ? -1 : NEXT(open)(path, flags, mode);
}

PUBLIC int openat(int folder, const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = mode_from(flags, &args);
    va_end(args);
    return call_fails(CALL_OPEN) ? -1 : NEXT(openat)(folder, path, flags, mode);
}

PUBLIC int fcntl(int fd, int command, ...)
{
    va_list args;
    va_start(args, command);
    void *arg = va_arg(args, void *);
    va_end(args);
    bool makes_one = command == F_DUPFD || command == F_DUPFD_CLOEXEC;
    return makes_one && call_fails(CALL_DESCRIPTOR) ? -1 : NEXT(fcntl)(fd, command, arg);
}

// The kernel has memory to find only for what is not watched yet, and says first that it is.
PUBLIC int epoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
    int r = NEXT(epoll_ctl)(epoll, op, fd, event);
    if (op != EPOLL_CTL_ADD || r < 0 || !call_fails(CALL_EPOLL))
        return r;
    int saved = errno;
    NEXT(epoll_ctl)(epoll, EPOLL_CTL_DEL, fd, event);
    errno = saved;
    return -1;
}

// ---- names and what is in files -----------------------------------------------------------------

STANDS_BEFORE(CALL_FILES, -1, int, rename, (const char *from, const char *to), (from, to))
STANDS_BEFORE(CALL_FILES, -1, int, renameat,
              (int folder, const char *from, int other, const char *to), (folder, from, other, to))
STANDS_BEFORE(CALL_FILES, -1, int, unlink, (const char *path), (path))
STANDS_BEFORE(CALL_FILES, -1, int, unlinkat, (int folder, const char *path, int flags),
              (folder, path, flags))
STANDS_BEFORE(CALL_FILES, -1, int, mkdir, (const char *path, mode_t mode), (path, mode))
STANDS_BEFORE(CALL_FILES, -1, int, mkdirat, (int folder, const char *path, mode_t mode),
              (folder, path, mode))
STANDS_BEFORE(CALL_FILES, -1, int, fsync, (int fd), (fd))
STANDS_BEFORE(CALL_FILES, -1, int, fdatasync, (int fd), (fd))

// Only what goes to a disk: a pipe or an eventfd does not fail so, and libuv relies on that.
PUBLIC ssize_t write(int fd, const void *data, size_t size)
{
    struct stat st;
    bool counts =
        mine && mine->calls >> CALL_FILES & 1 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    return counts && call_fails(CALL_FILES) ? -1 : NEXT(write)(fd, data, size);
}

// ---- sockets ------------------------------------------------------------------------------------

STANDS_BEFORE(CALL_SEND, -1, ssize_t, sendmsg, (int fd, const struct msghdr *m, int flags),
              (fd, m, flags))
STANDS_BEFORE(CALL_SEND, -1, ssize_t, send, (int fd, const void *data, size_t size, int flags),
              (fd, data, size, flags))
STANDS_BEFORE(CALL_RECEIVE, -1, ssize_t, recvmsg, (int fd, struct msghdr *m, int flags),
              (fd, m, flags))
STANDS_BEFORE(CALL_RECEIVE, -1, ssize_t, recv, (int fd, void *data, size_t size, int flags),
              (fd, data, size, flags))

// ---- clocks -------------------------------------------------------------------------------------

PUBLIC int clock_gettime(clockid_t clock, struct timespec *ret)
{
    int r = NEXT(clock_gettime)(clock, ret);
    if (r == 0 && mine && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        ret->tv_sec += mine->clock_s;
    return r;
}

PUBLIC int gettimeofday(struct timeval *restrict ret, void *restrict zone)
{
    int r = NEXT(gettimeofday)(ret, zone);
    if (r == 0 && mine)
        ret->tv_sec += mine->clock_s;
    return r;
}

PUBLIC time_t time(time_t *ret)
{
    time_t now = NEXT(time)(NULL) + (mine ? mine->clock_s : 0);
    if (ret)
        *ret = now;
    return now;
}
// NOLINTEND(readability-inconsistent-declaration-parameter-name)
