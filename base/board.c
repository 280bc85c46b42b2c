// Serial numbers of boards.
#include "base/board.h"

#include "base/file/line.h"

// The device tree has it on Rockchip boards (from fuses, by the boot loader), soc0 on some others.
bool board_serial(char *ret, size_t size)
{
    return line_read("/proc/device-tree/serial-number", ret, size) ||
           line_read("/sys/devices/soc0/serial_number", ret, size);
}
