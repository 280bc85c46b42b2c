// rknnd_get_sensors: temperatures and power of the server's machine (SENSORS), as a list in one
// malloc'ed block.
#include "base/text/text.h"
#include "client/last_error.h"
#include "client/limits.h"
#include "client/link/one_shot.h"
#include "client/link/payload.h"
#include "client/sized.h"
#include "rknnd.h"

static int take_sensors(uint32_t n, struct bytes rest, rknnd_list **ret, struct error *e)
{
    cleanup(free_p) rknnd_list *list = sized_list_new(n, sizeof(rknnd_sensor), 0, NULL);
    if (!list)
        return error_no_memory(e, "sensors", n * sizeof(rknnd_sensor));
    rknnd_sensor *sensors = (rknnd_sensor *)(list + 1);
    int r = 0;
    for (uint32_t i = 0; i < n && r == 0; i++) {
        rknnd_Sensor m;
        r = message_delimited_take(rknnd_Sensor_fields, &rest, &m, e);
        if (r < 0)
            return r;
        sensors[i] = (rknnd_sensor){
            .struct_size = sizeof *sensors, .kind = m.kind, .value = m.value, .limit = m.limit};
        message_set_text(sensors[i].name, m.name);
        text_make_printable(sensors[i].name);
    }
    *ret = steal_ptr(list);
    return 0;
}

RKNN_EXPORT int rknnd_get_sensors(const char *uri, rknnd_list **sensors)
{
    struct error e;
    struct payload list = {.limit = LIMIT_LIST_BYTES};
    rknnd_SensorsReply reply = {0};
    struct request request = {
        .type = MESSAGE_SENSORS, .reply = &reply, .payload = payload_take, .owner = &list};
    int r = sensors ? one_shot_call(uri, &request, &(rknnd_Empty){0}, &e)
                    : error_set(&e, STATUS_PARAM_INVALID, "sensors is NULL");
    if (r == 0 && reply.n_sensors > LIMIT_LIST_BYTES)
        r = error_set(&e, STATUS_FAIL, "the server reports %u sensors", reply.n_sensors);
    if (r == 0)
        r = take_sensors(reply.n_sensors, (struct bytes){list.data, list.size}, sensors, &e);
    payload_done(&list);
    return last_error_keep("rknnd_get_sensors", r, &e);
}
