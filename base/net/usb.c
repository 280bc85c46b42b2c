// Paths and advice for boards connected by USB, shared by the client library and the relay.
#include "base/net/usb.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/who.h"

// The socket of a board's relay. The serial comes from the board and is untrusted: a slash in it
// would name another folder.
int usb_relay_uri(const char *runtime, const char *serial, char *ret, size_t size)
{
    int n = snprintf(ret, size, "unix:%s/rknnd/usb%s%s.sock", runtime, *serial ? "-" : "", serial);
    for (size_t i = strlen("unix:/rknnd/") + strlen(runtime); i < (size_t)n && i < size; i++)
        if (ret[i] == '/') // a board says what it likes
            ret[i] = '_';
    return n;
}

// What to do when a device node cannot be opened: join its group if that may write, else install
// the udev rule.
void usb_advise_access(const char *node, char *ret, size_t size)
{
    struct stat st;
    if (stat(node, &st) == 0 && st.st_gid != 0 && (st.st_mode & S_IWGRP))
        who_join(st.st_gid, ret, size);
    else
        snprintf(ret, size,
                 "install the udev rule 60-rknnd.rules, which gives boards to the group plugdev, "
                 "and plug it in again");
}
