// The table of transports, and what is computed from all of its rows.
#include "client/transport/transports.h"

#define X(name) &transport_##name,
static const struct transport *const rows[] = {TRANSPORTS(X)};
#undef X
#define N_ROWS (sizeof rows / sizeof *rows)

static void collect_schemes(const struct uri_scheme *ret[N_ROWS])
{
    for (size_t i = 0; i < N_ROWS; i++)
        ret[i] = &rows[i]->uri;
}

const struct transport *transports_row(unsigned i)
{
    return i < N_ROWS ? rows[i] : NULL;
}

int transports_parse(const char *text, struct uri *ret, struct error *e)
{
    const struct uri_scheme *schemes[N_ROWS];
    collect_schemes(schemes);
    return uri_parse(text, schemes, N_ROWS, ret, e);
}

void transports_forms(char ret[static URI_FORMS_SIZE])
{
    const struct uri_scheme *schemes[N_ROWS];
    collect_schemes(schemes);
    uri_forms(schemes, N_ROWS, ret);
}

void transports_list(struct device_list *l, bool boards_only)
{
    for (size_t i = 0; i < N_ROWS; i++)
        if (rows[i]->list && (rows[i]->boards || !boards_only))
            rows[i]->list(l);
}
