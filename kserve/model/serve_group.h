// One run of a model: the samples of several jobs, one after the other, or one of a job's.
#pragma once

#include "kserve/model/serve_job.h"

#define GROUP_MAX_JOBS STATISTICS_MAX_BATCH

struct group {
    struct served_model *model;
    struct job *jobs[GROUP_MAX_JOBS];
    unsigned n;
    uint32_t samples;
    uint32_t offset; // samples of the only job that come before
    unsigned set;
    bool under_way; // its run was only started, and times.infer_ns is when
    struct run_times times;
};

/// Runs the group on a lane that the caller holds, once more if its server has gone: a run has no
/// effect but its outputs. Blocks.
int group_run(struct group *g, struct lane *lane, struct error *e);

/// The same in two parts. Leaves the run under way with `start_only`; `room` is for group_end().
int group_start(struct group *g, struct lane *lane, uint8_t **room, bool start_only,
                struct error *e);
int group_end(struct group *g, struct lane *lane, uint8_t *room, struct error *e);

/// Waits for a run that is under way. STATUS_TIMEOUT: it still is, after `ms`; 0: as long as it
/// takes.
int group_wait(struct group *g, const struct lane *lane, unsigned ms, struct error *e);
/// Where an input of the next run goes, if the daemon has that memory, too; else NULL.
uint8_t *group_place(const struct group *g, struct lane *lane, uint32_t input);

/// What these two return when the server has gone.
bool group_is_lost(int r);

/// A run has ended well.
void group_count(const struct group *g);
