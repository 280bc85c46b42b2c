// Names of users and groups, for logs and advice. Thread-safe; a user database over a network (NSS)
// may block.
#include "base/who.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <unistd.h>

#include "base/options/number.h"

#define ENTRY_SIZE 16384 // of a group with many members

// The number where there is no name, as for users of another container.
void who_user(uid_t uid, char ret[WHO_SIZE])
{
    char buffer[ENTRY_SIZE];
    struct passwd entry, *found = NULL;
    getpwuid_r(uid, &entry, buffer, sizeof buffer, &found);
    if (found)
        snprintf(ret, WHO_SIZE, "%s", found->pw_name);
    else
        snprintf(ret, WHO_SIZE, "%u", (unsigned)uid);
}

void who_group(gid_t gid, char ret[WHO_SIZE])
{
    char buffer[ENTRY_SIZE];
    struct group entry, *found = NULL;
    getgrgid_r(gid, &entry, buffer, sizeof buffer, &found);
    if (found)
        snprintf(ret, WHO_SIZE, "%s", found->gr_name);
    else
        snprintf(ret, WHO_SIZE, "%u", (unsigned)gid);
}

bool who_is_number(const char *text, uint32_t *ret)
{
    uint64_t n;
    if (number_parse(text, 0, UINT32_MAX - 1, &n, NULL) < 0)
        return false;
    *ret = (uint32_t)n;
    return true;
}

// Not all of what getpwnam_r() gives for a user who does not exist is 0 (getpwnam_r(3)).
int who_find(const char *user, uid_t *ret)
{
    char buffer[ENTRY_SIZE];
    struct passwd entry, *found = NULL;
    if (who_is_number(user, ret))
        return 0;
    int r = getpwnam_r(user, &entry, buffer, sizeof buffer, &found);
    if (found)
        *ret = found->pw_uid;
    else if (r == 0 || r == ESRCH || r == EBADF || r == EPERM)
        r = ENOENT;
    return r;
}

// The sentence that tells the current user how to get access by a group.
void who_join(gid_t gid, char *ret, size_t size)
{
    char user[WHO_SIZE], group[WHO_SIZE];
    who_user(geteuid(), user);
    who_group(gid, group);
    snprintf(ret, size, "make %s a member of group %s (usermod -aG %s %s) and log in again", user,
             group, group, user);
}
