// The way of one piece of memory:
//
//   give_back() --> on_turn(), on_turn() ... --> close_file() --> giveback_work() -->
//   giveback_finish()
//    loop           loop, PIECE bytes each        loop             thread              loop
//
// At the end of the server nobody has turns any more: givebacks_hurry() does the rest of them at
// once, and what comes later finds `rounds` NULL.
#include "server/jobs/giveback.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "server/clients/user.h"
#include "server/threads.h"

#define PIECE (4u << 20) // bytes that are unmapped in a turn

struct giveback {
    struct rounds_place place;
    struct list link; // in givebacks.unmapping
    struct task task;
    struct givebacks *all;
    struct giveback_memory memory;
    uint64_t at; // what is unmapped
    struct user *payer;
    enum account_resource what;
    uint64_t charged, spared;      // bytes: together the memory's
    void (*unmapped)(void *owner); // NULL: nobody wants to know
    void *owner;
};

static void giveback_free(struct giveback *g)
{
    if (g->payer) {
        account_count(&g->payer->account, g->what, &g->charged, 0);
        user_person(g->payer)->spared -= g->spared;
    }
    user_unref(g->payer);
    free(g);
}

// On the thread.
static void giveback_work(struct task *task)
{
    struct giveback *g = container_of(task, struct giveback, task);
    fd_close(g->memory.fd);
    threads_post(task->threads, task);
}

static void giveback_finish(struct task *task)
{
    giveback_free(container_of(task, struct giveback, task));
}

// Nothing is mapped any more. Who only wanted that hears of it, and keeps the file.
static void close_file(struct giveback *g)
{
    struct givebacks *all = g->all;
    list_remove(&g->link);
    if (g->unmapped)
        g->unmapped(g->owner);
    if (g->memory.fd < 0 || !all->threads) {
        fd_close(g->memory.fd);
        giveback_free(g);
        return;
    }
    g->task = (struct task){.work = giveback_work, .finish = giveback_finish};
    threads_do(all->threads, &g->task);
}

static void unmap_piece(struct giveback *g)
{
    uint64_t left = g->memory.size - g->at, n = left < PIECE ? left : PIECE;
    munmap((uint8_t *)g->memory.map + g->at, (size_t)n);
    g->at += n;
}

// Without turns, as many as are left.
static void unmap_rest(struct giveback *g)
{
    rounds_leave(&g->place);
    while (g->at < g->memory.size)
        unmap_piece(g);
    close_file(g);
}

static void unmap_in_turns(struct giveback *g)
{
    if (g->at == g->memory.size || !g->all->rounds)
        unmap_rest(g);
    else
        rounds_wait(g->all->rounds, &g->all->line, &g->place);
}

static void on_turn(struct rounds_place *place)
{
    struct giveback *g = container_of(place, struct giveback, place);
    unmap_piece(g);
    unmap_in_turns(g);
}

// A program that ends has a thousand of them, with ten microseconds each.
static bool is_one_of_many(struct givebacks *all)
{
    uint64_t now_ms = all->rounds ? uv_now(all->rounds->check.loop) : 0;
    if (all->turn_ms != now_ms)
        all->n_small = 0;
    all->turn_ms = now_ms;
    return ++all->n_small > GIVEBACK_SMALL;
}

// NULL: it is not worth it, or there is no memory for it.
static struct giveback *giveback_new(struct givebacks *all, const struct giveback_memory *memory)
{
    bool later = all && all->threads && (memory->size >= GIVEBACK_LARGE || is_one_of_many(all));
    struct giveback *g = later ? calloc(1, sizeof *g) : NULL;
    if (!g)
        return NULL;
    g->all = all;
    g->memory = *memory;
    if (!memory->map)
        g->at = memory->size;
    rounds_place_init(&g->place, on_turn);
    list_append(&all->unmapping, &g->link);
    return g;
}

// Who frees some and asks for as much again finds it; of a large memory that is not so.
static void giveback_charge(struct giveback *g, struct user *payer, enum account_resource what)
{
    struct user *person = user_person(payer);
    uint64_t spare = GIVEBACK_SPARE - person->spared, size = g->memory.size;
    g->payer = user_ref(payer);
    g->what = what;
    g->spared = size < spare ? size : spare;
    person->spared += g->spared;
    account_count(&payer->account, what, &g->charged, size - g->spared);
}

void give_back(struct givebacks *all, const struct giveback_memory *memory, struct user *payer,
               enum account_resource what)
{
    struct giveback *g = giveback_new(all, memory);
    if (!g) {
        if (memory->map)
            munmap(memory->map, (size_t)memory->size);
        fd_close(memory->fd);
        return;
    }
    if (payer)
        giveback_charge(g, payer, what);
    unmap_in_turns(g);
}

void give_back_map(struct givebacks *all, void *map, uint64_t size, void (*done)(void *owner),
                   void *owner)
{
    struct giveback *g = giveback_new(all, &(struct giveback_memory){map, size, -1});
    if (!g) {
        munmap(map, (size_t)size);
        done(owner);
        return;
    }
    g->unmapped = done;
    g->owner = owner;
    unmap_in_turns(g);
}

// ---- life --------------------------------------------------------------------------------------

void givebacks_init(struct givebacks *all, struct rounds *rounds)
{
    *all = (struct givebacks){.rounds = rounds};
    rounds_line_init(&all->line);
    list_init(&all->unmapping);
}

int givebacks_start(struct givebacks *all, uv_loop_t *loop, struct error *e)
{
    return threads_new(loop, &all->threads, e);
}

void givebacks_hurry(struct givebacks *all)
{
    struct giveback *g;
    all->rounds = NULL;
    while ((g = list_first(&all->unmapping, struct giveback, link)))
        unmap_rest(g);
    rounds_line_done(&all->line);
}

void givebacks_close(struct givebacks *all)
{
    if (all->threads)
        threads_free(steal_ptr(all->threads), NULL, NULL);
}
