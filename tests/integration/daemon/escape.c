// Nothing here may harm the machine where it works: there is no sandbox in one of the tests, and it
// may be root who runs that. So what would change the system is asked for with arguments that only
// fail later than the sandbox would.
//
// Part of a plugin that tries, while it is loaded, to get out of the worker's sandbox, and what
// plugins really need. Each attempt is a line on standard error: "escape NAME: got through" or
// "escape NAME: " and the error; "need NAME: works" or the error.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static void say(const char *kind, const char *name, bool worked, const char *good)
{
    int failed = errno;
    fprintf(stderr, "%s %s: %s\n", kind, name, worked ? good : strerror(failed));
}

// `result`: of a system call, negative with errno. Whatever is not forbidden has got through, also
// if it failed.
static void escape(const char *name, long result)
{
    bool forbidden = result < 0 && (errno == EPERM || errno == EACCES || errno == ENOSYS);
    say("escape", name, !forbidden, "got through");
}

static void need(const char *name, bool works)
{
    say("need", name, works, "works");
}

static long open_and_close(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
    if (fd >= 0 && flags & O_CREAT)
        unlink(path);
    return fd;
}

static long open_of(pid_t pid, const char *file, int flags)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, file);
    return open_and_close(path, flags);
}

// Any descriptor of the daemon: models and tensors are among them. One that is not there says
// nothing.
static long open_descriptor_of(pid_t pid)
{
    int why = ENOENT;
    for (int fd = 0; fd < 64; fd++) {
        char file[16];
        snprintf(file, sizeof file, "fd/%d", fd);
        if (open_of(pid, file, O_RDONLY | O_NONBLOCK) >= 0)
            return 0;
        why = errno == ENOENT ? why : errno;
    }
    errno = why;
    return -1;
}

static long list_folder(const char *path)
{
    DIR *d = opendir(path);
    if (d)
        closedir(d);
    return d ? 0 : -1;
}

// Who may look into a folder that others may not is told that it is not.
static long is_there(const char *path)
{
    struct stat st;
    return stat(path, &st);
}

static int be_another_program(void)
{
    return execl("/bin/true", "true", (char *)NULL);
}

static int make_user_namespace(void)
{
    return unshare(CLONE_NEWUSER);
}

// In a child, which ends with whether it failed. If there can be none, here.
static long in_child(int (*attempt)(void))
{
    int status = 0;
    pid_t child = fork();
    if (child < 0)
        return attempt();
    if (child == 0)
        _exit(attempt() < 0 ? errno : 0);
    waitpid(child, &status, 0);
    errno = WEXITSTATUS(status);
    return errno ? -1 : 0;
}

static pid_t daemon_pid;

// Lets go of it by ending.
static int trace_daemon(void)
{
    return (int)ptrace(PTRACE_SEIZE, daemon_pid, NULL, NULL);
}

static long make_process(void)
{
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    if (child > 0)
        waitpid(child, NULL, 0);
    return child;
}

// A folder that is gone again.
static long make_folder(const char *path)
{
    int r = mkdir(path, 0700);
    if (r == 0)
        rmdir(path);
    return r;
}

// Signals come when there is something to read.
static long signal_through_pipe(pid_t pid)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -1;
    int r = fcntl(ends[0], F_SETOWN, pid);
    int failed = errno;
    close(ends[0]);
    close(ends[1]);
    errno = failed;
    return r;
}

// A byte that the kernel keeps apart. Nothing must be sent, or the daemon would end this worker.
static long send_urgent(void)
{
    return send(-1, "", 1, MSG_OOB | MSG_NOSIGNAL);
}

// What the service was told by its environment, as this process may have been.
static long own_copy_of(const char *name)
{
    errno = EACCES;
    return getenv(name) ? 0 : -1;
}

static void try_daemon(pid_t pid)
{
    char byte;
    struct iovec here = {&byte, 1}, there = {(void *)&open_and_close, 1};
    struct rlimit limit;
    cpu_set_t all;
    CPU_ZERO(&all);
    CPU_SET(0, &all);
    escape("memory of the daemon", open_of(pid, "mem", O_RDWR));
    escape("descriptors of the daemon", open_descriptor_of(pid));
    escape("environment of the daemon", open_of(pid, "environ", O_RDONLY));
    escape("secret of the daemon", own_copy_of("SERVICE_TOKEN"));
    escape("process_vm_readv", process_vm_readv(pid, &here, 1, &there, 1, 0));
    escape("kill", kill(pid, 0));
    escape("tgkill", syscall(SYS_tgkill, pid, pid, 0));
    escape("pidfd_open", syscall(SYS_pidfd_open, pid, 0));
    escape("F_SETOWN", signal_through_pipe(pid));
    escape("setpriority", setpriority(PRIO_PROCESS, (id_t)pid, 19));
    escape("sched_setaffinity", sched_setaffinity(pid, sizeof all, &all));
    escape("prlimit", prlimit(pid, RLIMIT_NOFILE, NULL, &limit));
    daemon_pid = pid;
    escape("ptrace", in_child(trace_daemon));
    escape("urgent byte", send_urgent());
}

static void try_system(void)
{
    static const char nowhere[] = "/nonexistent/rknnd";
    struct perf_event_attr perf = {.type = PERF_TYPE_SOFTWARE, .size = sizeof perf};
    escape("tcp", socket(AF_INET, SOCK_STREAM, 0));
    escape("unix socket", socket(AF_UNIX, SOCK_STREAM, 0));
    escape("netlink", socket(AF_NETLINK, SOCK_RAW, 0));
    escape("process", make_process());
    escape("program", in_child(be_another_program));
    escape("user namespace", in_child(make_user_namespace));
    escape("mount", mount("none", nowhere, "tmpfs", 0, NULL));
    escape("chroot", chroot(nowhere));
    escape("root", setuid(0));
    escape("perf", syscall(SYS_perf_event_open, &perf, 0, -1, -1, 0));
    escape("bpf", syscall(SYS_bpf, 0, NULL, 0));
    escape("io_uring", syscall(SYS_io_uring_setup, 0, NULL));
    escape("userfaultfd", syscall(SYS_userfaultfd, O_CLOEXEC));
    escape("keyring", syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0));
    escape("may be dumped again", prctl(PR_SET_DUMPABLE, 1));
}

// Calls of the processor's other ways in have other numbers. A filter may end the thread that makes
// one, and where the kernel has none there is a signal. AddressSanitizer does not survive a thread
// that ends so: it takes the next one for it.
#if defined __x86_64__ && !defined __SANITIZE_ADDRESS__
static sigjmp_buf without_it;

static void on_segv(int signal)
{
    (void)signal;
    siglongjmp(without_it, 1);
}

static void *call_32(void *ret)
{
    long pid = 20; // getpid()
    if (sigsetjmp(without_it, 1) == 0) {
        __asm__ volatile("int $0x80" : "+a"(pid) : : "memory");
        *(long *)ret = pid > 0 ? 0 : -1;
    }
    return NULL;
}

static void *call_x32(void *ret)
{
    *(long *)ret = syscall(0x40000000 + SYS_getpid) > 0 ? 0 : -1;
    return NULL;
}

static long in_thread(void *(*call)(void *ret))
{
    struct sigaction before, own = {.sa_handler = on_segv};
    pthread_t thread;
    long ret = -1;
    sigaction(SIGSEGV, &own, &before);
    if (pthread_create(&thread, NULL, call, &ret) == 0)
        pthread_join(thread, NULL);
    sigaction(SIGSEGV, &before, NULL);
    errno = EPERM;
    return ret;
}

static void try_other_calls(void)
{
    escape("call of 32 bits", in_thread(call_32));
    escape("call of x32", in_thread(call_x32));
}
#else
static void try_other_calls(void)
{
}
#endif

// Ways to others that need no file. None of these is there, so that nothing is left behind.
static void try_ways(void)
{
    const key_t key = 0x726b6e6e;
    const struct rlimit limit = {0, 0};
    escape("vsock", socket(AF_VSOCK, SOCK_STREAM, 0));
    escape("socket of algorithms", socket(AF_ALG, SOCK_SEQPACKET, 0));
    escape("shared memory of System V", shmget(key, 1, 0));
    escape("semaphores of System V", semget(key, 1, 0));
    escape("messages of System V", msgget(key, 0));
    escape("splice", splice(-1, NULL, -1, NULL, 1, 0));
    escape("pidfd_getfd", syscall(SYS_pidfd_getfd, -1, 0, 0));
    escape("process_madvise", syscall(SYS_process_madvise, -1, NULL, 0, 0, 0));
    escape("terminal", ioctl(-1, TIOCSTI, ""));
    escape("personality", personality(0xffffffff));
    escape("a limit of its own", prlimit(0, RLIMIT_CORE, &limit, NULL));
}

static void try_files(void)
{
    escape("passwords", open_and_close("/etc/passwd", O_RDONLY));
    escape("shadow", open_and_close("/etc/shadow", O_RDONLY));
    escape("home of root", list_folder("/root"));
    escape("root folder", list_folder("/"));
    escape("what lies in a closed folder", is_there("/root/nonexistent"));
    escape("processes", list_folder("/proc"));
    escape("temporary file", open_and_close("/tmp/rknnd-escape", O_RDWR | O_CREAT));
    escape("shared memory", open_and_close("/dev/shm/rknnd-escape", O_RDWR | O_CREAT));
    escape("own memory's file", open_and_close("/proc/self/mem", O_RDWR));
    escape("kernel log", open_and_close("/dev/kmsg", O_WRONLY));
    escape("folder", make_folder("/tmp/rknnd-escape.d"));
}

static void *say_hello(void *works)
{
    *(bool *)works = true;
    return NULL;
}

static void try_needs(void)
{
    bool ran = false;
    pthread_t thread;
    if (pthread_create(&thread, NULL, say_hello, &ran) == 0)
        pthread_join(thread, NULL);
    need("threads", ran);
    need("processor", open_and_close("/proc/cpuinfo", O_RDONLY) >= 0);
    need("libraries", list_folder("/usr/lib") == 0);
    need("anonymous memory", mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE | PROT_EXEC,
                                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
    need("memfd", memfd_create("need", MFD_CLOEXEC) >= 0);
    need("signals to itself", kill(getpid(), 0) == 0);
    need("null device", open_and_close("/dev/null", O_RDONLY) >= 0);
}

__attribute__((constructor)) static void try_all(void)
{
    try_needs();
    try_files();
    try_system();
    try_ways();
    try_other_calls();
    try_daemon(getppid());
    fprintf(stderr, "escape: tried\n");
}
