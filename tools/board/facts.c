// Everything here is read: no request is made of a driver, and nothing is written.
#include "tools/board/facts.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file/line.h"
#include "tools/ui/print.h"

#define TREE "/proc/device-tree/"

// ---- the board ----

// The file's first line under this key; nothing where there is no such file.
static void add_line(json_t *o, const char *key, const char *path)
{
    char text[256];
    if (line_read(path, text, sizeof text))
        json_object_set_new(o, key, print_json_text(text));
}

// The device tree's names, and the chip: the last one of the maker.
// Names end with a zero byte each, the most special first.
static void add_chip(json_t *o)
{
    char list[1024];
    cleanup(fclose_p) FILE *f = fopen(TREE "compatible", "re");
    json_t *names = json_array();
    json_object_set_new(o, "compatible", names);
    size_t size = f ? fread(list, 1, sizeof list - 1, f) : 0;
    list[size] = 0;
    for (const char *name = list; name < list + size; name += strlen(name) + 1) {
        json_array_append_new(names, print_json_text(name));
        if (strncmp(name, "rockchip,", 9) == 0)
            json_object_set_new(o, "chip", print_json_text(name + 9));
    }
}

// Drivers that are built into the kernel have a folder there, too, if they have a parameter.
static void add_modules(json_t *o)
{
    static const char *const names[] = {"rknpu", "rocket"};
    json_t *list = json_array();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[128], version[64] = "";
        snprintf(path, sizeof path, "/sys/module/%s", names[i]);
        if (access(path, F_OK) != 0)
            continue;
        snprintf(path, sizeof path, "/sys/module/%s/version", names[i]);
        line_read(path, version, sizeof version);
        json_array_append_new(list, json_pack("{s:s, s:s}", "name", names[i], "version", version));
    }
    json_object_set_new(o, "modules", list);
}

// ---- nodes ----

// Who drives a node of DRM, by sysfs; "" where that does not say.
static void driver_of(const char *path, char *ret, size_t size)
{
    char link[PATH_MAX], target[PATH_MAX];
    const char *name = strrchr(path, '/') + 1;
    *ret = 0;
    snprintf(link, sizeof link, "/sys/class/%s/%s/device/driver",
             strncmp(name, "accel", 5) == 0 ? "accel" : "drm", name);
    ssize_t n = readlink(link, target, sizeof target - 1);
    if (n <= 0)
        return;
    target[n] = 0;
    snprintf(ret, size, "%s", strrchr(target, '/') ? strrchr(target, '/') + 1 : target);
}

// Opening a node of DRM starts nothing; it says whether this user may.
static json_t *node_json(const char *path)
{
    struct stat st;
    char driver[64], mode[16];
    if (stat(path, &st) < 0)
        return NULL;
    const struct group *group = getgrgid(st.st_gid);
    driver_of(path, driver, sizeof driver);
    snprintf(mode, sizeof mode, "%04o", st.st_mode & 07777);
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK), error = errno;
    fd_close(fd);
    return json_pack("{s:s, s:s, s:s, s:s, s:b, s:s}", "path", path, "driver", driver, "mode", mode,
                     "group", st.st_gid ? group ? group->gr_name : "?" : "root", "opens", fd >= 0,
                     "why", fd >= 0 ? "" : strerror(error));
}

// All nodes that an NPU's driver may have, and the heaps that /dev/rknpu takes its memory from.
// Graphics cards are among them: their driver says what they are.
static void add_nodes(json_t *o)
{
    static const char *const patterns[] = {"/dev/rknpu*", "/dev/accel/accel*", "/dev/dri/renderD*",
                                           "/dev/dri/card*", "/dev/dma_heap/*"};
    json_t *list = json_array();
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        glob_t found;
        if (glob(patterns[i], 0, NULL, &found) == 0) {
            for (size_t k = 0; k < found.gl_pathc; k++)
                json_array_append_new(list, node_json(found.gl_pathv[k]));
            globfree(&found);
        }
    }
    json_object_set_new(o, "nodes", list);
}

// What would have to be different for more to be tried.
static void add_hints(json_t *o)
{
    json_t *hints = json_array(), *node;
    size_t i;
    if (!json_object_get(o, "chip"))
        json_array_append_new(hints,
                              json_string("This is no board with a Rockchip chip: its device tree "
                                          "says none."));
    json_array_foreach(json_object_get(o, "nodes"), i, node)
    {
        if (!json_is_true(json_object_get(node, "opens")))
            json_array_append_new(
                hints, json_sprintf("This user may not open %s (%s): as root, or in group %s, more "
                                    "could be tried.",
                                    json_string_value(json_object_get(node, "path")),
                                    json_string_value(json_object_get(node, "why")),
                                    json_string_value(json_object_get(node, "group"))));
    }
    if (geteuid() != 0)
        json_array_append_new(hints, json_string("Without root the driver's own version file "
                                                 "(/sys/kernel/debug/rknpu) cannot be read."));
    json_object_set_new(o, "hints", hints);
}

// Some of it is for root only; what is missing then is among the hints.
json_t *facts_look(void)
{
    struct utsname u;
    json_t *o = json_object();
    if (uname(&u) == 0) {
        json_object_set_new(o, "kernel", print_json_text(u.release));
        json_object_set_new(o, "machine", print_json_text(u.machine));
    }
    json_object_set_new(o, "processors", json_integer(sysconf(_SC_NPROCESSORS_ONLN)));
    json_object_set_new(o, "root", json_boolean(geteuid() == 0));
    add_line(o, "board", TREE "model");
    add_line(o, "driver_version", "/sys/kernel/debug/rknpu/version");
    add_chip(o);
    add_modules(o);
    add_nodes(o);
    add_hints(o);
    return o;
}

// ---- what is private ----

// What a name may consist of: "host" is not to be found in "localhost".
static bool is_word(char c)
{
    return (c >= '0' && c <= '9') || c == '_' || ((c | 32) >= 'a' && (c | 32) <= 'z');
}

// Every place of `name` that is a word of its own; *text is the caller's, and replaced.
static void replace_word(char **text, const char *name, const char *with)
{
    size_t n = strlen(name), from = 0;
    if (n < 3)
        return;
    for (char *at; (at = strstr(*text + from, name));) {
        from = (size_t)(at - *text) + 1;
        if ((at > *text && is_word(at[-1]) && is_word(*name)) || is_word(at[n]))
            continue;
        char *made;
        if (asprintf(&made, "%.*s%s%s", (int)(at - *text), *text, with, at + n) < 0)
            return;
        from = (size_t)(at - *text) + strlen(with);
        free(*text);
        *text = made;
    }
}

// Names shorter than three letters would be found everywhere.
static json_t *text_without_names(const char *given)
{
    char host[256] = "", *text = strdup(given);
    const struct passwd *user = getpwuid(getuid());
    const char *home = getenv("HOME");
    gethostname(host, sizeof host - 1);
    if (text && home && strcmp(home, "/root") != 0)
        replace_word(&text, home, "(home)");
    if (text && strcmp(host, "localhost") != 0)
        replace_word(&text, host, "(host)");
    if (text && user && getuid() != 0)
        replace_word(&text, user->pw_name, "(user)");
    json_t *ret = text ? json_string(text) : json_null();
    free(text);
    return ret;
}

// Everything that goes into a file passes here once.
json_t *facts_without_names(json_t *value)
{
    json_t *part, *made;
    const char *key;
    void *next;
    size_t i;
    if (json_is_array(value)) {
        json_array_foreach(value, i, part)
        {
            if (json_is_string(part) && (made = text_without_names(json_string_value(part))))
                json_array_set_new(value, i, made);
            else
                facts_without_names(part);
        }
    }
    json_object_foreach_safe(value, next, key, part)
    {
        if (json_is_string(part) && strcmp(key, "hex") != 0 &&
            (made = text_without_names(json_string_value(part))))
            json_object_set_new(value, key, made);
        else
            facts_without_names(part);
    }
    return value;
}
