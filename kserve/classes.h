// The protocol's extension for classes: of an output's numbers the largest, with their places and
// what these are called, as texts ("0.870000:3:dog"; without a name "0.870000:3").
#pragma once

#include "kserve/http/reply.h"
#include "kserve/model/labels.h"
#include "kserve/request/datatype.h"

// What classes are taken of.
struct classes {
    const struct datatype *type;
    const uint8_t *data; // rows one after the other
    uint64_t n;          // elements of a row
    uint32_t rows;
    uint32_t most; // that are wanted of a row
    const struct labels *labels;
};

/// How many there are of a row.
uint32_t classes_of_row(const struct classes *c);

/// More bytes than they take in either form.
uint64_t classes_room(const struct classes *c);

/// Adds all as elements of a JSON array, or as the bytes of a tensor: each behind its length.
void classes_add(const struct classes *c, bool binary, struct reply *r);
