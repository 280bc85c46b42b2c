// Users and groups of the system by name, in words for people. Any thread.
#pragma once

#include <stddef.h>
#include <sys/types.h>

#define WHO_SIZE 32 // of the longest name, with its end

/// A user's or group's name, or its number when it has none.
void who_user(uid_t uid, char ret[WHO_SIZE]);
void who_group(gid_t gid, char ret[WHO_SIZE]);

/// A user's number by name. Returns 0, ENOENT (there is none), or why that cannot be told, as an
/// errno.
int who_find(const char *user, uid_t *ret);

/// How this process's user comes to be a member of the group.
void who_join(gid_t gid, char *ret, size_t size);
