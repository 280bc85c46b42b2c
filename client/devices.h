// Which servers are within reach.
#pragma once

#include "rknnd.h"

/// The boards at a USB cable or behind adb. Returns how many there are, also when that is more than
/// `max`.
unsigned devices_find_boards(rknnd_device *list, unsigned max);
