// Where a daemon on this machine listens unless it is told otherwise.
#pragma once

struct local_sockets {
    unsigned n;
    char uris[2][256]; // root's daemon, then the user's own; whether they are there or not
};

void local_sockets_find(struct local_sockets *ret);
