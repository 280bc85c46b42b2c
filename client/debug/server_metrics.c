// rknnd_get_metrics: what a server has done since it began (METRICS), as text.
#include "client/last_error.h"
#include "client/limits.h"
#include "client/link/one_shot.h"
#include "client/link/payload.h"
#include "rknnd.h"

RKNN_EXPORT int rknnd_get_metrics(const char *uri, char **text)
{
    struct error e;
    struct payload answer = {.limit = LIMIT_LIST_BYTES};
    rknnd_Empty reply;
    struct request request = {
        .type = MESSAGE_METRICS, .reply = &reply, .payload = payload_take, .owner = &answer};
    if (!text)
        return last_error_keep("rknnd_get_metrics",
                               error_set(&e, STATUS_PARAM_INVALID, "text is NULL"), &e);
    int r = one_shot_call(uri, &request, &(rknnd_Empty){0}, &e);
    if (r == 0 && !answer.data)
        r = error_set(&e, STATUS_FAIL, "the server has answered without metrics");
    if (r == 0)
        *text = (char *)steal_ptr(answer.data);
    payload_done(&answer);
    return last_error_keep("rknnd_get_metrics", r, &e);
}
