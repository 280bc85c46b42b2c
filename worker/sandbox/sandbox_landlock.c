// Files, by Landlock: only those below the paths that are listed here or in the sandbox. It also
// keeps a process from looking into any process outside (ptrace, /proc/PID/mem and fd), whoever's
// it is.
//
// glibc has no wrappers, and the constants of newer kernels are not in every header: they are the
// kernel's documented interface (Documentation/userspace-api/landlock.rst) and never change.
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "worker/sandbox/sandbox_parts.h"

#ifndef LANDLOCK_ACCESS_FS_REFER // version 2, Linux 5.19
#define LANDLOCK_ACCESS_FS_REFER (1ULL << 13)
#endif
#ifndef LANDLOCK_ACCESS_FS_TRUNCATE // version 3, Linux 6.2
#define LANDLOCK_ACCESS_FS_TRUNCATE (1ULL << 14)
#endif
#ifndef LANDLOCK_ACCESS_FS_IOCTL_DEV // version 5, Linux 6.10
#define LANDLOCK_ACCESS_FS_IOCTL_DEV (1ULL << 15)
#endif

#define READ_FILE (LANDLOCK_ACCESS_FS_READ_FILE)
#define READ      (READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define DEVICE    (READ | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_IOCTL_DEV)
#define WRITE                                                                                      \
    (READ | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_TRUNCATE |                          \
     LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |  \
     LANDLOCK_ACCESS_FS_REMOVE_DIR)
// Rights that a rule for a file, not a folder, may have.
#define OF_FILES                                                                                   \
    (READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_TRUNCATE |                     \
     LANDLOCK_ACCESS_FS_IOCTL_DEV)

// What libraries read: themselves, and what processor and board this is.
static const char *const every_program_reads[] = {
    "/usr",
    "/lib",
    "/lib64",
    "/vendor/lib",
    "/vendor/lib64",
    "/system/lib",
    "/system/lib64",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/OpenCL",
    "/proc/self",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/sys/vm",
    "/proc/sys/kernel",
    "/proc/device-tree",
    "/sys/devices",
    "/sys/class",
    "/sys/bus",
    "/sys/firmware/devicetree",
    "/sys/fs/cgroup",
    "/dev/urandom",
    "/dev/zero",
};

// The kernel's version of the interface; 0: it has none.
static int landlock_version(void)
{
    long n = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    return n > 0 ? (int)n : 0;
}

bool sandbox_landlock_offered(void)
{
    return landlock_version() > 0;
}

// All that a version knows is forbidden unless a rule allows it.
static uint64_t handled_rights(int version)
{
    uint64_t rights = (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1; // the 13 of version 1
    rights |= version >= 2 ? LANDLOCK_ACCESS_FS_REFER : 0;
    rights |= version >= 3 ? LANDLOCK_ACCESS_FS_TRUNCATE : 0;
    rights |= version >= 5 ? LANDLOCK_ACCESS_FS_IOCTL_DEV : 0;
    return rights;
}

// A path that is not there, or out of reach, needs no rule.
static int allow(int rules, const char *path, uint64_t rights, struct error *e)
{
    cleanup(fd_close_p) int fd = open(path, O_PATH | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return 0;
    struct landlock_path_beneath_attr rule = {
        .allowed_access = S_ISDIR(st.st_mode) ? rights : rights & OF_FILES,
        .parent_fd = fd,
    };
    if (syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0)
        return error_set_errno(e, STATUS_FAIL, errno, "Landlock: %s", path);
    return 0;
}

static uint64_t rights_of(enum npu_access access)
{
    return access == NPU_ACCESS_READ ? READ : access == NPU_ACCESS_DEVICE ? DEVICE : WRITE;
}

static int allow_library_folder(void *rules, const char *folder, struct error *e)
{
    return allow(*(const int *)rules, folder, READ, e);
}

static int allow_all(int rules, uint64_t handled, const struct sandbox *s, struct error *e)
{
    int r = allow(rules, "/dev/null", DEVICE & handled, e);
    if (r == 0)
        r = sandbox_each_library_folder(allow_library_folder, &rules, e);
    for (size_t i = 0; r == 0 && i < sizeof every_program_reads / sizeof *every_program_reads; i++)
        r = allow(rules, every_program_reads[i], READ, e);
    for (size_t i = 0; r == 0 && i < s->n_paths; i++)
        r = allow(rules, s->paths[i].path, rights_of(s->paths[i].access) & handled, e);
    return r;
}

int sandbox_landlock_enter(const struct sandbox *s, struct error *e)
{
    uint64_t handled = handled_rights(landlock_version());
    // The kernel takes the shorter struct of version 1, which has only this member.
    struct landlock_ruleset_attr attr = {.handled_access_fs = handled};
    cleanup(fd_close_p) int rules =
        (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof attr.handled_access_fs, 0);
    if (rules < 0)
        return error_set_errno(e, STATUS_FAIL, errno, "Landlock");
    int r = allow_all(rules, handled, s, e);
    if (r == 0 && syscall(SYS_landlock_restrict_self, rules, 0) < 0)
        r = error_set_errno(e, STATUS_FAIL, errno, "Landlock");
    return r;
}
