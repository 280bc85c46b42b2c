// Users and groups of the system by name, in words for people. Any thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define WHO_SIZE 32 // of the longest name, with its end

/// A user's or group's name, or its number when it has none.
void who_user(uid_t uid, char ret[WHO_SIZE]);
void who_group(gid_t gid, char ret[WHO_SIZE]);

/// Whether a text is the number of a user or group, and which. Nothing is looked up.
bool who_is_number(const char *text, uint32_t *ret);

/// A user's number by name, or by the number, which needs no account. Returns 0, ENOENT (there is
/// none), or why that cannot be told, as an errno.
int who_find(const char *user, uid_t *ret);

/// How this process's user comes to be a member of the group.
void who_join(gid_t gid, char *ret, size_t size);
