// Places that belong to boards at a USB cable.
#include "base/net/usb.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/who.h"

int usb_relay_uri(const char *runtime, const char *serial, char *ret, size_t size)
{
    int n = snprintf(ret, size, "unix:%s/rknnd/usb%s%s.sock", runtime, *serial ? "-" : "", serial);
    for (size_t i = strlen("unix:/rknnd/") + strlen(runtime); i < (size_t)n && i < size; i++)
        if (ret[i] == '/') // a board says what it likes
            ret[i] = '_';
    return n;
}

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
