// A request held against a model: what is to be run, and where its outputs go.
#pragma once

#include "kserve/model/served_model.h"
#include "kserve/request/request_parse.h"

struct job_input {
    const uint8_t *data;
    uint64_t size;
    rknn_tensor_type type;
    rknn_tensor_format format;
};

struct job {
    struct job_input inputs[REQUEST_MAX_TENSORS];
    uint8_t *outputs[REQUEST_MAX_TENSORS]; // malloc'ed, for all samples
    uint32_t n_outputs;
    uint32_t samples;
    uint64_t timeout_ns;                 // that it waits for its turn, at most; 0: any time
    unsigned set;                        // where the model does not batch
    unsigned asked[REQUEST_MAX_TENSORS]; // outputs in the answer, in order
    unsigned n_asked;
};

/// Finds each input and output by name, checks datatypes and shapes, and makes room for outputs. Of
/// inputs that are BOOL the data must be there, too; of others only their sizes are looked at.
/// STATUS_PARAM_INVALID with words.
int job_prepare(struct job *j, const struct request *r, const struct served_model *m,
                struct error *e);
void job_done(struct job *j);

/// Bytes of an output of one sample, or of a set.
uint64_t job_output_size(const struct served_model *m, unsigned set, uint32_t output);

/// Runs it, perhaps together with other requests for the model, and counts that it was done.
/// Blocks. STATUS_TIMEOUT: its turn came too late.
int job_run(struct job *j, struct served_model *m, struct error *e);

/// Counts that a job was done, `queue_ns` of which it waited.
void job_count(struct served_model *m, const struct job *j, uint64_t queue_ns, uint64_t ns);
