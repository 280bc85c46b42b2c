#include "npu/model/rknn/rknn_chip.h"

// The chip that a .rknn file runs as. Files name a compiler target that several chips share (rk3566
// and rk3568), so targets are compared, and a device of a fixed chip keeps its own.
int rknn_find_chip(const struct chip *wanted, const struct rknn_file *f, const struct chip **ret,
                   struct error *e)
{
    const struct chip *chip = chip_find(f->chip);
    char names[CHIP_NAMES_MAX];
    if (!chip)
        return error_set(
            e, STATUS_TARGET_PLATFORM_UNMATCH,
            "the model is for \"%s\", and how that chip's NPU computes is not known here: "
            "convert it for one of %s",
            f->chip, chip_names(names));
    if (wanted && strcmp(wanted->target, chip->target) != 0)
        return error_set(e, STATUS_TARGET_PLATFORM_UNMATCH,
                         "the model is for %s, this device is %s: convert it for %s, or use a "
                         "device of the model's chip",
                         chip->name, wanted->name, wanted->name);
    *ret = wanted ? wanted : chip;
    return 0;
}
