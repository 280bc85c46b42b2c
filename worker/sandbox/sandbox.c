// Enters the sandbox: user and capabilities first, as the other parts need none, then files, then
// system calls, which forbid the calls that the parts before are made of.
#include "worker/sandbox/sandbox.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "worker/sandbox/sandbox_parts.h"

unsigned sandbox_offered(void)
{
    return (sandbox_seccomp_offered() ? SANDBOX_SECCOMP : 0) |
           (sandbox_landlock_offered() ? SANDBOX_LANDLOCK : 0);
}

const char *sandbox_offered_text(unsigned offered)
{
    static const char *const texts[] = {"neither seccomp nor Landlock", "seccomp, no Landlock",
                                        "Landlock, no seccomp", "seccomp and Landlock"};
    return texts[offered & 3];
}

// ---- user and capabilities ---------------------------------------------------------------------

static bool user_has_group(const struct sandbox_user *u, gid_t group)
{
    bool found = group == u->gid;
    for (uint32_t i = 0; i < u->n_groups; i++)
        found |= group == u->groups[i];
    return found;
}

// By the mode alone: devices have no access lists unless a login manager gives them some.
// What is not there is no obstacle, nor a folder of devices.
static bool user_may_use(const struct sandbox_user *u, const struct sandbox_path *p)
{
    struct stat st;
    if (p->access == NPU_ACCESS_READ || stat(p->path, &st) < 0)
        return true;
    unsigned mode = st.st_mode;
    if (st.st_uid == u->uid)
        mode >>= 6;
    else if (user_has_group(u, st.st_gid))
        mode >>= 3;
    return (p->access == NPU_ACCESS_DEVICE && S_ISDIR(st.st_mode)) || (mode & 6) == 6;
}

// The first path that only root can use; NULL: none.
static const char *sandbox_closed_path(const struct sandbox *s)
{
    for (size_t i = 0; i < s->n_paths; i++)
        if (!user_may_use(&s->user, &s->paths[i]))
            return s->paths[i].path;
    return NULL;
}

// A folder to write to that is missing is made now, for the user: later nobody can.
static void make_folders(const struct sandbox *s)
{
    for (size_t i = 0; i < s->n_paths; i++) {
        const struct sandbox_path *p = &s->paths[i];
        if (p->access == NPU_ACCESS_WRITE && mkdir(p->path, 0700) == 0 && s->user.uid != 0 &&
            geteuid() == 0 && chown(p->path, s->user.uid, s->user.gid) < 0)
            log_warn("%s cannot be given to user %u: %s", p->path, s->user.uid, strerror(errno));
    }
}

static int change_user(const struct sandbox_user *u, struct error *e)
{
    gid_t groups[SANDBOX_MAX_GROUPS];
    for (uint32_t i = 0; i < u->n_groups; i++)
        groups[i] = u->groups[i];
    if (prctl(PR_SET_KEEPCAPS, 1) < 0 || setgroups(u->n_groups, groups) < 0 ||
        setresgid(u->gid, u->gid, u->gid) < 0 || setresuid(u->uid, u->uid, u->uid) < 0)
        return error_set_errno(e, STATUS_FAIL, errno, "becoming user %u", u->uid);
    // The kernel forgets these two with the user.
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || prctl(PR_SET_DUMPABLE, 0) < 0)
        return error_set_errno(e, STATUS_FAIL, errno, "as user %u", u->uid);
    return 0;
}

// Keeps one capability or (-1) none; not in effect, it only may be put into effect. A process
// without any has none to lose, and may be forbidden to ask.
static int keep_capability(int kept, bool in_effect, struct error *e)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {0};
    if (syscall(SYS_capget, &header, data) < 0)
        return error_set_errno(e, STATUS_FAIL, errno, "reading capabilities");
    if (!data[0].permitted && !data[1].permitted && !data[0].inheritable && !data[1].inheritable)
        return 0;
    memset(data, 0, sizeof data);
    if (kept >= 0) {
        data[CAP_TO_INDEX(kept)].permitted = CAP_TO_MASK(kept);
        data[CAP_TO_INDEX(kept)].effective = in_effect ? CAP_TO_MASK(kept) : 0;
    }
    if (syscall(SYS_capset, &header, data) < 0)
        return error_set_errno(e, STATUS_FAIL, errno, "giving up capabilities");
    return 0;
}

// Whether this process, as it is, may read a path that is to be read, and what lies in it if it is
// a folder. What is not there is no obstacle.
static bool may_read(const char *path)
{
    if (faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) < 0)
        return errno == ENOENT;
    cleanup(closedir_p) DIR *d = opendir(path);
    const struct dirent *entry;
    bool may = true;
    while (d && may && (entry = readdir(d)))
        may = faccessat(dirfd(d), entry->d_name, R_OK, AT_EACCESS) == 0 || errno == ENOENT;
    return may;
}

static int is_closed(void *unused, const char *folder, struct error *e)
{
    (void)unused, (void)e;
    return !may_read(folder);
}

static bool may_read_all(const struct sandbox *s)
{
    for (size_t i = 0; i < s->n_paths; i++)
        if (s->paths[i].access == NPU_ACCESS_READ && !may_read(s->paths[i].path))
            return false;
    return sandbox_each_library_folder(is_closed, NULL, NULL) == 0;
}

// What root lets nobody else read, a plugin below /root for instance, its worker still reads. Only
// where there is such: whoever has that right is told of each file of the machine whether it is
// there, its size and its times, which Landlock hides from nobody.
static int keep_reading(const struct sandbox *s, struct error *e)
{
    int r = keep_capability(CAP_DAC_READ_SEARCH, false, e);
    if (r < 0)
        return r;
    bool wanted = !may_read_all(s);
    return keep_capability(wanted ? CAP_DAC_READ_SEARCH : -1, wanted, e);
}

// Root's worker becomes another user. Where the NPU's device is root's alone, it stays root,
// without any capability.
static int drop_rights(const struct sandbox *s, bool landlock, struct error *e)
{
    if (geteuid() != 0)
        return keep_capability(-1, false, e);
    const char *closed = sandbox_closed_path(s);
    if (closed)
        log_info(
            "%s is root's alone, so this worker stays root, without capabilities; give a group "
            "access to it (a udev rule) to have workers run as user %u",
            closed, s->user.uid);
    if (closed || s->user.uid == 0)
        return keep_capability(-1, false, e);
    int r = change_user(&s->user, e);
    if (r < 0)
        return r;
    return landlock ? keep_reading(s, e) : keep_capability(-1, false, e);
}

// ---- all of it ---------------------------------------------------------------------------------

int sandbox_enter(const struct sandbox *s, struct error *e)
{
    if (s->mode == SANDBOX_OFF)
        return 0;
    unsigned offered = sandbox_offered();
    if (s->mode == SANDBOX_REQUIRED && offered != (SANDBOX_SECCOMP | SANDBOX_LANDLOCK))
        return error_set(e, STATUS_DEVICE_UNAVAILABLE,
                         "the worker's sandbox: this kernel has %s; sandbox = on is content with "
                         "that",
                         sandbox_offered_text(offered));
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return error_set_errno(e, STATUS_FAIL, errno, "no_new_privs");
    make_folders(s);
    int r = drop_rights(s, offered & SANDBOX_LANDLOCK, e);
    if (r == 0 && offered & SANDBOX_LANDLOCK)
        r = sandbox_landlock_enter(s, e);
    if (r == 0 && offered & SANDBOX_SECCOMP)
        r = sandbox_seccomp_enter(s, e);
    return r < 0 ? error_prefix(e, "the worker's sandbox") : 0;
}
