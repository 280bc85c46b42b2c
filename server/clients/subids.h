// Users of whom one person has thousands: /etc/subuid (subuid(5)) says whose they are, in lines
// NAME:FIRST:COUNT. With a user namespace (newuidmap) a program connects as whichever of them it
// likes.
#pragma once

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

#define SUBIDS_OWNER_SIZE 40 // of the longest name of a line that counts, with its end

struct subids {
    const char *path; // "/etc/subuid"
    struct stat seen; // of the file when it was read
    struct subid_range {
        uid_t first, last;
        char owner[SUBIDS_OWNER_SIZE];
    } * ranges;
    unsigned n, n_room;
};

/// Whose `uid` is, by the file as it is now: a name or number, not looked up; stays until the next
/// call. NULL: nobody's in particular.
const char *subids_find(struct subids *s, uid_t uid);

void subids_done(struct subids *s);
