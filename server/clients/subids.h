// Users of whom one person has thousands: /etc/subuid (subuid(5)) says whose they are, in lines
// NAME:FIRST:COUNT. With a user namespace (newuidmap) a program connects as whichever of them it
// likes.
#pragma once

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

struct subids {
    const char *path; // "/etc/subuid"
    struct stat seen; // of the file when it was read
    struct subid_range {
        uid_t first, last, owner;
    } * ranges;
    unsigned n, n_room;
};

/// Whose `uid` is, by the file as it is now. False: nobody's in particular.
bool subids_find(struct subids *s, uid_t uid, uid_t *ret_owner);

void subids_done(struct subids *s);
