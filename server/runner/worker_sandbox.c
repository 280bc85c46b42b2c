#include "server/runner/worker_sandbox.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file/line.h"
#include "base/log.h"
#include "worker/sandbox/sandbox.h"

#define NOBODY 65534 // everywhere

// Whether this process's user namespace has a user or group, by one of its maps.
static bool namespace_has(const char *map, unsigned id)
{
    char line[64];
    cleanup(fclose_p) FILE *f = fopen(map, "re");
    while (f && fgets(line, sizeof line, f)) {
        char *rest; // a line is: first inside, first outside, how many
        unsigned long first = strtoul(line, &rest, 10), n;
        strtoul(rest, &rest, 10);
        n = strtoul(rest, NULL, 10);
        if (id >= first && id - first < n)
            return true;
    }
    return !f;
}

// Root may be alone in its namespace: `unshare --map-root-user` makes such a one, and so does a
// rootless container of a user whom /etc/subuid does not name.
static bool can_become(const struct sandbox_user *u)
{
    char groups[16];
    return namespace_has("/proc/self/uid_map", u->uid) &&
           namespace_has("/proc/self/gid_map", u->gid) &&
           !(line_read("/proc/self/setgroups", groups, sizeof groups) &&
             strcmp(groups, "deny") == 0);
}

// With the groups that boards' devices belong to, as far as the system has them.
static int find_user(const char *name, struct sandbox_user *ret, struct error *e)
{
    static const char *const groups[] = {"video", "render"};
    const struct passwd *p = getpwnam(name ? name : "nobody");
    if (!p && name)
        return error_set(e, STATUS_PARAM_INVALID, "worker-user: there is no user \"%s\"", name);
    *ret = (struct sandbox_user){.uid = p ? p->pw_uid : NOBODY, .gid = p ? p->pw_gid : NOBODY};
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        const struct group *g = getgrnam(groups[i]);
        if (g && namespace_has("/proc/self/gid_map", g->gr_gid))
            ret->groups[ret->n_groups++] = g->gr_gid;
    }
    if (can_become(ret))
        return 0;
    if (name && ret->uid != 0)
        return error_set(e, STATUS_PARAM_INVALID,
                         "worker-user: this service's user namespace does not let root become "
                         "\"%s\" (/proc/self/uid_map)",
                         name);
    log_info("root is alone in this service's user namespace, so workers stay root there, without "
             "capabilities");
    *ret = (struct sandbox_user){0};
    return 0;
}

// Without Landlock a worker of the same user could open /proc/PID/fd of this process, or trace it:
// the kernel forbids that of a process that may not be dumped.
static int check_offered(enum sandbox_mode mode, struct error *e)
{
    unsigned offered = sandbox_offered();
    if (offered == (SANDBOX_SECCOMP | SANDBOX_LANDLOCK))
        return 0;
    if (mode == SANDBOX_REQUIRED)
        return error_set(e, STATUS_DEVICE_UNAVAILABLE, "sandbox = required, and this kernel has %s",
                         sandbox_offered_text(offered));
    log_warn("this kernel has %s, so workers are confined less than they could be",
             sandbox_offered_text(offered));
    if (!(offered & SANDBOX_LANDLOCK) && prctl(PR_SET_DUMPABLE, 0) < 0)
        return error_set_errno(e, STATUS_FAIL, errno, "prctl(PR_SET_DUMPABLE)");
    return 0;
}

int worker_sandbox_prepare(struct runner_options *options, const char *user, struct error *e)
{
    bool changes_user = !options->threads && options->sandbox != SANDBOX_OFF && geteuid() == 0;
    if (user && !changes_user)
        return error_set(e, STATUS_PARAM_INVALID,
                         "worker-user %s: only workers of root's, in processes with a sandbox, "
                         "can be another user's",
                         user);
    if (options->threads) {
        log_debug("models run in threads, so without a sandbox");
        return 0;
    }
    if (options->sandbox == SANDBOX_OFF) {
        log_warn(
            "sandbox = off: plugins, and whoever breaks what runs models, have all the rights of "
            "this service");
        return 0;
    }
    int r = check_offered(options->sandbox, e);
    return r == 0 && changes_user ? find_user(user, &options->worker_user, e) : r;
}
