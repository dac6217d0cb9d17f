// Arguments of Megatron-LM without effect on what is compared.
//
// Three reasons: how a run is watched, stored or made fast; where data come from, which --data
// settles here; and settings of a feature whose own switch is refused or absent ("acts only with
// ...").
#include "cli/arguments.h"

namespace plumbline::internal {
namespace {

struct Block {
  const char* why;
  Arity arity;
  std::vector<const char*> names;
};

std::vector<Block> Watching() {
  const char* const why = "logging, timing and checks of health";
  return {
      {why,
       Arity::kNone,
       {"log-params-norm",
        "log-num-zeros-in-grad",
        "log-throughput",
        "log-progress",
        "log-energy",
        "no-barrier-with-level-1-timing",
        "log-timers-to-tensorboard",
        "log-batch-size-to-tensorboard",
        "no-log-learnig-rate-to-tensorboard",
        "no-log-learning-rate-to-tensorboard",
        "no-log-loss-scale-to-tensorboard",
        "log-validation-ppl-to-tensorboard",
        "log-memory-to-tensorboard",
        "log-world-size-to-tensorboard",
        "log-straggler",
        "disable-straggler-on-startup",
        "run-workload-inspector-server",
        "no-one-logger",
        "enable-one-logger",
        "one-logger-async",
        "enable-ft-package",
        "calc-ft-timeouts",
        "profile",
        "use-pytorch-profiler",
        "record-memory-history",
        "no-check-for-nan-in-loss-and-grad",
        "check-for-nan-in-loss-and-grad",
        "check-for-spiky-loss",
        "check-for-large-grads",
        "moe-per-layer-logging",
        "test-mode",
        "adlr-autoresume",
        "inprocess-restart",
        "inprocess-empty-cuda-cache",
        "log-max-attention-logit"}},
  };
}

std::vector<Block> WatchingWithValues() {
  const char* const why = "logging, timing and checks of health";
  const char* const schedule = "when a run is evaluated or ends";
  return {
      {why,
       Arity::kOne,
       {"log-interval",
        "timing-log-level",
        "timing-log-option",
        "tensorboard-log-interval",
        "tensorboard-queue-size",
        "tensorboard-dir",
        "wandb-project",
        "wandb-entity",
        "wandb-exp-name",
        "wandb-save-dir",
        "logging-level",
        "straggler-ctrlr-port",
        "straggler-minmax-count",
        "one-logger-project",
        "one-logger-entity",
        "one-logger-run-name",
        "app-tag-run-name",
        "app-tag-run-version",
        "config-logger-dir",
        "profile-step-start",
        "profile-step-end",
        "memory-snapshot-path",
        "check-weight-hash-across-dp-replicas-interval",
        "adlr-autoresume-interval",
        "rerun-mode",
        "error-injection-type",
        "result-rejected-tracker-filename",
        "inprocess-max-iterations",
        "inprocess-monitor-thread-interval",
        "inprocess-monitor-process-interval",
        "inprocess-progress-watchdog-interval",
        "inprocess-heartbeat-interval",
        "inprocess-soft-timeout",
        "inprocess-hard-timeout",
        "inprocess-heartbeat-timeout",
        "inprocess-barrier-timeout",
        "inprocess-completion-timeout",
        "inprocess-last-call-wait",
        "inprocess-termination-grace-time",
        "inprocess-granularity",
        "inprocess-active-world-size",
        "train-sync-interval",
        "inference-wandb-logging-step-interval"}},
      {why, Arity::kSome, {"profile-ranks"}},
      {schedule,
       Arity::kNone,
       {"full-validation", "multiple-validation-sets", "exit-signal-handler",
        "exit-on-missing-checkpoint"}},
      {schedule,
       Arity::kOne,
       {"eval-iters", "eval-interval", "exit-interval", "exit-duration-in-mins"}},
  };
}

std::vector<Block> Storing() {
  const char* const saving = "saving checkpoints";
  const char* const loading = "acts only with --load";
  return {
      {saving,
       Arity::kNone,
       {"no-save-optim", "no-save-rng", "use-dist-ckpt", "use-persistent-ckpt-worker",
        "ckpt-convert-update-legacy-dist-opt-format", "ckpt-fully-parallel-save",
        "no-ckpt-fully-parallel-save", "async-save", "ckpt-assume-constant-structure",
        "dist-ckpt-save-pre-mcore-014", "dist-ckpt-optim-fully-reshardable",
        "distrib-optim-fully-reshardable-mem-efficient", "replication"}},
      {saving,
       Arity::kOne,
       {"save", "save-interval", "persistent-save-interval", "save-retain-interval",
        "non-persistent-save-interval", "non-persistent-ckpt-type",
        "non-persistent-global-ckpt-dir", "non-persistent-local-ckpt-dir",
        "non-persistent-local-ckpt-algo", "dist-ckpt-format", "ckpt-format", "ckpt-convert-format",
        "ckpt-convert-save", "replication-jump", "replication-factor"}},
      {loading,
       Arity::kNone,
       {"no-load-optim", "no-load-rng", "load-main-params-from-ckpt", "no-strict-fsdp-dtensor-load",
        "finetune", "use-checkpoint-args", "use-mp-args-from-checkpoint-args",
        "no-use-tokenizer-model-from-checkpoint-args", "auto-detect-ckpt-format",
        "ckpt-fully-parallel-load", "override-opt_param-scheduler", "override-opt-param-scheduler",
        "use-checkpoint-opt_param-scheduler", "use-checkpoint-opt-param-scheduler",
        "override-lr-scheduler", "use-checkpoint-lr-scheduler"}},
      {loading, Arity::kOne, {"ckpt-step", "dist-ckpt-strictness"}},
  };
}

std::vector<Block> Speed() {
  const char* const why = "which kernel, library or memory does the same arithmetic";
  return {
      {why,
       Arity::kNone,
       {"no-masked-softmax-fusion",
        "no-bias-swiglu-fusion",
        "no-bias-dropout-fusion",
        "no-rope-fusion",
        "cross-entropy-loss-fusion",
        "use-flash-attn",
        "no-async-tensor-model-parallel-allreduce",
        "no-persist-layer-norm",
        "no-gradient-accumulation-fusion",
        "use-mcore-models",
        "use-te-activation-func",
        "manual-gc",
        "no-manual-gc-eval",
        "disable-gloo-process-groups",
        "enable-gloo-process-groups",
        "use-cpu-initialization",
        "deterministic-mode",
        "no-clone-scatter-output-in-embedding",
        "te-rng-tracker",
        "inference-rng-tracker",
        "use-nccl-ub",
        "disable-symmetric-registration",
        "use-sharp",
        "disable-msc",
        "enable-cuda-graph",
        "external-cuda-graph",
        "no-scatter-gather-tensors-in-pipeline",
        "use-ring-exchange-p2p",
        "no-overlap-p2p-communication",
        "init-model-with-meta-device",
        "enable-experimental",
        "decrease-batch-size-if-needed",
        "no-pin-cpu-grads",
        "no-pin-cpu-params",
        "disable-tp-comm-overlap-ag",
        "disable-tp-comm-overlap-rs",
        "disable-tp-comm-bulk-dgrad",
        "disable-tp-comm-bulk-wgrad",
        "disable-tp-comm-split-ag",
        "disable-tp-comm-split-rs"}},
      {why,
       Arity::kOne,
       {"attention-backend", "cross-entropy-fusion-impl", "transformer-impl", "manual-gc-interval",
        "empty-unused-memory-level", "distributed-backend", "distributed-timeout-minutes",
        "distributed-timeout-seconds-after-init", "local-rank", "lazy-mpu-init", "onnx-safe",
        "pipeline-model-parallel-comm-backend", "nccl-communicator-config-path",
        "sharp-enabled-group", "cuda-graph-impl", "cuda-graph-scope", "cuda-graph-warmup-steps",
        "tp-comm-bootstrap-backend", "tp-comm-overlap-cfg"}},
      {why, Arity::kAny, {"high-priority-stream-groups"}},
  };
}

std::vector<Block> Data() {
  const char* const why = "tokens come from --data, loss mask and documents from --seed";
  return {
      {why,
       Arity::kNone,
       {"no-mmap-bin-files", "mock-data", "eod-mask-loss", "no-create-attention-mask-in-dataloader",
        "allow-ambiguous-pad-tokens", "legacy-tokenizer", "trust-remote-code"}},
      {why,
       Arity::kOne,
       {"split", "data-args-path", "per-split-data-args-path", "data-cache-path", "num-workers",
        "num-dataset-builder-threads", "object-storage-cache-path", "s3-cache-path",
        "mid-level-dataset-surplus", "dataloader-type", "vocab-file", "merge-file",
        "tokenizer-type", "tokenizer-model", "tokenizer-metadata", "tiktoken-pattern",
        "tiktoken-num-special-tokens", "sft-tokenizer-prompt-format"}},
      {why, Arity::kSome, {"tiktoken-special-tokens"}},
      {why, Arity::kAny, {"data-path", "train-data-path", "valid-data-path", "test-data-path"}},
  };
}

std::vector<Block> Precision() {
  const char* const low = "sums and softmax are in fp32 whatever the dtype";
  const char* const eight = "acts only with --fp8-format or --fp4-format";
  const char* const schedule = "acts only with a learning rate that decays";
  return {
      {low,
       Arity::kNone,
       {"attention-softmax-in-fp32", "disable-bf16-reduced-precision-matmul",
        "no-query-key-layer-scaling"}},
      {"acts only with a loss scale, which --fp16 here has not",
       Arity::kOne,
       {"initial-loss-scale", "min-loss-scale", "loss-scale-window", "hysteresis"}},
      {eight,
       Arity::kNone,
       {"no-fp8-wgrad", "fp8-param-gather", "fp4-param-gather", "first-last-layers-bf16",
        "keep-fp8-transpose-cache", "reuse-grad-buf-for-mxfp8-param-ag"}},
      {eight,
       Arity::kOne,
       {"fp8-recipe", "fp8-quantizer-factory", "fp8-margin", "fp8-interval", "fp8-amax-history-len",
        "fp8-amax-compute-algo", "fp4-recipe", "fp4-quantizer-factory",
        "num-layers-at-start-in-bf16", "num-layers-at-end-in-bf16"}},
      {schedule,
       Arity::kOne,
       {"min-lr", "lr-decay-iters", "lr-decay-samples", "lr-wsd-decay-style", "lr-wsd-decay-iters",
        "lr-wsd-decay-samples"}},
      {"acts only with warm-up", Arity::kOne, {"lr-warmup-init"}},
      {"acts only with --decoupled-lr", Arity::kOne, {"decoupled-min-lr"}},
      {"acts only with --optimizer muon", Arity::kNone, {"muon-no-split-qkv", "muon-use-nesterov"}},
      {"acts only with --optimizer muon",
       Arity::kOne,
       {"muon-momentum", "muon-scale-mode", "muon-fp32-matmul-prec", "muon-num-ns-steps",
        "muon-tp-mode", "muon-extra-scale-factor"}},
  };
}

std::vector<Block> Parallelism() {
  const char* const pipeline = "acts only with --pipeline-model-parallel-size above 1";
  const char* const sharded = "how --use-megatron-fsdp uses its memory";
  const char* const context = "acts only with --context-parallel-size above 1";
  const char* const recompute = "with --recompute-granularity full nothing but the order of work";
  const char* const offload = "acts only with --optimizer-cpu-offload";
  return {
      {pipeline,
       Arity::kNone,
       {"overlap-p2p-communication-warmup-flush", "no-align-grad-reduce", "no-align-param-gather"}},
      {"acts only with --defer-embedding-wgrad-compute", Arity::kOne, {"wgrad-deferral-limit"}},
      {sharded, Arity::kNone, {"fsdp-double-buffer"}},
      {sharded, Arity::kOne, {"suggested-communication-unit-size"}},
      {"acts only with --use-torch-fsdp2", Arity::kNone, {"torch-fsdp2-no-reshard-after-forward"}},
      {context, Arity::kSome, {"cp-comm-type", "hierarchical-context-parallel-sizes"}},
      {recompute, Arity::kNone, {"distribute-saved-activations"}},
      {recompute, Arity::kOne, {"recompute-method", "recompute-num-layers"}},
      {recompute, Arity::kAny, {"recompute-modules"}},
      {"acts only with --tp-comm-overlap", Arity::kNone, {"tp-comm-overlap-rs-dgrad"}},
      {offload,
       Arity::kNone,
       {"use-torch-optimizer-for-cpu-offload", "overlap-cpu-optimizer-d2h-h2d"}},
      {offload, Arity::kOne, {"optimizer-offload-fraction"}},
      {"acts only with --use-precision-aware-optimizer",
       Arity::kOne,
       {"main-grads-dtype", "main-params-dtype", "exp-avg-dtype", "exp-avg-sq-dtype"}},
  };
}

std::vector<Block> Experts() {
  const char* const experts = "acts only with --num-experts";
  return {
      {experts,
       Arity::kNone,
       {"moe-shared-expert-overlap", "moe-grouped-gemm", "moe-use-legacy-grouped-gemm",
        "moe-layer-recompute", "moe-extended-tp", "moe-use-upcycling", "moe-router-fusion",
        "moe-router-pre-softmax", "moe-router-enable-expert-bias",
        "moe-router-force-load-balancing", "moe-router-padding-for-fp8", "moe-enable-deepep",
        "moe-permute-fusion", "moe-pad-expert-input-to-capacity", "moe-apply-probs-on-input",
        "overlap-moe-expert-parallel-comm", "delay-wgrad-compute",
        "moe-pad-experts-for-cuda-graph-inference", "use-fused-weighted-squared-relu"}},
      {experts,
       Arity::kOne,
       {"moe-layer-freq", "moe-ffn-hidden-size", "moe-shared-expert-intermediate-size",
        "moe-router-dtype", "moe-router-score-function", "moe-router-topk", "moe-router-num-groups",
        "moe-router-group-topk", "moe-router-topk-limited-devices",
        "moe-router-topk-scaling-factor", "moe-router-bias-update-rate", "moe-z-loss-coeff",
        "moe-input-jitter-eps", "moe-token-dispatcher-type", "moe-deepep-num-sms",
        "moe-expert-capacity-factor", "moe-token-drop-policy", "moe-upcycling-granularity"}},
      {experts, Arity::kSome, {"moe-router-load-balancing-type", "moe-aux-loss-coeff"}},
  };
}

std::vector<Block> OtherModels() {
  const char* const latent = "acts only with --multi-latent-attention";
  const char* const hybrid = "acts only with --is-hybrid-model";
  return {
      {latent,
       Arity::kOne,
       {"q-lora-rank", "kv-lora-rank", "qk-head-dim", "qk-pos-emb-head-dim", "v-head-dim",
        "rotary-scaling-factor", "mscale", "mscale-all-dim"}},
      {latent, Arity::kNone, {"cache-mla-latents"}},
      {"acts only with --mtp-num-layers", Arity::kOne, {"mtp-loss-scaling-factor"}},
      {"acts only with --window-size", Arity::kOne, {"window-attn-skip-freq"}},
      {"acts only with relative positions",
       Arity::kOne,
       {"relative-attention-num-buckets", "relative-attention-max-distance"}},
      {"acts only with --position-embedding-type mrope", Arity::kSome, {"mrope-section"}},
      {"acts only with --quick-geglu", Arity::kOne, {"activation-func-clamp-value"}},
      {hybrid,
       Arity::kOne,
       {"mamba-state-dim", "mamba-head-dim", "mamba-num-groups", "mamba-num-heads"}},
      {hybrid, Arity::kNone, {"disable-mamba-mem-eff-path"}},
  };
}

std::vector<Block> OtherRuns() {
  const char* const rl = "acts only with --perform-rl-step";
  const char* const inference = "inference";
  return {
      {rl,
       Arity::kNone,
       {"grpo-filter-groups-with-same-reward", "langrl-external-server",
        "no-langrl-external-server", "rl-offload-optimizer-during-inference",
        "rl-offload-kv-cache-during-training", "rl-remove-kv-cache-during-training",
        "rl-reset-cuda-graphs", "rl-partial-rollouts", "rl-inference-logprobs-is-correction",
        "rl-calculate-intra-group-similarity", "rl-use-sequence-packing"}},
      {rl,
       Arity::kOne,
       {"rl-prompts-per-eval", "grpo-prompts-per-step", "grpo-group-size", "grpo-iterations",
        "grpo-clamp-eps-lower", "grpo-clamp-eps-upper", "grpo-kl-beta", "grpo-entropy-term-weight",
        "grpo-default-temperature", "grpo-default-top-p", "langrl-inference-server-type",
        "langrl-inference-server-conversation-template", "langrl-env-config",
        "rl-importance-sampling-truncation-coef", "rl-sequence-packing-bin-size",
        "rl-sequence-packing-algo"}},
      {inference,
       Arity::kNone,
       {"output-bert-embeddings", "flash-decode", "use-legacy-static-engine",
        "inference-dynamic-batching", "inference-dynamic-batching-track-paused-request-events",
        "decode-only-cuda-graphs", "nccl-all-reduce-for-prefill", "disable-chunked-prefill"}},
      {inference,
       Arity::kOne,
       {"inference-batch-times-seqlen-threshold", "max-tokens-to-oom", "bert-embedder-type",
        "inference-max-requests", "inference-max-seq-length", "inference-max-batch-size",
        "inference-dynamic-batching-buffer-size-gb", "inference-dynamic-batching-block-size",
        "inference-dynamic-batching-buffer-guaranteed-fraction",
        "inference-dynamic-batching-buffer-overflow-factor",
        "inference-dynamic-batching-max-requests-override",
        "inference-dynamic-batching-max-tokens-override",
        "inference-dynamic-batching-num-cuda-graphs",
        "inference-dynamic-batching-unified-memory-level", "symmetric-ar-type",
        "mlp-chunks-for-prefill"}},
  };
}

std::vector<Block> OtherPrograms() {
  const char* const why = "settings of BERT, T5, retrieval and vision programs";
  return {
      {why,
       Arity::kNone,
       {"bert-no-binary-head", "biencoder-shared-query-context-model", "use-one-sent-docs",
        "retriever-score-scaling", "no-data-sharding", "dino-norm-last-layer",
        "retro-no-verify-neighbor-count"}},
      {why,
       Arity::kOne,
       {"decoder-seq-length",
        "retriever-seq-length",
        "sample-rate",
        "mask-prob",
        "short-seq-prob",
        "vocab-extra-ids",
        "ict-head-size",
        "biencoder-projection-dim",
        "ict-load",
        "bert-load",
        "titles-data-path",
        "query-in-block-prob",
        "evidence-data-path",
        "block-data-path",
        "embedding-path",
        "indexer-batch-size",
        "indexer-log-interval",
        "num-classes",
        "img-h",
        "img-w",
        "num-channels",
        "patch-dim",
        "classes-fraction",
        "data-per-class-fraction",
        "head-lr-mult",
        "vision-pretraining-type",
        "vision-backbone-type",
        "swin-backbone-type",
        "mask-type",
        "mask-factor",
        "iter-per-epoch",
        "dino-local-img-size",
        "dino-local-crops-number",
        "dino-head-hidden-size",
        "dino-bottleneck-size",
        "dino-freeze-last-layer",
        "dino-warmup-teacher-temp",
        "dino-teacher-temp",
        "dino-warmup-teacher-temp-epochs",
        "retro-project-dir",
        "retro-cyclic-train-iters",
        "retro-encoder-layers",
        "retro-encoder-hidden-dropout",
        "retro-encoder-attention-dropout",
        "retro-num-neighbors",
        "retro-num-retrieved-chunks",
        "retro-attention-gate"}},
      {why, Arity::kSome, {"retriever-report-topk-accuracies"}},
  };
}

}  // namespace

std::vector<Argument> IgnoredArguments() {
  std::vector<Argument> arguments;
  for (const std::vector<Block>& part :
       {Watching(), WatchingWithValues(), Storing(), Speed(), Data(), Precision(), Parallelism(),
        Experts(), OtherModels(), OtherRuns(), OtherPrograms()}) {
    for (const Block& block : part) {
      for (const char* name : block.names) {
        Argument argument;
        argument.name = name;
        argument.arity = block.arity;
        argument.kind = ArgumentClass::kIgnored;
        argument.note = block.why;
        arguments.push_back(argument);
      }
    }
  }
  return arguments;
}

}  // namespace plumbline::internal
