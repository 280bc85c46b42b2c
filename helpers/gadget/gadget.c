// rknnd-gadget: makes rknnd's USB function (FunctionFS), in the gadget that exists (adb's, say) or
// in one of its own, and connects it. Run as root by the service manager around rknnd; see
// rknnd-gadget(8).
//
// up       before rknnd: function in configfs, mounted where rknnd opens its endpoints (by its own
//          unit, where this one runs in a namespace)
// bind     once rknnd has written its descriptors: function into the configuration, connect
// unbind   when rknnd ends: function out, the gadget's other functions connected again
// down     unmount and remove
//
// Changing a gadget's configuration needs it disconnected from its controller (UDC), so functions
// of others are interrupted for a moment.
#include <errno.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>
#include <usbg/function/ffs.h>
#include <usbg/usbg.h>

#include "base/board.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/file/line.h"
#include "base/net/usb.h"
#include "base/options/option_table.h"

#define NAME USB_NAME // of the function, and of a gadget of our own

struct settings {
    const char *gadget, *udc, *serial, *user; // NULL: find one; user: root
    bool no_mount;                            // somebody else mounts the function
};

// An error of libusbgx in its own words.
static int gadget_failed(struct error *e, int r, const char *what)
{
    return error_set(e, STATUS_FAIL, "%s: %s", what, usbg_strerror((usbg_error)r));
}

// ---- the gadget ---------------------------------------------------------------------------------

// What tells this board from others: the option, the chip's serial number, else the machine's id.
static void find_serial(const struct settings *s, char *ret, size_t size)
{
    *ret = 0;
    if (s->serial)
        snprintf(ret, size, "%s", s->serial);
    else if (!board_serial(ret, size))
        line_read("/etc/machine-id", ret, size);
}

static usbg_gadget *find_gadget(usbg_state *state, const struct settings *s)
{
    return s->gadget ? usbg_get_gadget(state, s->gadget) : usbg_get_first_gadget(state);
}

// A gadget of our own: the Linux Foundation's IDs for composite gadgets, one configuration.
static int make_gadget(usbg_state *state, const struct settings *s, usbg_gadget **ret,
                       struct error *e)
{
    char serial[64];
    find_serial(s, serial, sizeof serial);
    const struct usbg_gadget_attrs attrs = {
        .bcdUSB = 0x0200, .bMaxPacketSize0 = 64, .idVendor = 0x1d6b, .idProduct = 0x0104};
    const struct usbg_gadget_strs strings = {
        .manufacturer = (char *)"rknnd", .product = (char *)"NPU", .serial = serial};
    const struct usbg_config_strs configuration = {.configuration = (char *)"rknnd"};
    usbg_config *config;
    int r = usbg_create_gadget(state, s->gadget ? s->gadget : NAME, &attrs, &strings, ret);
    if (r == USBG_SUCCESS)
        r = usbg_create_config(*ret, 1, "c", NULL, &configuration, &config);
    return r == USBG_SUCCESS ? 0 : gadget_failed(e, r, "a gadget cannot be made");
}

// Microsoft OS descriptors ("MSFT100") make Windows load WinUSB. Optional: errors are ignored.
static void offer_os_descriptors(usbg_gadget *gadget, usbg_config *config)
{
    const struct usbg_gadget_os_descs descriptors = {
        .use = true, .b_vendor_code = 1, .qw_sign = (char *)"MSFT100"};
    if (!usbg_get_os_desc_binding(gadget) &&
        usbg_set_gadget_os_descs(gadget, &descriptors) == USBG_SUCCESS)
        usbg_set_os_desc_config(gadget, config);
}

// Our function in the gadget's first configuration; NULL: not in it.
static usbg_binding *find_binding(usbg_gadget *gadget)
{
    usbg_config *config = usbg_get_first_config(gadget);
    usbg_binding *b = config ? usbg_get_first_binding(config) : NULL;
    while (b && strcmp(usbg_get_binding_name(b), NAME) != 0)
        b = usbg_get_next_binding(b);
    return b;
}

// Takes effect when the gadget is connected next.
static int add_function(usbg_gadget *gadget, struct error *e)
{
    usbg_config *config = usbg_get_first_config(gadget);
    usbg_function *function = usbg_get_function(gadget, USBG_F_FFS, NAME);
    int r = USBG_SUCCESS;
    if (!config)
        return error_set(e, STATUS_FAIL, "gadget %s has no configuration",
                         usbg_get_gadget_name(gadget));
    if (!function)
        return error_set(e, STATUS_FAIL, "gadget %s lacks the function; run rknnd-gadget up",
                         usbg_get_gadget_name(gadget));
    if (!find_binding(gadget))
        r = usbg_add_config_function(config, NAME, function);
    if (r != USBG_SUCCESS)
        return gadget_failed(e, r, "the function cannot be added");
    offer_os_descriptors(gadget, config);
    return 0;
}

// The kernel refuses as long as a FunctionFS function has no descriptors, that is, rknnd does not
// run.
static int connect_gadget(usbg_state *state, const struct settings *s, usbg_gadget *gadget,
                          struct error *e)
{
    usbg_udc *udc = s->udc ? usbg_get_udc(state, s->udc) : usbg_get_first_udc(state);
    if (!udc)
        return error_set(e, STATUS_FAIL, "%s%s: there is no such USB device controller",
                         s->udc ? "" : "any", s->udc ? s->udc : "");
    int r = usbg_enable_gadget(gadget, udc);
    return r == USBG_SUCCESS
               ? 0
               : gadget_failed(e, r,
                               "the gadget cannot be connected (does rknnd --listen usb run?)");
}

static int disconnect_gadget(usbg_gadget *gadget, struct error *e)
{
    int r = usbg_get_gadget_udc(gadget) ? usbg_disable_gadget(gadget) : USBG_SUCCESS;
    return r == USBG_SUCCESS ? 0 : gadget_failed(e, r, "the gadget cannot be disconnected");
}

static int make_folder(const char *path, struct error *e)
{
    if (mkdir(path, 0755) == 0 || errno == EEXIST)
        return 0;
    return error_set_errno(e, STATUS_FAIL, errno, "%s", path);
}

// FunctionFS always has endpoint 0.
static bool is_mounted(void)
{
    return access(USB_FOLDER "/ep0", F_OK) == 0;
}

// Endpoints belong to the user that rknnd runs as.
static int mount_function(const struct settings *s, struct error *e)
{
    char options[64] = "";
    const struct passwd *user = s->user ? getpwnam(s->user) : NULL;
    if (s->user && !user)
        return error_set(e, STATUS_PARAM_INVALID, "there is no user %s", s->user);
    if (user)
        snprintf(options, sizeof options, "uid=%u,gid=%u", (unsigned)user->pw_uid,
                 (unsigned)user->pw_gid);
    int r = make_folder(USB_FOLDERS, e);
    if (r == 0)
        r = make_folder(USB_FOLDER, e);
    if (r == 0 && !is_mounted() &&
        mount(NAME, USB_FOLDER, "functionfs", MS_NOSUID | MS_NOEXEC, options) < 0)
        r = error_set_errno(e, STATUS_FAIL, errno, "%s cannot be mounted", USB_FOLDER);
    return r;
}

// ---- commands -----------------------------------------------------------------------------------

// Idempotent. A gadget that is connected stays so: the function is not in it yet.
static int gadget_up(usbg_state *state, const struct settings *s, struct error *e)
{
    usbg_function *function;
    usbg_gadget *gadget = find_gadget(state, s);
    int r = gadget ? 0 : make_gadget(state, s, &gadget, e);
    if (r < 0)
        return r;
    if (!usbg_get_function(gadget, USBG_F_FFS, NAME)) {
        r = usbg_create_function(gadget, USBG_F_FFS, NAME, NULL, &function);
        if (r != USBG_SUCCESS)
            return gadget_failed(e, r,
                                 "the function cannot be made (is the module usb_f_fs loaded?)");
    }
    return s->no_mount ? 0 : mount_function(s, e);
}

// Idempotent.
static int bind_gadget(usbg_state *state, const struct settings *s, struct error *e)
{
    usbg_gadget *gadget = find_gadget(state, s);
    if (!gadget)
        return error_set(e, STATUS_FAIL, "there is no gadget; run rknnd-gadget up");
    if (usbg_get_gadget_udc(gadget) && find_binding(gadget))
        return 0;
    int r = disconnect_gadget(gadget, e);
    if (r == 0)
        r = add_function(gadget, e);
    return r < 0 ? r : connect_gadget(state, s, gadget, e);
}

// The kernel disconnects a gadget when the program behind one of its functions ends, and connects
// it only when all are there.
static int unbind_gadget(usbg_state *state, const struct settings *s, struct error *e)
{
    usbg_gadget *gadget = find_gadget(state, s);
    usbg_binding *binding = gadget ? find_binding(gadget) : NULL;
    if (!binding)
        return 0;
    int r = disconnect_gadget(gadget, e);
    if (r < 0)
        return r;
    r = usbg_rm_binding(binding);
    if (r != USBG_SUCCESS)
        return gadget_failed(e, r, "the function cannot be taken out of the gadget");
    bool others = usbg_get_first_binding(usbg_get_first_config(gadget));
    return others ? connect_gadget(state, s, gadget, e) : 0;
}

// Removes a gadget of our own as a whole, from others only our function.
static int gadget_down(usbg_state *state, const struct settings *s, struct error *e)
{
    usbg_gadget *gadget = find_gadget(state, s);
    usbg_function *function = gadget ? usbg_get_function(gadget, USBG_F_FFS, NAME) : NULL;
    if (!function)
        return 0;
    bool ours = !s->gadget && strcmp(usbg_get_gadget_name(gadget), NAME) == 0;
    int r = unbind_gadget(state, s, e);
    if (r < 0)
        return r;
    if (!s->no_mount)
        umount2(USB_FOLDER, MNT_DETACH);
    r = ours ? usbg_rm_gadget(gadget, USBG_RM_RECURSE)
             : usbg_rm_function(function, USBG_RM_RECURSE);
    return r == USBG_SUCCESS ? 0 : gadget_failed(e, r, "the function cannot be removed");
}

static const struct {
    const char *name;
    int (*run)(usbg_state *state, const struct settings *s, struct error *e);
} commands[] = {
    {"up", gadget_up}, {"bind", bind_gadget}, {"unbind", unbind_gadget}, {"down", gadget_down}};

static int gadget_run(const char *command, const struct settings *s, struct error *e)
{
    usbg_state *state;
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (strcmp(command, commands[i].name) != 0)
            continue;
        int r = usbg_init("/sys/kernel/config", &state);
        if (r != USBG_SUCCESS)
            return gadget_failed(
                e, r, "the kernel's gadget folder (are configfs and libcomposite there?)");
        r = commands[i].run(state, s, e);
        usbg_cleanup(state);
        return r;
    }
    return error_set(e, STATUS_PARAM_INVALID, "\"%s\" is none of up, bind, unbind, down", command);
}

static int print_help(void *table, const char *text, struct error *e)
{
    (void)text, (void)e;
    printf("usage: rknnd-gadget [OPTION]... up|bind|unbind|down\n"
           "Makes rknnd's USB function (up) and takes it away (down). Connects the gadget\n"
           "with it once rknnd --listen usb runs (bind), and without it, if others have\n"
           "functions there, when rknnd ends (unbind).\n");
    option_table_print(table, 19);
    return OPTION_TABLE_END;
}

static int print_version(void *target, const char *text, struct error *e)
{
    (void)target, (void)text, (void)e;
    printf("rknnd-gadget %s\n", RKNND_VERSION);
    return OPTION_TABLE_END;
}

// Returns 0, OPTION_TABLE_END or STATUS_PARAM_INVALID.
static int gadget_parse(struct settings *s, int argc, char **argv, const char **ret_command,
                        struct error *e)
{
    struct option_table table;
    const struct option_row rows[] = {
        {0, "gadget", OPTION_TEXT, &s->gadget, "NAME",
         "the gadget (default: the first that is there, else one of our own)", 0, 0, NULL},
        {0, "udc", OPTION_TEXT, &s->udc, "NAME", "the USB device controller (default: the first)",
         0, 0, NULL},
        {0, "serial", OPTION_TEXT, &s->serial, "TEXT",
         "serial number of a new gadget (default: the board's)", 0, 0, NULL},
        {0, "user", OPTION_TEXT, &s->user, "NAME", "who may open the function (default: root)", 0,
         0, NULL},
        {0, "no-mount", OPTION_FLAG, &s->no_mount, NULL,
         "leave it to others to mount the function, and to unmount it", 0, 0, NULL},
        {0, "help", OPTION_CALL, &table, NULL, "print this", 0, 0, print_help},
        {0, "version", OPTION_CALL, NULL, NULL, "print the version", 0, 0, print_version},
    };
    table = (struct option_table){.rows = rows, .n_rows = sizeof rows / sizeof *rows};
    int first, r = option_table_parse(&table, argc, argv, &first, e);
    if (r)
        return r;
    if (argc - first != 1)
        return error_set(e, STATUS_PARAM_INVALID,
                         "one of up, bind, unbind and down is needed (see --help)");
    *ret_command = argv[first];
    return 0;
}

int main(int argc, char **argv)
{
    struct settings s = {0};
    struct error e;
    const char *command;
    fd_keep_standard();
    int r = gadget_parse(&s, argc, argv, &command, &e);
    if (r > 0)
        return 0;
    bool parsed = r == 0;
    if (parsed)
        r = gadget_run(command, &s, &e);
    if (r == 0)
        return 0;
    fprintf(stderr, "rknnd-gadget: %s\n", e.text);
    return parsed ? 1 : 2;
}
