// Serial numbers of boards.
#include "base/board.h"

#include <string.h>

#include "base/cleanup.h"

bool board_read_line(const char *path, char *ret, size_t size)
{
    cleanup(fclose_p) FILE *f = fopen(path, "re");
    if (!f || !fgets(ret, (int)size, f))
        return false;
    ret[strcspn(ret, "\n")] = 0;
    return *ret;
}

bool board_serial(char *ret, size_t size)
{
    return board_read_line("/proc/device-tree/serial-number", ret, size) ||
           board_read_line("/sys/devices/soc0/serial_number", ret, size);
}
