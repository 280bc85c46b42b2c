// A source of the user database ("slownames" in nsswitch.conf) that answers when a test lets it, as
// one over a network may. In the folder RKNND_NAMES, file "uid.N" has the name of user N, and
// "name.TEXT" the number of user TEXT; while one is a FIFO nobody writes to, the call waits.
#include <errno.h>
#include <fcntl.h>
#include <nss.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SEEN __attribute__((visibility("default")))

SEEN enum nss_status _nss_slownames_getpwuid_r(uid_t uid, struct passwd *ret, char *buffer,
                                               size_t size, int *error);
SEEN enum nss_status _nss_slownames_getpwnam_r(const char *name, struct passwd *ret, char *buffer,
                                               size_t size, int *error);

// The file's words at `text`; false: there is no such file.
static int read_file(const char *kind, const char *key, char *text, size_t size)
{
    char path[4096];
    const char *folder = getenv("RKNND_NAMES");
    snprintf(path, sizeof path, "%s/%s.%s", folder ? folder : "/nowhere", kind, key);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);
    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return 0;
    text[n] = 0;
    return 1;
}

// The name is at the buffer's beginning; what else there is to say, "", is its end.
static void fill(struct passwd *ret, char *name, uid_t uid)
{
    char *none = name + strlen(name);
    *ret = (struct passwd){.pw_name = name,
                           .pw_passwd = none,
                           .pw_uid = uid,
                           .pw_gid = uid,
                           .pw_gecos = none,
                           .pw_dir = none,
                           .pw_shell = none};
}

enum nss_status _nss_slownames_getpwuid_r(uid_t uid, struct passwd *ret, char *buffer, size_t size,
                                          int *error)
{
    char key[16];
    (void)error;
    snprintf(key, sizeof key, "%u", (unsigned)uid);
    if (!read_file("uid", key, buffer, size))
        return NSS_STATUS_NOTFOUND;
    fill(ret, buffer, uid);
    return NSS_STATUS_SUCCESS;
}

// "fails": the server that has the names cannot be reached.
enum nss_status _nss_slownames_getpwnam_r(const char *name, struct passwd *ret, char *buffer,
                                          size_t size, int *error)
{
    char number[16];
    if (!read_file("name", name, number, sizeof number) || strlen(name) >= size)
        return NSS_STATUS_NOTFOUND;
    if (strcmp(number, "fails") == 0) {
        *error = ECONNREFUSED;
        return NSS_STATUS_UNAVAIL;
    }
    strcpy(buffer, name);
    fill(ret, buffer, (uid_t)strtoul(number, NULL, 10));
    return NSS_STATUS_SUCCESS;
}
