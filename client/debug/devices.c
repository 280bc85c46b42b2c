// rknnd_list_devices: which servers and boards are within reach, by what this machine knows of
// them; none is asked. Sockets, USB boards, boards behind adb.
#include "base/cleanup.h"
#include "client/last_error.h"
#include "client/sized.h"
#include "client/transport/transports.h"

#define ROOM 64 // for devices, at first

// Tries again with more room if there are more devices than fit; their number may change in
// between.
static int list_devices(rknnd_list **ret, struct error *e)
{
    for (uint32_t room = ROOM;;) {
        cleanup(free_p) rknnd_list *list = sized_list_new(room, sizeof(rknnd_device), 0, NULL);
        if (!list)
            return error_no_memory(e, "a list of devices", room * sizeof(rknnd_device));
        struct device_list l = {.items = (rknnd_device *)(list + 1), .max = room};
        transports_list(&l, false);
        if (l.n <= room) {
            list->n = l.n;
            *ret = steal_ptr(list);
            return 0;
        }
        room = l.n;
    }
}

RKNN_EXPORT int rknnd_list_devices(rknnd_list **devices)
{
    struct error e;
    int r = devices ? list_devices(devices, &e)
                    : error_set(&e, STATUS_PARAM_INVALID, "devices is NULL");
    return last_error_keep("rknnd_list_devices", r, &e);
}
