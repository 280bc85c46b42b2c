// Observe, an operator of rknnd's own domain: bounds, sums of channels and, with the attribute
// `bins`, a histogram of a tensor of floats, as tensor/observe/observation.h has them. `values`: in
// place of the histogram about so many of the tensor's values, as tensor/observe/sampling.h chooses
// them; `tails` 0: without tails. Calibrations put it into the models that they run, so that
// tensors need not leave the device.
#include "npu/model/onnx/onnx_lower.h"
#include "tensor/observe/observation.h"

int onnx_lower_observe(struct onnx_lowering *l, struct error *e)
{
    const struct graph_tensor *x = onnx_in(l, 0);
    int64_t most = onnx_int(l, "values", 0);
    uint32_t channels = x->n_dims >= 2 && onnx_int(l, "channels", 1) ? x->dims[1] : 0;
    if (x->n_elems > UINT32_MAX)
        return onnx_refuse(l, e, "it has more than 2^32 values");
    uint32_t stride = most > 0 ? (uint32_t)sampling_stride(x->n_elems, (uint64_t)most) : 0;
    struct observation_form f =
        observation_form_of(x->n_elems, channels, stride, onnx_int(l, "tails", 1) != 0);
    f.bins = onnx_int(l, "bins", 1) != 0;
    uint64_t words = observation_words(f);
    if (x->type != TENSOR_FLOAT32 || !x->n_elems || words > INT32_MAX)
        return onnx_refuse(l, e, "it looks at floats, not at %s", tensor_type_name(x->type));
    uint32_t dim = (uint32_t)words;
    int r = onnx_shape(l, 0, TENSOR_INT32, 1, &dim, e);
    struct graph_node *n = r < 0 ? NULL : onnx_emit_own(l, GRAPH_OBSERVE, 1, e);
    if (!n)
        return r < 0 ? r : STATUS_MALLOC_FAIL;
    n->observe.bins = f.bins;
    n->observe.channels = channels;
    n->observe.stride = f.stride;
    n->observe.tails = f.n_tails > 0;
    return 0;
}
