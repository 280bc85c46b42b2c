// System calls, by seccomp: those listed here, all others fail with EPERM as if the kernel forbade
// them. Libraries cope with that better than with a signal, and say it in their own words.
#include <errno.h>
#include <fcntl.h>
#include <linux/dma-buf.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "worker/sandbox/sandbox_parts.h"

// Memory, threads, time, the socket to the daemon, files that Landlock or the flags of openat()
// have let in. A name that the processor does not have is left out by libseccomp.
static const char *const plain_calls[] = {
    // memory
    "brk",
    "madvise",
    "mincore",
    "mlock",
    "mmap",
    "mmap2",
    "mprotect",
    "mremap",
    "msync",
    "munlock",
    "munmap",
    "membarrier",
    "memfd_create",
    "ftruncate",
    "ftruncate64",
    "cacheflush",
    "get_mempolicy",
    // threads
    "exit",
    "exit_group",
    "futex",
    "futex_time64",
    "futex_waitv",
    "get_robust_list",
    "set_robust_list",
    "set_tid_address",
    "rseq",
    "sched_yield",
    "sched_getaffinity",
    "sched_getparam",
    "sched_getscheduler",
    "sched_get_priority_max",
    "sched_get_priority_min",
    "getcpu",
    "getpriority",
    "arch_prctl",
    "set_tls",
    "set_thread_area",
    "get_thread_area",
    // signals of its own
    "rt_sigaction",
    "rt_sigprocmask",
    "rt_sigreturn",
    "sigreturn",
    "rt_sigpending",
    "rt_sigtimedwait",
    "rt_sigtimedwait_time64",
    "rt_sigsuspend",
    "sigaltstack",
    "restart_syscall",
    "pause",
    // who and where it is
    "getpid",
    "getppid",
    "gettid",
    "getuid",
    "geteuid",
    "getgid",
    "getegid",
    "getresuid",
    "getresgid",
    "getgroups",
    "getpgrp",
    "getpgid",
    "getsid",
    "getcwd",
    "uname",
    "sysinfo",
    "getrlimit",
    "ugetrlimit",
    "getrusage",
    "times",
    "getrandom",
    "capget",
    "umask",
    // time
    "clock_gettime",
    "clock_gettime64",
    "clock_getres",
    "clock_getres_time64",
    "clock_nanosleep",
    "clock_nanosleep_time64",
    "nanosleep",
    "gettimeofday",
    "time",
    "timer_create",
    "timer_settime",
    "timer_settime64",
    "timer_gettime",
    "timer_delete",
    "timerfd_create",
    "timerfd_settime",
    "timerfd_gettime",
    // what is open
    "close",
    "close_range",
    "dup",
    "flock",
    "fstat",
    "fstat64",
    "lseek",
    "_llseek",
    "pread64",
    "preadv",
    "read",
    "readv",
    "pwrite64",
    "pwritev",
    "write",
    "writev",
    "fadvise64",
    "fadvise64_64",
    "arm_fadvise64_64",
    "getdents",
    "getdents64",
    "fsync",
    "fdatasync",
    "eventfd2",
    "pipe2",
    "epoll_create1",
    "epoll_ctl",
    "epoll_wait",
    "epoll_pwait",
    "epoll_pwait2",
    "poll",
    "ppoll",
    "ppoll_time64",
    "select",
    "_newselect",
    "pselect6",
    "pselect6_time64",
    "getsockopt",
    // by name
    "access",
    "faccessat",
    "faccessat2",
    "fstatat64",
    "newfstatat",
    "stat",
    "stat64",
    "lstat",
    "lstat64",
    "statx",
    "statfs",
    "statfs64",
    "fstatfs",
    "fstatfs64",
    "readlink",
    "readlinkat",
};

// For folders that a backend may write to.
static const char *const writing_calls[] = {
    "creat",
    "mkdir",
    "mkdirat",
    "unlink",
    "unlinkat",
    "rmdir",
    "rename",
    "renameat",
    "renameat2",
    "truncate",
    "truncate64",
    "fallocate",
    "chdir",
    "fchdir",
    "chmod",
    "fchmod",
    "fchmodat",
    "inotify_init1",
    "inotify_add_watch",
    "inotify_rm_watch",
};

// What an argument of a call has to be: libseccomp's own macros leave a field out, which clang
// minds.
static struct scmp_arg_cmp equals(unsigned argument, scmp_datum_t value)
{
    return (struct scmp_arg_cmp){.arg = argument, .op = SCMP_CMP_EQ, .datum_a = value};
}

static struct scmp_arg_cmp is_above(unsigned argument, scmp_datum_t value)
{
    return (struct scmp_arg_cmp){.arg = argument, .op = SCMP_CMP_GT, .datum_a = value};
}

// The bits of the mask are those of the value.
static struct scmp_arg_cmp masked(unsigned argument, scmp_datum_t mask, scmp_datum_t value)
{
    return (struct scmp_arg_cmp){
        .arg = argument, .op = SCMP_CMP_MASKED_EQ, .datum_a = mask, .datum_b = value};
}

static int allow_names(scmp_filter_ctx f, const char *const *names, size_t n)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < n; i++) {
        int call = seccomp_syscall_resolve_name(names[i]);
        if (call != __NR_SCMP_ERROR)
            r = seccomp_rule_add(f, SCMP_ACT_ALLOW, call, 0);
    }
    return r;
}

static bool has_access(const struct sandbox *s, enum npu_access access)
{
    for (size_t i = 0; i < s->n_paths; i++)
        if (s->paths[i].access == access)
            return true;
    return false;
}

// A thread, not a process. clone3() keeps its flags in memory, where a filter cannot look: without
// it glibc uses clone().
static int allow_threads(scmp_filter_ctx f)
{
    int r = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
                             masked(0, CLONE_THREAD, CLONE_THREAD));
    return r < 0 ? r : seccomp_rule_add(f, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
}

// To itself: abort(), raise(), timers.
static int allow_own_signals(scmp_filter_ctx f)
{
    scmp_datum_t self = (scmp_datum_t)getpid();
    static const int calls[] = {SCMP_SYS(kill), SCMP_SYS(tgkill), SCMP_SYS(rt_sigqueueinfo),
                                SCMP_SYS(rt_tgsigqueueinfo)};
    int r = 0;
    for (size_t i = 0; r == 0 && i < sizeof calls / sizeof *calls; i++)
        r = seccomp_rule_add(f, SCMP_ACT_ALLOW, calls[i], 1, equals(0, self));
    return r;
}

// For each of the values that the call's argument `a` may have. The upper half is not looked at:
// some libraries extend the sign.
static int allow_values(scmp_filter_ctx f, int call, unsigned a, const unsigned *values, size_t n)
{
    int r = 0;
    for (size_t i = 0; r == 0 && call >= 0 && i < n; i++)
        r = seccomp_rule_add(f, SCMP_ACT_ALLOW, call, 1, masked(a, 0xffffffffu, values[i]));
    return r;
}

// Not F_SETOWN: the kernel would send signals to others in this process's name.
static int allow_fcntl(scmp_filter_ctx f)
{
    static const unsigned commands[] = {
        F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD,     F_SETFD,     F_GETFL,      F_SETFL,     F_GETLK,
        F_SETLK, F_SETLKW,        F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW, F_ADD_SEALS, F_GET_SEALS};
    int r = allow_values(f, SCMP_SYS(fcntl), 1, commands, sizeof commands / sizeof *commands);
    return r < 0 ? r
                 : allow_values(f, seccomp_syscall_resolve_name("fcntl64"), 1, commands,
                                sizeof commands / sizeof *commands);
}

// Its own name and the names of its memory; not what would undo the sandbox's beginning.
static int allow_prctl(scmp_filter_ctx f)
{
    static const unsigned options[] = {PR_SET_NAME,     PR_GET_NAME,         PR_SET_VMA,
                                       PR_GET_DUMPABLE, PR_GET_NO_NEW_PRIVS, PR_CAPBSET_READ};
    int r = allow_values(f, SCMP_SYS(prctl), 0, options, sizeof options / sizeof *options);
    // Of itself, and not set: the new limit is a null pointer.
    return r < 0 ? r
                 : seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(prlimit64), 2, equals(0, 0),
                                    equals(2, 0));
}

// Requests of every file, and the brackets of dma-bufs. Drivers have requests of their own: all
// that say a direction and a size, as they should, and the plain ones of DRM ('d') and rknpu ('r').
// The others are old and dangerous: FIOSETOWN, TIOCSTI.
static int allow_ioctl(scmp_filter_ctx f, bool devices)
{
    static const unsigned requests[] = {DMA_BUF_IOCTL_SYNC, TCGETS, FIONBIO, FIONREAD, FIOCLEX};
    int r = allow_values(f, SCMP_SYS(ioctl), 1, requests, sizeof requests / sizeof *requests);
    if (r < 0 || !devices)
        return r;
    static const unsigned types[] = {'d' << 8, 'r' << 8};
    for (size_t i = 0; r == 0 && i < sizeof types / sizeof *types; i++)
        r = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(ioctl), 1,
                             masked(1, 0xffffff00u, types[i]));
    return r < 0 ? r : seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(ioctl), 1, is_above(1, 0xffff));
}

// Not as urgent: nothing here needs that, and it is where kernels' Unix sockets have had most
// holes.
static int allow_talk(scmp_filter_ctx f)
{
    static const struct {
        int call;
        unsigned flags; // the argument
    } calls[] = {{SCMP_SYS(sendmsg), 2},
                 {SCMP_SYS(recvmsg), 2},
                 {SCMP_SYS(sendto), 3},
                 {SCMP_SYS(recvfrom), 3}};
    int r = 0;
    for (size_t i = 0; r == 0 && i < sizeof calls / sizeof *calls; i++)
        r = seccomp_rule_add(f, SCMP_ACT_ALLOW, calls[i].call, 1,
                             masked(calls[i].flags, MSG_OOB, 0));
    return r;
}

// Files are not made or cut short, nor written to unless there are devices. This holds also where
// the kernel has no Landlock.
static int allow_open(scmp_filter_ctx f, bool devices, bool writes)
{
    scmp_datum_t forbidden = 0;
    if (!writes)
        forbidden |= O_CREAT | O_TRUNC | O_APPEND | (O_TMPFILE & ~O_DIRECTORY);
    if (!writes && !devices)
        forbidden |= O_ACCMODE;
    int r = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(openat), 1, masked(2, forbidden, 0));
    if (r == 0 && seccomp_syscall_resolve_name("open") >= 0)
        r = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(open), 1, masked(1, forbidden, 0));
    // Its flags are in memory.
    return r < 0 ? r : seccomp_rule_add(f, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(openat2), 0);
}

static int make_rules(scmp_filter_ctx f, const struct sandbox *s)
{
    bool writes = has_access(s, NPU_ACCESS_WRITE), devices = has_access(s, NPU_ACCESS_DEVICE);
    int r = allow_names(f, plain_calls, sizeof plain_calls / sizeof *plain_calls);
    if (r == 0 && writes)
        r = allow_names(f, writing_calls, sizeof writing_calls / sizeof *writing_calls);
    if (r == 0)
        r = allow_threads(f);
    if (r == 0)
        r = allow_own_signals(f);
    if (r == 0)
        r = allow_fcntl(f);
    if (r == 0)
        r = allow_prctl(f);
    if (r == 0)
        r = allow_ioctl(f, devices);
    if (r == 0)
        r = allow_talk(f);
    return r < 0 ? r : allow_open(f, devices, writes);
}

// The kernel knows the mode if it can say so; qemu's user emulation and old kernels do not.
bool sandbox_seccomp_offered(void)
{
    return prctl(PR_GET_SECCOMP) >= 0 && seccomp_api_get() > 0;
}

int sandbox_seccomp_enter(const struct sandbox *s, struct error *e)
{
    scmp_filter_ctx f = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    int r = f ? seccomp_attr_set(f, SCMP_FLTATR_CTL_NNP, 0) : -ENOMEM;
    // All threads: a sanitizer has one of its own.
    if (r == 0)
        r = seccomp_attr_set(f, SCMP_FLTATR_CTL_TSYNC, 1);
    // A tree instead of a chain: system calls cost the same, however many rules there are.
    if (r == 0)
        r = seccomp_attr_set(f, SCMP_FLTATR_CTL_OPTIMIZE, 2);
    if (r == 0)
        r = make_rules(f, s);
    if (r == 0)
        r = seccomp_load(f);
    if (f)
        seccomp_release(f);
    return r < 0 ? error_set_errno(e, STATUS_FAIL, -r, "seccomp") : 0;
}
