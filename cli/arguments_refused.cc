// Arguments of Megatron-LM that change what a step computes, or the parallel program that computes
// it, and that are not modelled yet: refused, unless the value given is one under which nothing
// changes.
#include "cli/arguments.h"

namespace plumbline::internal {
namespace {

struct Row {
  const char* name;
  Arity arity;
  const char* neutral;
  const char* reason;
  const char* alias = "";
};

const std::vector<Row>& Parallelism() {
  static const std::vector<Row> rows = {
      {"account-for-embedding-in-pipeline-split", Arity::kNone, "",
       "another split of layers; give --pipeline-model-parallel-layout"},
      {"account-for-loss-in-pipeline-split", Arity::kNone, "",
       "another split of layers; give --pipeline-model-parallel-layout"},
      {"pipeline-model-parallel-split-rank", Arity::kOne, "", "encoder and decoder stages"},
      {"defer-embedding-wgrad-compute", Arity::kNone, "", "deferred gradients of a pipeline"},
      {"standalone-embedding-stage", Arity::kNone, "", "pipeline stages"},
      {"context-parallel-size", Arity::kOne, "1", "context parallelism", "cp"},
      {"expert-model-parallel-size", Arity::kOne, "1", "expert parallelism", "ep"},
      {"expert-tensor-parallel-size", Arity::kOne, "1", "expert parallelism", "etp"},
      {"encoder-tensor-model-parallel-size", Arity::kOne, "0", "a layout of an encoder"},
      {"encoder-pipeline-model-parallel-size", Arity::kOne, "0", "a layout of an encoder"},
      {"delay-grad-reduce", Arity::kNone, "", "bucketed, asynchronous gradient reduction"},
      {"overlap-param-gather-with-optimizer-step", Arity::kNone, "", "asynchronous gathers"},
      {"delay-param-gather", Arity::kNone, "", "asynchronous parameter gathers"},
      {"no-gradient-reduce-div-fusion", Arity::kNone, "", "another placing of the division by dp"},
      {"enable-full-sharding-in-hsdp", Arity::kNone, "", "sharding over optimizer instances"},
      {"outer-dp-sharding-strategy", Arity::kOne, "no_shard", "sharding over optimizer instances"},
      {"use-torch-fsdp2", Arity::kNone, "", "fully sharded data parallelism"},
      {"tp-comm-overlap", Arity::kNone, "", "matrix products split to overlap communication"},
      {"recompute-activations", Arity::kNone, "", "recomputation of parts of a layer"},
      {"cpu-offloading-num-layers", Arity::kOne, "0", "activations moved off the device"},
      {"data-parallel-random-init", Arity::kNone, "", "different weights on data-parallel ranks"},
  };
  return rows;
}

const std::vector<Row>& Precision() {
  static const std::vector<Row> rows = {
      {"fp32-residual-connection", Arity::kNone, "", "another dtype of the residual stream"},
      {"fp16-lm-cross-entropy", Arity::kNone, "", "another dtype of the loss"},
      {"ddp-reduce-scatter-with-fp32-accumulation", Arity::kNone, "",
       "sums of gradients in another dtype than they travel in"},
      {"fp8-format", Arity::kOne, "", "8-bit matrix products"},
      {"fp8-e4m3", Arity::kNone, "", "8-bit matrix products"},
      {"fp8-hybrid", Arity::kNone, "", "8-bit matrix products"},
      {"fp4-format", Arity::kOne, "", "4-bit matrix products"},
      {"loss-scale", Arity::kOne, "1", "a loss scale"},
      {"apply-query-key-layer-scaling", Arity::kNone, "", "scores scaled by layer"},
      {"use-precision-aware-optimizer", Arity::kNone, "", "optimizer state in low precision"},
      {"kitchen-config-file", Arity::kOne, "", "quantised layers"},
      {"kitchen-recipe-number", Arity::kOne, "", "quantised layers"},
      {"te-precision-config-file", Arity::kOne, "", "quantised layers"},
      {"optimizer-cpu-offload", Arity::kNone, "", "optimizer state moved off the device"},
  };
  return rows;
}

const std::vector<Row>& Schedules() {
  static const std::vector<Row> rows = {
      {"lr-decay-style", Arity::kOne, "constant", "a learning rate that changes"},
      {"lr-warmup-fraction", Arity::kOne, "0", "a learning rate that changes"},
      {"lr-warmup-iters", Arity::kOne, "0", "a learning rate that changes"},
      {"lr-warmup-samples", Arity::kOne, "0", "a learning rate that changes"},
      {"decoupled-lr", Arity::kOne, "", "another learning rate for embeddings"},
      {"start-weight-decay", Arity::kOne, "", "a weight decay that changes"},
      {"end-weight-decay", Arity::kOne, "", "a weight decay that changes"},
      {"weight-decay-incr-style", Arity::kOne, "constant", "a weight decay that changes"},
      {"rampup-batch-size", Arity::kAny, "", "a batch size that grows"},
      {"train-samples", Arity::kOne, "", "the number of steps; give --train-iters"},
      {"iterations-to-skip", Arity::kSome, "", "steps that are left out"},
      {"skip-train", Arity::kNone, "", "no training at all"},
      {"error-injection-rate", Arity::kOne, "0", "injected errors"},
      {"load", Arity::kOne, "", "weights from a checkpoint"},
      {"pretrained-checkpoint", Arity::kOne, "", "weights from a checkpoint"},
      {"no-initialization", Arity::kNone, "", "weights that are not set"},
      {"embedding-init-method-std", Arity::kOne, "", "other initial embeddings and their decay"},
      {"init-method-xavier-uniform", Arity::kNone, "", "other initial weights"},
      {"yaml-cfg", Arity::kOne, "", "arguments in a file; give --config FILE.toml"},
      {"sft", Arity::kNone, "", "another data set and loss mask"},
      {"perform-rl-step", Arity::kNone, "", "another kind of training"},
      {"dump-param-to-param-group-map", Arity::kOne, "", "optimizer parameter groups"},
      {"batch-size", Arity::kOne, "", "nothing in Megatron any more; give --micro-batch-size"},
      {"warmup", Arity::kOne, "", "nothing in Megatron any more"},
      {"model-parallel-size", Arity::kOne, "",
       "nothing in Megatron any more; give --tensor-model-parallel-size"},
      {"checkpoint-activations", Arity::kNone, "", "nothing in Megatron any more"},
  };
  return rows;
}

const std::vector<Row>& Models() {
  static const std::vector<Row> rows = {
      {"num-experts", Arity::kOne, "0", "mixture of experts"},
      {"encoder-num-layers", Arity::kOne, "", "an encoder; give --num-layers"},
      {"decoder-num-layers", Arity::kOne, "", "an encoder and a decoder; give --num-layers"},
      {"encoder-seq-length", Arity::kOne, "", "an encoder; give --seq-length"},
      {"multi-latent-attention", Arity::kNone, "", "another attention"},
      {"softmax-type", Arity::kOne, "vanilla", "another softmax"},
      {"window-size", Arity::kOne, "", "windowed attention"},
      {"no-rope-freq", Arity::kOne, "", "layers without rotation"},
      {"rope-type", Arity::kOne, "rope", "another rotation"},
      {"qk-layernorm", Arity::kNone, "", "norms on queries and keys"},
      {"qk-l2-norm", Arity::kNone, "", "norms on queries and keys"},
      {"qk-clip", Arity::kNone, "", "clipped queries and keys"},
      {"attention-output-gate", Arity::kNone, "", "a gate on attention"},
      {"apply-layernorm-1p", Arity::kNone, "", "norm weights stored less one"},
      {"apply-residual-connection-post-layernorm", Arity::kNone, "", "another residual"},
      {"openai-gelu", Arity::kNone, "", "another activation"},
      {"quick-geglu", Arity::kNone, "", "another activation"},
      {"glu-linear-offset", Arity::kOne, "0", "another activation"},
      {"mtp-num-layers", Arity::kOne, "0", "further prediction layers"},
      {"padded-vocab-size", Arity::kOne, "", "rows of the embedding; see --vocab-padding"},
      {"heterogeneous-layers-config-path", Arity::kOne, "", "layers that differ"},
      {"heterogeneous-layers-config-encoded-json", Arity::kOne, "", "layers that differ"},
      {"retro-add-retriever", Arity::kNone, "", "a retriever"},
      {"vision-pretraining", Arity::kNone, "", "another model"},
      {"spec", Arity::kAny, "", "a model of its own"},
      {"is-hybrid-model", Arity::kNone, "", "state-space layers"},
      {"hybrid-attention-ratio", Arity::kOne, "0", "state-space layers"},
      {"hybrid-mlp-ratio", Arity::kOne, "0", "state-space layers"},
      {"hybrid-override-pattern", Arity::kOne, "", "state-space layers"},
      {"use-legacy-models", Arity::kNone, "", "Megatron's former model code"},
      {"no-weight-decay-cond-type", Arity::kOne, "", "another choice of decayed weights"},
  };
  return rows;
}

}  // namespace

std::vector<Argument> RefusedArguments() {
  std::vector<Argument> arguments;
  for (const std::vector<Row>& part : {Parallelism(), Precision(), Schedules(), Models()}) {
    for (const Row& row : part) {
      Argument argument;
      argument.name = row.name;
      argument.arity = row.arity;
      argument.alias = row.alias;
      argument.kind = ArgumentClass::kRefused;
      argument.note = row.reason;
      argument.neutral = row.neutral;
      arguments.push_back(argument);
    }
  }
  return arguments;
}

}  // namespace plumbline::internal
