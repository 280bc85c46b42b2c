// A large tensor that is still to come over HTTP: it is read to where the daemon has it, too, if
// nobody has to wait for that.
#pragma once

#include "kserve/model/serve_job.h"

// Found, filled, run and ended by one thread. Between the first and the last the context is nobody
// else's, which is why what is filled slowly has to give it back.
//
// All zero: nowhere.
struct placement {
    struct served_model *model; // a reference
    struct lane *lane;          // held until the end
    struct job *job;            // but for the input's data
    uint8_t *to;                // NULL: nowhere
    uint64_t size;
    struct memory_share *share;
    uint64_t taken; // of it, for outputs and the answer
};

/// A place for the only input of a request of one sample, whose data are not there yet. False:
/// there is none, and nothing is to be ended.
bool placement_find(struct placement *p, const struct request *r, struct served_model *m);

/// Takes memory for outputs and the answer, if there is some; nobody waits with a context.
bool placement_pay(struct placement *p, struct memory_share *share, uint64_t bytes);

/// Who answers has it from now on.
uint64_t placement_paid(struct placement *p);

/// As job_run(), once the input lies there.
int placement_run(struct placement *p, struct error *e);
void placement_end(struct placement *p);
