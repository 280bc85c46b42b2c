// Lines that have become empty are taken out when their turn comes.
#include "server/net/rounds.h"

// The next of the line whose turn it is, which goes behind the other lines; NULL: nobody waits.
static struct rounds_place *next_place(struct rounds *r)
{
    struct rounds_line *line;
    while ((line = list_first(&r->lines, struct rounds_line, link))) {
        struct rounds_place *place = list_first(&line->waiting, struct rounds_place, link);
        list_remove(&line->link);
        if (!place)
            continue;
        rounds_leave(place);
        if (!list_empty(&line->waiting))
            list_append(&r->lines, &line->link);
        return place;
    }
    return NULL;
}

static void on_more(uv_idle_t *more)
{
    (void)more;
}

static void on_check(uv_check_t *check)
{
    struct rounds *r = container_of(check, struct rounds, check);
    struct rounds_place *place;
    uint64_t end_ns = uv_hrtime() + r->most_ns;
    if (!uv_is_active((uv_handle_t *)&r->more))
        return;
    while ((place = next_place(r))) {
        place->turn(place);
        if (uv_hrtime() >= end_ns)
            break;
    }
    if (list_empty(&r->lines))
        uv_idle_stop(&r->more);
}

void rounds_init(struct rounds *r, uv_loop_t *loop, unsigned most_ms)
{
    list_init(&r->lines);
    r->n_waiting = 0;
    r->most_ns = most_ms * UINT64_C(1000000);
    uv_check_init(loop, &r->check);
    uv_check_start(&r->check, on_check);
    uv_unref((uv_handle_t *)&r->check);
    uv_idle_init(loop, &r->more);
}

void rounds_close(struct rounds *r)
{
    uv_close((uv_handle_t *)&r->check, NULL);
    uv_close((uv_handle_t *)&r->more, NULL);
}

void rounds_line_init(struct rounds_line *line)
{
    list_init(&line->link);
    list_init(&line->waiting);
}

void rounds_line_done(struct rounds_line *line)
{
    list_remove(&line->link);
}

void rounds_place_init(struct rounds_place *place, void (*turn)(struct rounds_place *place))
{
    list_init(&place->link);
    place->waits_in = NULL;
    place->turn = turn;
}

void rounds_wait(struct rounds *r, struct rounds_line *line, struct rounds_place *place)
{
    if (!list_empty(&place->link))
        return;
    list_append(&line->waiting, &place->link);
    place->waits_in = r;
    r->n_waiting++;
    if (list_empty(&line->link))
        list_append(&r->lines, &line->link);
    if (!uv_is_active((uv_handle_t *)&r->more))
        uv_idle_start(&r->more, on_more);
}

bool rounds_waits(const struct rounds_place *place)
{
    return !list_empty(&place->link);
}

bool rounds_are_crowded(const struct rounds *r)
{
    return r->n_waiting > ROUNDS_CROWD;
}

void rounds_leave(struct rounds_place *place)
{
    if (!place->waits_in)
        return;
    place->waits_in->n_waiting--;
    place->waits_in = NULL;
    list_remove(&place->link);
}
