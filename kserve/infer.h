// An inference: from the body of a request to that of its answer.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct reply;
struct placement;
struct quick_run;
struct request_kept;
struct served_model;

/// `header`: Inference-Header-Content-Length; REQUEST_NO_HEADER. *kept: the connection's last
/// request, which is made here; free(). Blocks as long as it takes.
void infer(struct served_model *m, const uint8_t *body, size_t size, int64_t header,
           struct request_kept **kept, struct reply *r);

/// For a body whose first `n` of `size` bytes are there: whether all but its JSON can be read to
/// p->to. Then infer_placed() once it has been, and placement_end().
bool infer_place(struct served_model *m, const uint8_t *body, size_t n, size_t size, int64_t header,
                 struct request_kept *kept, struct placement *p);
void infer_placed(struct placement *p, const struct request_kept *kept, struct reply *r);

/// Starts what a body asks for whose JSON is that of the connection's last request, and does not
/// wait. False: it is for infer(). Then, perhaps behind quick_run_wait(), infer_end().
bool infer_begin(struct served_model *m, const uint8_t *body, size_t size, int64_t header,
                 struct request_kept *kept, struct quick_run *q);
void infer_end(struct quick_run *q, const struct request_kept *kept, struct reply *r);
