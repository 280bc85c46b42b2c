// Boards on USB, as the kernel's files show them.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "client/transport/transport_usb.h"
#include "client/transport/usb_boards.h"

static char sysfs[] = "/tmp/test-client-doctor-XXXXXX";
static char seen[1000];

static void on_check(void *user, const rknnd_check *c)
{
    (void)user;
    size_t used = strlen(seen);
    snprintf(seen + used, sizeof seen - used, "%d %s\n", (int)c->verdict, c->found);
}

static const char *look(void)
{
    struct checks d = {.callback = on_check};
    *seen = 0;
    transport_usb_survey(&d, sysfs);
    assert_int_equal(d.n_bad, 0);
    return seen;
}

static void shell(const char *what, const char *path)
{
    char command[400];
    snprintf(command, sizeof command, "%s '%s'", what, path);
    assert_int_equal(system(command), 0);
}

static void add(const char *device, const char *name, const char *value)
{
    char at[200];
    snprintf(at, sizeof at, "%s/bus/usb/devices/%s", sysfs, device);
    shell("mkdir -p", at);
    snprintf(at, sizeof at, "%s/bus/usb/devices/%s/%s", sysfs, device, name);
    cleanup(fclose_p) FILE *file = fopen(at, "we");
    assert_non_null(file);
    assert_cmp(fprintf(file, "%s\n", value), >, 0);
}

static void no_usb_is_no_board(void **state)
{
    (void)state;
    assert_string_equal(look(), "3 no board is at a USB cable\n");
}

static void boards_are_told_from_other_devices(void **state)
{
    (void)state;
    add("usb1", "idVendor", "1d6b");
    add("1-1", "idVendor", "2207");
    add("1-1", "idProduct", "0019");
    add("1-1", "product", "rk3588\tboard");
    add("1-1", "serial", "abc123");
    add("1-1:1.0", "bInterfaceClass", "ff");
    assert_string_equal(look(), "1 a Rockchip board without rknnd's interface, 2207:0019 "
                                "(rk3588?board, serial abc123)\n");
}

static void add_interface(const char *interface)
{
    add(interface, "bInterfaceClass", "ff");
    add(interface, "bInterfaceSubClass", "52");
    add(interface, "bInterfaceProtocol", "01");
}

// Numbers of devices that no machine has, so that there are no nodes for them.
static void boards_are_known_by_their_interface(void **state)
{
    struct usb_board_info boards[2];
    (void)state;
    assert_int_equal(usb_list(sysfs, boards, 2), 0);
    add_interface("1-1:1.1");
    add("1-1", "busnum", "899");
    add("1-1", "devnum", "7");
    add_interface("1-2.3:1.0");
    add("1-2.3", "serial", "aaa");
    add("1-2.3", "busnum", "899");
    add("1-2.3", "devnum", "12");
    assert_int_equal(usb_list(sysfs, boards, 2), 2);
    assert_string_equal(boards[0].serial, "aaa");
    assert_string_equal(boards[0].node, "/dev/bus/usb/899/012");
    assert_int_equal(boards[0].closed, ENOENT);
    assert_string_equal(boards[1].serial, "abc123");
    assert_int_equal(usb_list(sysfs, NULL, 0), 2);
    assert_string_equal(look(),
                        "1 usb:aaa cannot be used: there is no device node /dev/bus/usb/899/012\n"
                        "1 usb:abc123 cannot be used: there is no device node "
                        "/dev/bus/usb/899/007\n");
}

// Its folder is read while its files are being removed.
static void a_board_that_is_just_unplugged_is_none(void **state)
{
    struct usb_board_info boards[3];
    (void)state;
    add_interface("1-4:1.0");
    assert_int_equal(usb_list(sysfs, boards, 3), 2);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(sysfs) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    shell("rm -r", sysfs);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_usb_is_no_board),
        cmocka_unit_test(boards_are_told_from_other_devices),
        cmocka_unit_test(boards_are_known_by_their_interface),
        cmocka_unit_test(a_board_that_is_just_unplugged_is_none),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
