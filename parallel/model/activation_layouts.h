// Where the activations of a GPT lie on one rank, one layout per kind; docs/sites.md has their
// global shapes.
#ifndef PLUMBLINE_PARALLEL_MODEL_ACTIVATION_LAYOUTS_H_
#define PLUMBLINE_PARALLEL_MODEL_ACTIVATION_LAYOUTS_H_

#include "base/probe.h"
#include "parallel/tensor/qkv_layout.h"
#include "parallel/tensor/rank_env.h"

namespace plumbline {

// Unnamed: a module names its own copy (parallel/tensor/tap.h, Named).
struct ActivationLayouts {
  ActivationLayouts(const RankEnv& env, const QkvLayout& qkv_layout);

  ObservedLayout hidden;        // [S, B, H], split along S under sequence parallelism
  ObservedLayout whole_hidden;  // [S, B, H], whole
  ObservedLayout qkv;           // [S, B, (A + 2G) D]
  ObservedLayout qkv_gradient;  // copies of a key or value column hold terms of its gradient
  ObservedLayout query;         // [S, B, A, D]
  ObservedLayout key;           // [S, B, G, D]
  ObservedLayout key_gradient;  // likewise
  ObservedLayout context;       // [S, B, A D]
  ObservedLayout fc1;           // [S, B, F] or [S, B, 2F]
  ObservedLayout activation;    // [S, B, F]
  ObservedLayout logits;        // [S, B, V]
  ObservedLayout tokens;        // [S, B]
};

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_MODEL_ACTIVATION_LAYOUTS_H_
