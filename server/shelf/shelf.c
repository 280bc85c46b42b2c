// Everything that touches the disk is a shelf_work, and one thread does them one after the other:
// two pushes never compete for the disk, and no lock is needed among works of one daemon. Each
// person has a line of works, and the lines take turns, so that whoever pushes a hundred models
// delays others by one of them at most.
//
// A work may outlive the wish for it: while it is on the thread nobody frees it, and stop() or
// done() follow on the loop.
#include "server/shelf/shelf.h"

#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "server/clients/user.h"

void shelf_init(struct shelf *s, uv_loop_t *loop, void (*changed)(struct shelf *s))
{
    *s = (struct shelf){.loop = loop, .root = -1, .changed = changed};
    list_init(&s->works);
    list_init(&s->lines);
    shelf_line_init(&s->own);
}

int shelf_check(const struct shelf *s, struct error *e)
{
    return s->root >= 0 ? 0
                        : error_set(e, STATUS_FAIL,
                                    "this server has no model store (its option model-store)");
}

// ---- work ---------------------------------------------------------------------------------------

static void work_run(struct task *t)
{
    struct shelf_work *w = container_of(t, struct shelf_work, task);
    struct error e;
    int r = shelf_follow(w->path, w->root, &w->error);
    if (r > 0 && shelf_clean(w->root, &e) < 0)
        log_warn("%s", e.text);
    if (r >= 0)
        w->run(w);
    threads_post(t->threads, t);
}

static struct shelf_line *line_of(struct shelf_work *w)
{
    return w->user ? &user_person(w->user)->shelf : &w->shelf->own;
}

static void work_leave(struct shelf_work *w)
{
    struct shelf_line *line = line_of(w);
    list_remove(&w->turn);
    if (list_empty(&line->waiting))
        list_remove(&line->link);
}

static void work_finish(struct task *t);

// The first of the line whose turn it is; the line goes to the end.
static void shelf_next(struct shelf *s)
{
    struct shelf_line *line = list_first(&s->lines, struct shelf_line, link);
    if (s->busy || !line)
        return;
    struct shelf_work *w = list_first(&line->waiting, struct shelf_work, turn);
    list_remove(&line->link);
    list_append(&s->lines, &line->link);
    work_leave(w);
    w->task = (struct task){.work = work_run, .finish = work_finish};
    w->error.code = 0;
    w->on_thread = s->busy = true;
    threads_do(s->threads, &w->task);
}

static void work_finish(struct task *t)
{
    struct shelf_work *w = container_of(t, struct shelf_work, task);
    w->on_thread = w->shelf->busy = false;
    shelf_next(w->shelf);
    w->shelf->n_failures += w->error.code < 0;
    w->done(w);
}

void shelf_begin_work(struct shelf *s, struct shelf_work *w, struct user *user)
{
    w->shelf = s;
    w->user = user ? user_ref(user) : NULL;
    list_init(&w->turn);
    w->root = s->root;
    w->path = s->path;
    list_append(&s->works, &w->link);
}

void shelf_do(struct shelf_work *w)
{
    struct shelf_line *line = line_of(w);
    if (list_empty(&line->waiting))
        list_append(&w->shelf->lines, &line->link);
    list_append(&line->waiting, &w->turn);
    shelf_next(w->shelf);
}

void shelf_end_work(struct shelf_work *w)
{
    work_leave(w);
    list_remove(&w->link);
    user_unref(steal_ptr(w->user));
}

// ---- counting -----------------------------------------------------------------------------------

struct look {
    struct shelf_work work;
    bool clean;
    struct stored *all;
    size_t n;
};

void shelf_count(struct shelf *s, const struct stored *all, size_t n)
{
    s->n_stored = n;
    s->bytes = 0;
    for (size_t i = 0; i < n; i++)
        s->bytes += all[i].manifest.size;
}

static void look_run(struct shelf_work *w)
{
    struct look *l = container_of(w, struct look, work);
    struct error e;
    // A folder that cannot be written can still be read.
    if (l->clean && shelf_clean(w->root, &e) < 0)
        log_warn("%s", e.text);
    w->error.code = shelf_list(w->root, &l->all, &l->n, &w->error);
}

static void look_free(struct look *l)
{
    shelf_end_work(&l->work);
    free(l->all);
    free(l);
}

static void look_done(struct shelf_work *w)
{
    struct look *l = container_of(w, struct look, work);
    struct shelf *s = w->shelf;
    if (w->error.code < 0)
        log_warn("%s", w->error.text);
    else
        shelf_count(s, l->all, l->n);
    for (size_t i = 0; l->clean && i < l->n; i++)
        if (*l->all[i].problem)
            log_warn("stored model %s@%s: %s", l->all[i].name, l->all[i].version,
                     l->all[i].problem);
    look_free(l);
    s->changed(s);
}

static void look_stop(struct shelf_work *w)
{
    if (!w->on_thread)
        look_free(container_of(w, struct look, work));
}

// One that has not begun sees all that happened until now.
static bool look_waits(const struct shelf *s)
{
    const struct shelf_work *w;
    list_for_each (w, &s->own.waiting, turn)
        if (w->run == look_run)
            return true;
    return false;
}

static void look_again(struct shelf *s, bool clean)
{
    struct look *l = look_waits(s) ? NULL : calloc(1, sizeof *l);
    if (!l)
        return;
    l->clean = clean;
    l->work.run = look_run;
    l->work.done = look_done;
    l->work.stop = look_stop;
    shelf_begin_work(s, &l->work, NULL);
    shelf_do(&l->work);
}

void shelf_note_change(struct shelf *s)
{
    if (s->root >= 0)
        look_again(s, false);
}

uint64_t shelf_disk_size(const struct shelf *s)
{
    struct statvfs v;
    if (s->root < 0 || fstatvfs(s->root, &v) < 0)
        return 0;
    return (uint64_t)v.f_blocks * v.f_frsize;
}

// ---- life ---------------------------------------------------------------------------------------

int shelf_start(struct shelf *s, const char *path, struct error *e)
{
    int r = shelf_open(path, &s->root, e);
    s->path = r == 0 ? strdup(path) : NULL;
    if (r == 0 && !s->path)
        r = error_no_memory(e, "the model store", strlen(path));
    if (r == 0)
        r = threads_new(s->loop, &s->threads, e);
    if (r < 0)
        return r;
    look_again(s, true);
    return 0;
}

// What the thread is at is left alone, with the folder: the disk may hang, and what is half-done is
// cleaned up at the next start.
void shelf_stop(struct shelf *s)
{
    struct threads *threads = steal_ptr(s->threads);
    struct shelf_work *w, *after;
    bool busy = false;
    list_for_each_safe (w, after, &s->works, link) {
        struct user *user = w->user;
        busy = busy || w->on_thread;
        work_leave(w);
        list_remove(&w->link);
        w->user = NULL;
        w->stop(w);
        user_unref(user);
    }
    if (threads && busy)
        threads_abandon(threads, NULL, NULL);
    else if (threads)
        threads_free(threads, NULL, NULL);
    if (!busy) {
        fd_close(s->root);
        free(s->path);
    }
    s->root = -1;
    s->path = NULL;
}
