// Boards on USB, as the kernel's files show them.
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
#include "client/doctor.h"

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
    struct doctor d = {.callback = on_check};
    *seen = 0;
    doctor_usb(&d, sysfs);
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
    assert_true(fprintf(file, "%s\n", value) > 0);
}

static void no_usb_is_no_board(void **state)
{
    (void)state;
    assert_string_equal(look(), "3 no Rockchip board on USB\n");
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
    assert_string_equal(look(), "1 a Rockchip board, 2207:0019 (rk3588?board, serial abc123)\n");
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
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
