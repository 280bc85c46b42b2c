#include "server/clients/passed.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/net/discard.h"

struct left {
    struct list link;
    struct user *user; // NULL: he is not there
    uid_t uid;
    struct account *account;
    uint64_t n; // charged
    bool connection;
    int socket;
};

// What was sent is in the other end's queue until it is read, or that end is closed.
static bool is_read(int socket)
{
    int unread = 0;
    return ioctl(socket, SIOCOUTQ, &unread) < 0 || unread == 0;
}

static void passed_refund(struct passed *p, struct user *user)
{
    if (p->n > 1)
        account_refund(&user->account, ACCOUNT_DESCRIPTORS, p->n - 1);
    p->n = p->n_told = 0;
}

int passed_add(struct passed *p, struct user *user, int socket, bool queued, struct error *e)
{
    if (socket < 0)
        return 0;
    if (p->n > 0 && !queued && is_read(socket))
        passed_refund(p, user);
    int r = p->n > 0 ? account_charge(&user->account, ACCOUNT_DESCRIPTORS, 1, e) : 0;
    if (r == 0)
        p->n++;
    return r;
}

void passed_leave(struct passed *p, struct user *user, int socket, struct list *left)
{
    struct error e;
    struct left *l = NULL;
    if (p->n > 0 && socket >= 0 && !is_read(socket))
        l = calloc(1, sizeof *l);
    int kept = l ? fcntl(socket, F_DUPFD_CLOEXEC, 3) : -1;
    if (kept < 0) {
        free(l);
        passed_refund(p, user);
        return;
    }
    shutdown(kept, SHUT_RDWR);
    *l = (struct left){
        .user = user_ref(user), .account = &user->account, .n = p->n - 1, .socket = kept};
    l->connection = account_charge(l->account, ACCOUNT_CONNECTIONS, 1, &e) == 0;
    list_append(left, &l->link);
    p->n = p->n_told = 0;
}

static void left_free(struct left *l)
{
    list_remove(&l->link);
    discard_socket(l->socket);
    account_refund(l->account, ACCOUNT_DESCRIPTORS, l->n);
    if (l->connection)
        account_refund(l->account, ACCOUNT_CONNECTIONS, 1);
    user_unref(l->user);
    free(l);
}

// ---- from one daemon to the next ----------------------------------------------------------------

// Here they stay charged as well: what is passed to a connection that stays is limited by that.
void passed_tell(struct passed *p, int socket, passed_teller tell, void *owner)
{
    uint64_t told = p->n_told ? p->n_told : 1;
    if (p->n > told && socket >= 0 && !is_read(socket) && tell(owner, socket, p->n - told))
        p->n_told = p->n;
}

void passed_tell_left(struct list *left, passed_teller tell, void *owner)
{
    struct left *l, *after;
    list_for_each_safe (l, after, left, link)
        if (tell(owner, l->socket, l->n))
            left_free(l);
}

void passed_take(struct list *left, struct accounts *all, struct user *user, uid_t uid, int socket,
                 uint64_t n)
{
    struct left *l = calloc(1, sizeof *l);
    if (!l) {
        discard_socket(socket);
        return;
    }
    *l = (struct left){.user = user ? user_ref(user) : NULL,
                       .uid = uid,
                       .account = user ? &user->account : &all->all,
                       .socket = socket};
    account_count(l->account, ACCOUNT_DESCRIPTORS, &l->n, n);
    list_append(left, &l->link);
}

void passed_claim(struct list *left, struct user *user)
{
    struct left *l;
    list_for_each (l, left, link)
        if (!l->user && user->local && l->uid == user->uid) {
            account_move(l->account, &user->account, ACCOUNT_DESCRIPTORS, l->n);
            l->account = &user->account;
            l->user = user_ref(user);
        }
}

void passed_sweep(struct list *left, bool all)
{
    struct left *l, *after;
    list_for_each_safe (l, after, left, link)
        if (all || is_read(l->socket))
            left_free(l);
}
