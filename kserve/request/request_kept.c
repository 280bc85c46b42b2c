// Compared byte for byte: JSON that says the same in another way is read again, which is right,
// too.
#include "kserve/request/request_kept.h"

#include <string.h>

bool request_kept_is(const struct request_kept *k, const uint8_t *body, size_t n, int64_t header)
{
    return request_kept_has(k, header) && n >= k->n && memcmp(body, k->text, k->n) == 0;
}

bool request_kept_has(const struct request_kept *k, int64_t header)
{
    return k && k->n > 0 && header == (int64_t)k->n;
}

// Data in JSON would have to be kept, too.
static bool has_data(const struct request *r)
{
    for (unsigned i = 0; i < r->n_inputs; i++)
        if (r->inputs[i].binary_size < 0)
            return true;
    return false;
}

static void keep(struct request_kept *k, const uint8_t *body, int64_t header)
{
    if (header <= 0 || header > REQUEST_KEPT_TEXT || has_data(&k->request))
        return;
    memcpy(k->text, body, (size_t)header);
    k->n = (size_t)header;
}

int request_kept_parse(struct request_kept *k, const uint8_t *body, size_t size, int64_t header,
                       struct error *e)
{
    if (request_kept_is(k, body, size, header)) {
        int s = request_take_tensors(&k->request, body, size, k->n, e);
        if (s == 0)
            return 0;
        k->n = 0;
        request_done(&k->request);
        return s;
    }
    k->n = 0;
    int s = request_parse(&k->request, body, size, header, e);
    if (s == 0)
        keep(k, body, header);
    return s;
}

void request_kept_done(struct request_kept *k)
{
    if (!k->n)
        request_done(&k->request);
}
