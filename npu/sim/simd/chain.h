// What the chips make of bytes in memory (struct graph_chain).
#pragma once

#include "npu/model/graph.h"

/// What each byte becomes, as int8_map() takes it. The chain has no terms of channels.
void chain_table(const struct graph_chain *chain, int8_t table[256]);

/// The largest difference of two such tables, without their signs.
int chain_differs(const int8_t a[256], const int8_t b[256]);
