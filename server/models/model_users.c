// A model is private to those who brought its bytes: whoever only knows a hash is told nothing by
// it.
//
// Of those who hold a model, one pays for it (model->payer). When he has given it up, the next one
// does, whatever his limits: he was not asked for more when he came. A model that nobody holds is
// cached, or its worker is about to end; it costs nobody anything, since it goes when its room is
// wanted.
#include "server/models/model_users.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "server/clients/user.h"

// Of users who do not hold it, the first ones are forgotten then, and bring it once more.
#define MODEL_MAX_USERS 64

struct model_user {
    struct list link;
    struct user *user; // one reference
    char name[128];    // that he gave it; "": none
    unsigned n_holds;
};

static struct model *file_of(const struct model *m)
{
    return (struct model *)(m->original ? m->original : m);
}

static struct model_user *find_model_user(const struct model *m, const struct user *u)
{
    struct model_user *k;
    list_for_each (k, &file_of(m)->users, link)
        if (k->user == u)
            return k;
    return NULL;
}

bool model_is_known(const struct model *m, const struct user *u)
{
    return find_model_user(m, u) != NULL;
}

static void model_user_free(struct model_user *k)
{
    list_remove(&k->link);
    user_unref(k->user);
    free(k);
}

static void forget_first(struct model *file)
{
    struct model_user *k;
    list_for_each (k, &file->users, link)
        if (k->n_holds == 0) {
            model_user_free(k);
            file->n_users--;
            return;
        }
}

const char *model_name_for(const struct model *m, const struct user *u)
{
    const struct model_user *k = find_model_user(m, u);
    return k ? k->name : "";
}

int model_learn(struct model *m, struct user *u, const char *name, struct error *e)
{
    struct model *file = file_of(m);
    if (model_is_known(m, u))
        return 0;
    struct model_user *k = calloc(1, sizeof *k);
    if (!k)
        return error_no_memory(e, "a model's user", sizeof *k);
    if (file->n_users >= MODEL_MAX_USERS)
        forget_first(file);
    k->user = user_ref(u);
    snprintf(k->name, sizeof k->name, "%s", name);
    list_append(&file->users, &k->link);
    file->n_users++;
    return 0;
}

void model_forget_users(struct model *m)
{
    struct model_user *k;
    assert(!m->payer);
    while ((k = list_first(&m->users, struct model_user, link)))
        model_user_free(k);
}

// ---- paying
// --------------------------------------------------------------------------------------

static int start_paying(struct model *file, struct user *u, struct error *e)
{
    if (file->payer)
        return 0;
    int r = account_charge(&u->account, ACCOUNT_MODELS, 1, e);
    if (r < 0)
        return r;
    r = account_charge(&u->account, ACCOUNT_STORAGE, file->file.size, e);
    if (r < 0)
        account_refund(&u->account, ACCOUNT_MODELS, 1);
    else
        file->payer = u;
    return r;
}

// Somebody else who holds it goes on; NULL: nobody does.
static void stop_paying(struct model *file)
{
    struct account *from = &file->payer->account;
    struct model_user *k;
    file->payer = NULL;
    list_for_each (k, &file->users, link)
        if (k->n_holds > 0) {
            file->payer = k->user;
            account_move(from, &k->user->account, ACCOUNT_MODELS, 1);
            account_move(from, &k->user->account, ACCOUNT_STORAGE, file->file.size);
            return;
        }
    account_refund(from, ACCOUNT_MODELS, 1);
    account_refund(from, ACCOUNT_STORAGE, file->file.size);
}

int model_hold(struct model *m, struct user *u, struct error *e)
{
    struct model_user *k = find_model_user(m, u);
    assert(k);
    int r = start_paying(file_of(m), u, e);
    if (r < 0)
        return r;
    k->n_holds++;
    model_ref(m);
    return 0;
}

void model_release(struct model *m, struct user *u)
{
    struct model *file = file_of(m);
    struct model_user *k = find_model_user(m, u);
    if (--k->n_holds == 0 && file->payer == u)
        stop_paying(file);
    model_unref(m);
}
