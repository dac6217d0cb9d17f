// What a run follows. Ours are marked; every other name is Megatron-LM's.
#include "cli/arguments.h"

namespace plumbline::internal {
namespace {

struct Row {
  const char* name;
  const char* alias;
  const char* value;  // empty: a flag
  const char* help;
};

struct Section {
  const char* group;
  std::vector<Row> rows;
};

const std::vector<Section>& Layout() {
  static const std::vector<Section> sections = {
      {"Layout",
       {
           {"tensor-model-parallel-size", "tp", "N", "tensor-parallel ranks"},
           {"sequence-parallel", "sp", "", "split the sequence outside of the matrix products"},
           {"data-parallel-size", "dp", "N", "data-parallel ranks (ours; Megatron derives it)"},
           {"world-size", "", "N", "all ranks, instead of --dp (ours)"},
           {"order", "", "AXES", "rank order, fastest axis first; tp-cp-ep-dp-pp (ours)"},
           {"use-tp-pp-dp-mapping", "", "", "the order tp-cp-ep-pp-dp"},
           {"gqa-policy", "", "gather_qkv|replicate_kv",
            "with fewer query groups than tensor-parallel ranks (ours)"},
       }},
      {"Pipeline",
       {
           {"pipeline-model-parallel-size", "pp", "N", "pipeline stages"},
           {"schedule", "", "NAME",
            "naive|gpipe|1f1b|interleaved|zb-h1|zb-h2; what Megatron chooses (ours)"},
           {"num-virtual-stages-per-pipeline-rank", "virtual", "N", "model chunks of a stage"},
           {"num-layers-per-virtual-pipeline-stage", "", "N", "the same by layers of a chunk"},
           {"microbatch-group-size-per-virtual-pipeline-stage", "", "N",
            "microbatches a chunk takes in a row; --pp"},
           {"pipeline-model-parallel-layout", "", "TEXT",
            "every stage's chunks, as \"Et*3|t*4|t*4|tL\""},
           {"decoder-first-pipeline-num-layers", "", "N", "layers of the first stage"},
           {"decoder-last-pipeline-num-layers", "", "N", "layers of the last stage"},
           {"recompute-granularity", "", "full",
            "keep a layer's input alone, and compute the rest again in the backward"},
       }},
      {"Program",
       {
           {"data", "", "FILE", "any file: its bytes, modulo the vocabulary, are the tokens"},
           {"config", "", "FILE.toml", "the same arguments in a file; the command line wins"},
           {"dtype", "", "f64|f32|bf16|f16|exact",
            "what the ranks compute in; exact: a prime field (ours)"},
           {"prime", "", "m61|p50|N", "of --dtype exact: 2^61 - 1, about 2^50, or any below 2^31"},
           {"keys", "", "N", "independent runs of --dtype exact"},
           {"policy", "", "round_robin|random", "which rank runs next"},
           {"schedule-seed", "", "N", "seed of --policy random; implies it"},
           {"on-mismatch", "", "stop|continue",
            "stop at the first collective that ranks disagree about, or go on as NCCL would"},
           {"plant", "", "NAME", "plant a known mistake (`plumbline plants` lists them)"},
           {"max-findings", "", "N", "how many findings are listed"},
           {"json", "", "", "one JSON object instead of text (docs/json.md)"},
           {"timings", "", "", "add wall times, which differ from run to run"},
       }},
  };
  return sections;
}

const std::vector<Section>& DataParallelism() {
  static const std::vector<Section> sections = {
      {"Data parallelism",
       {
           {"use-distributed-optimizer", "", "",
            "share master weights and moments out over data-parallel ranks"},
           {"overlap-grad-reduce", "", "",
            "reduce gradients bucket by bucket, while the backward goes on"},
           {"overlap-param-gather", "", "",
            "gather updated weights bucket by bucket, while the next forward goes on"},
           {"ddp-bucket-size", "", "N", "elements of a bucket; max(40000000, 1000000 * dp)"},
           {"ddp-num-buckets", "", "N", "buckets of a rank, instead of their size"},
           {"ddp-average-in-collective", "", "", "divide in the collective, not before it"},
           {"ddp-pad-buckets-for-high-nccl-busbw", "", "", "bucket ends at multiples of 2^16"},
           {"num-distributed-optimizer-instances", "", "N",
            "sets of ranks that share the optimizer's state out, each all of it; 1"},
           {"use-megatron-fsdp", "use-custom-fsdp", "",
            "share out what --data-parallel-sharding-strategy says"},
           {"data-parallel-sharding-strategy", "", "NAME",
            "no_shard|optim|optim_grads|optim_grads_params"},
       }},
      {"Precision",
       {
           {"bf16", "", "", "weights and activations in bf16, master weights and moments in fp32"},
           {"fp16", "", "", "the same in fp16; without loss scaling"},
           {"accumulate-allreduce-grads-in-fp32", "", "",
            "main gradients in fp32; with --bf16 without saying so"},
           {"grad-reduce-in-bf16", "", "", "main gradients in bf16"},
       }},
  };
  return sections;
}

const std::vector<Section>& Model() {
  static const std::vector<Section> sections = {
      {"Model",
       {
           {"num-layers", "", "N", "transformer layers"},
           {"hidden-size", "", "N", "width of the residual stream"},
           {"ffn-hidden-size", "", "N",
            "width of the MLP; 4 * hidden size, with --swiglu 8/3 of it rounded down to 64s"},
           {"num-attention-heads", "", "N", "query heads"},
           {"group-query-attention", "", "", "share key and value heads"},
           {"num-query-groups", "", "N",
            "key and value heads; as in Megatron only with --group-query-attention"},
           {"kv-channels", "", "N", "channels of a head; hidden size / heads"},
           {"seq-length", "", "N", "tokens of a sample"},
           {"vocab-size", "", "N", "tokens that exist"},
           {"make-vocab-size-divisible-by", "", "128", "under --vocab-padding megatron"},
           {"vocab-padding", "", "masked|megatron",
            "padded logits are skipped, or take part (ours)"},
           {"swiglu", "", "", "SwiGLU instead of GELU"},
           {"squared-relu", "", "", "squared ReLU instead of GELU"},
           {"no-bias-gelu-fusion", "", "",
            "the erf form of GELU; else with a bias the tanh form, as Megatron's fused kernel"},
           {"normalization", "", "LayerNorm|RMSNorm", "the norms"},
           {"norm-epsilon", "layernorm-epsilon", "X", "under the norms' square root"},
           {"disable-bias-linear", "", "", "no biases in linear layers"},
           {"add-qkv-bias", "", "", "a bias on linear_qkv even so"},
           {"untie-embeddings-and-output-weights", "", "", "an output weight of its own"},
           {"init-method-std", "", "X", "standard deviation of initial weights"},
           {"hidden-dropout", "", "P", "on embeddings and before residual additions"},
           {"attention-dropout", "", "P", "on attention probabilities"},
           {"label-smoothing", "", "P", "over the whole vocabulary (ours)"},
       }},
      {"Positions",
       {
           {"position-embedding-type", "", "learned_absolute|rope|none", "how positions enter"},
           {"max-position-embeddings", "", "N", "learned positions; the sequence length"},
           {"use-rotary-position-embeddings", "", "", "--position-embedding-type rope"},
           {"no-position-embedding", "", "", "accepted with rope, as in Megatron"},
           {"rotary-percent", "", "P", "share of a head's channels that rotates"},
           {"rotary-base", "", "X", "base of the frequencies"},
           {"rotary-interleaved", "", "", "rotate neighbours instead of halves"},
           {"rotary-seq-len-interpolation-factor", "", "X", "divide all frequencies"},
           {"use-rope-scaling", "", "", "Llama 3's scaling of frequencies"},
           {"rope-scaling-factor", "", "X", "its factor, 8"},
       }},
  };
  return sections;
}

const std::vector<Section>& Training() {
  static const std::vector<Section> sections = {
      {"Training",
       {
           {"train-iters", "", "N", "steps"},
           {"micro-batch-size", "", "N", "samples of a microbatch"},
           {"global-batch-size", "", "N",
            "samples of a step; 3 microbatches for each data-parallel rank"},
           {"seed", "", "N", "of weights, dropout, loss mask and documents"},
           {"optimizer", "", "adam|sgd", "the optimizer"},
           {"lr", "", "X", "learning rate, constant"},
           {"weight-decay", "", "X", "decoupled, on weights of two dimensions"},
           {"clip-grad", "", "X", "largest gradient norm; 0 turns clipping off"},
           {"adam-beta1", "", "X", "decay of the first moment"},
           {"adam-beta2", "", "X", "decay of the second moment"},
           {"adam-eps", "", "X", "added to the root of the second moment"},
           {"sgd-momentum", "", "X", "momentum of SGD"},
           {"calculate-per-token-loss", "", "",
            "divide by the step's valid tokens, not per microbatch"},
           {"loss-mask-keep", "", "P", "chance that a label counts (ours)"},
           {"packed-documents", "", "", "several documents in a sample (ours; the default)"},
           {"no-packed-documents", "", "", "one document a sample (ours)"},
           {"reset-position-ids", "", "",
            "with --reset-attention-mask: packed documents, Megatron's names"},
           {"reset-attention-mask", "", "", "see --reset-position-ids"},
       }},
  };
  return sections;
}

}  // namespace

std::vector<Argument> ModelledArguments() {
  std::vector<Argument> arguments;
  for (const std::vector<Section>& part : {Layout(), DataParallelism(), Model(), Training()}) {
    for (const Section& section : part) {
      for (const Row& row : section.rows) {
        Argument argument;
        argument.name = row.name;
        argument.alias = row.alias;
        argument.arity = row.value[0] == '\0' ? Arity::kNone : Arity::kOne;
        argument.group = section.group;
        argument.value = row.value;
        argument.note = row.help;
        arguments.push_back(argument);
      }
    }
  }
  return arguments;
}

}  // namespace plumbline::internal
