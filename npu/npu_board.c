// Which chip this is: from the devicetree's list of compatible names, zero-terminated strings from
// the most specific (the board) to the most general (the chip). Number of cores and runtime follow
// from tensor/chip.h.
#include "npu/npu_board.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file/line.h"
#include "tensor/chip.h"

#define MAKER "rockchip,"

// SDK guide 2.1.3 and 7.3: most of them are for root only.
static const char *const driver_files[] = {
    "/sys/kernel/debug/rknpu/version", "/proc/debug/rknpu/driver_version", "/proc/rknpu/version"};

// The driver's version, "" where no file can be read: it is for display only.
static void read_driver(char *ret, size_t size)
{
    ret[0] = 0;
    for (size_t i = 0; i < sizeof driver_files / sizeof *driver_files; i++)
        if (line_read(driver_files[i], ret, size))
            return;
}

int board_list_paths(npu_add_path *add, void *owner, struct error *e)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < sizeof driver_files / sizeof *driver_files; i++)
        r = add(owner, driver_files[i], NPU_ACCESS_READ, e);
    return r;
}

// The last name of the maker's chips, which is the most general: boards have names as well.
static const char *find_chip(const char *list, size_t size)
{
    const char *chip = NULL;
    for (const char *name = list; name < list + size; name += strlen(name) + 1)
        if (strncmp(name, MAKER, strlen(MAKER)) == 0)
            chip = name + strlen(MAKER);
    return chip;
}

int board_read(const char *compatible, struct board *ret, struct error *e)
{
    struct board b = {.n_cores = 1};
    char list[1024];
    cleanup(fclose_p) FILE *f = fopen(compatible, "re");
    if (!f)
        return error_set_errno(e, STATUS_DEVICE_UNAVAILABLE, errno,
                               "this is not a board with a Rockchip NPU: %s", compatible);
    size_t size = fread(list, 1, sizeof list - 1, f);
    list[size] = 0;
    const char *chip = find_chip(list, size);
    if (!chip || !*chip)
        return error_set(e, STATUS_DEVICE_UNAVAILABLE,
                         "this is not a board with a Rockchip NPU: %s says \"%.100s\"", compatible,
                         list);
    snprintf(b.chip, sizeof b.chip, "%s", chip);
    const struct chip *known = chip_find_variant(chip);
    if (known) {
        b.n_cores = known->n_cores;
        b.small = known->small;
    }
    read_driver(b.driver, sizeof b.driver);
    *ret = b;
    return 0;
}
