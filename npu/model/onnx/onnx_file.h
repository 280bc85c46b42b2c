// What an ONNX file holds, as it holds it. Text and numbers of tensors stay in the file; lists are
// in memory of the pool.
#pragma once

#include "base/bytes.h"
#include "base/error.h"
#include "npu/model/graph.h"

#define ONNX_MAX_EDGES 1024 // inputs or outputs of one node

// The data types that are known (onnx.proto, TensorProto.DataType).
enum onnx_type {
    ONNX_FLOAT = 1,
    ONNX_UINT8 = 2,
    ONNX_INT8 = 3,
    ONNX_UINT16 = 4,
    ONNX_INT16 = 5,
    ONNX_INT32 = 6,
    ONNX_INT64 = 7,
    ONNX_BOOL = 9,
    ONNX_FLOAT16 = 10,
    ONNX_DOUBLE = 11,
    ONNX_UINT32 = 12,
    ONNX_UINT64 = 13,
    ONNX_BFLOAT16 = 16, // of constants alone, as are the next two
    ONNX_UINT4 = 21,
    ONNX_INT4 = 22,
};

// Bytes found in the file, in order, or put together from several places.
struct onnx_list {
    struct bytes *items;
    uint32_t n, room;
};

struct onnx_numbers {
    int64_t *items;
    uint32_t n, room;
};

struct onnx_value {
    const char *name;
    int32_t type; // 0: not a tensor
    bool has_shape;
    uint32_t n_dims;
    int64_t dims[GRAPH_MAX_DIMS]; // -1: not fixed
};

struct onnx_attr {
    const char *name;
    int32_t type; // 0: not said (old files)
    float f;
    int64_t i;
    struct bytes s, t, g;
    struct bytes floats; // little-endian
    struct onnx_numbers ints;
    struct onnx_list strings;
};

struct onnx_node {
    const char *name, *op, *domain, *overload;
    uint32_t n_inputs, n_outputs, n_attrs;
    const char **inputs, **outputs; // "": left out
    struct onnx_attr *attrs;
};

struct onnx_tensor {
    const char *name;
    int32_t type;
    uint32_t n_dims;
    int64_t dims[GRAPH_MAX_DIMS];
    bool external, strings;
    struct bytes raw, floats, doubles;
    struct onnx_numbers ints; // int32, int64 and uint64 data
};

// An operator that the file defines by others. Its nodes are read for each call, since attributes
// of them may stand for the call's.
struct onnx_function {
    const char *name, *domain, *overload;
    struct bytes message;
};

struct onnx_file {
    struct pool *pool;
    struct bytes bytes;
    int64_t ir_version, opset;
    bool has_sparse, nested; // nested: the graph of a node
    uint32_t n_nodes, n_initializers, n_inputs, n_outputs, n_values;
    struct onnx_node *nodes;
    struct onnx_tensor *initializers;
    struct onnx_value *inputs, *outputs, *values;

    uint32_t n_functions;
    const struct onnx_function *functions; // of the whole file
    // What attributes of a function's nodes stand for, in one of its calls; NULL: it is no
    // function.
    const struct onnx_attr *given;
    uint32_t n_given;
};

/// Whether the bytes are those of an ONNX model: a protobuf message that holds a graph.
bool onnx_recognise(struct bytes file);

/// Reads the file, with its nodes in an order that they can run in, if there is one. Memory comes
/// from `pool`, which is the caller's, also after a failure. The bytes must outlive *f.
int onnx_file_read(struct onnx_file *f, struct pool *pool, struct bytes file, struct error *e);

/// Puts nodes behind those that make what they, or graphs inside them, read (order_nodes.h).
int onnx_file_sort(struct onnx_file *f, struct error *e);

/// Reads the graph that a node has as an attribute, into memory of of->pool. *ret has the file's
/// operator set.
int onnx_file_subgraph(const struct onnx_file *of, struct bytes graph, struct onnx_file *ret,
                       struct error *e);

/// The function that a node calls; NULL: the file has none of that name.
const struct onnx_function *onnx_file_function(const struct onnx_file *f,
                                               const struct onnx_node *call);

/// Reads the function's nodes as a graph, as onnx_file_subgraph() does, for this call: with its
/// attributes, without the inputs that it leaves out, and with the function's own operator set.
int onnx_file_call(const struct onnx_file *of, const struct onnx_function *function,
                   const struct onnx_node *call, struct onnx_file *ret, struct error *e);

/// Reads one tensor message, an attribute's for example.
int onnx_tensor_read(const struct onnx_file *f, struct bytes message, struct onnx_tensor *ret,
                     struct error *e);

/// False: the data type is not known. Doubles become floats and uint64 int64
/// (graph_tensor.natural): devices and the API have neither.
bool onnx_type_of(int32_t type, enum tensor_type *ret);

/// Turns a tensor into a constant of the graph: its raw data in place, else converted into memory
/// of the pool. Refuses doubles that no float comes near, and whole ones that no float equals.
int onnx_tensor_constant(const struct onnx_file *f, const struct onnx_tensor *t,
                         struct graph_tensor *ret, struct error *e);
