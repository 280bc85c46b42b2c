// A run that was started and not waited for: of a request that is small, for a model whose runs are
// short. One thread starts several, and then takes what comes.
#pragma once

#include "kserve/model/serve_group.h"

// All zero: none is under way.
struct quick_run {
    struct served_model *model; // a reference
    struct lane *lane;
    struct job *job;
    struct group group;
    uint64_t begin_ns;
    int result; // of its wait, with words
    struct error error;
};

/// Whether the model's last runs were so short that a thread may wait for several. Models that
/// batch gather requests themselves.
bool quick_run_suits(struct served_model *m);

/// Starts a job, which it takes over, on a context that is free. False: none is, or it does not
/// start; then nothing has happened, and the job is still the caller's.
bool quick_run_start(struct quick_run *q, struct served_model *m, struct job *j);

/// Waits for it, not longer than that. False: it goes on.
bool quick_run_wait(struct quick_run *q, unsigned ms);

/// Waits as long as it takes; once more where the server has gone. Outputs are in the job; counts
/// it.
int quick_run_end(struct quick_run *q, struct error *e);

/// Gives back what it had. Only behind quick_run_end().
void quick_run_done(struct quick_run *q);
