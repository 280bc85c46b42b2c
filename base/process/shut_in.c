// The kernel's documented interface (Documentation/userspace-api/landlock.rst), of which headers
// and libraries may know an older part.
#include "base/process/shut_in.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"

// As version 6 has it; older ones take its beginning.
struct ruleset {
    uint64_t files, net, scoped;
};

#define READ (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)

// Number of rights to files that a version knows: the lowest bits.
static unsigned n_file_rights(long version)
{
    return version >= 5 ? 16 : version >= 3 ? 15 : version >= 2 ? 14 : 13;
}

static int make_ruleset(long version)
{
    const struct ruleset all = {
        .files = (1ULL << n_file_rights(version)) - 1,
        .net = version >= 4 ? 3 : 0,    // bind and connect, TCP
        .scoped = version >= 6 ? 3 : 0, // abstract Unix sockets, signals
    };
    size_t size = version >= 6   ? sizeof all
                  : version >= 4 ? offsetof(struct ruleset, scoped)
                                 : offsetof(struct ruleset, net);
    return (int)syscall(SYS_landlock_create_ruleset, &all, size, 0);
}

// A folder that is not there needs no rule.
static int allow_reading(int rules, const char *folder)
{
    cleanup(fd_close_p) int fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    const struct landlock_path_beneath_attr rule = {.allowed_access = READ, .parent_fd = fd};
    return fd < 0
               ? 0
               : (int)syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
}

int shut_in(const char *const folders[], struct error *e)
{
    long version = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    if (version <= 0)
        return 0;
    cleanup(fd_close_p) int rules = make_ruleset(version);
    int r = rules;
    for (size_t i = 0; r >= 0 && folders[i]; i++)
        r = allow_reading(rules, folders[i]);
    if (r >= 0)
        r = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (r >= 0)
        r = (int)syscall(SYS_landlock_restrict_self, rules, 0);
    return r < 0 ? error_set_errno(e, STATUS_FAIL, errno, "Landlock") : 0;
}
