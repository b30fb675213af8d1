#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/cluster_config.h"
#include "config/diagnostics.h"
#include "config/map_reader.h"
#include "config/model_config.h"

namespace simurgh {

inline constexpr uint32_t kMaxLayerWidth = 65'536;

// Reads a list of layers under `key`. A layer without parameters is a word, one with parameters a
// mapping of one key. fallback: describes the layers that an absent key stands for; empty: the key
// is required, and the reference lists the keys of an element.
void ReadLayers(MapReader& in, const std::string& key, const char* meaning,
                const std::string& fallback, std::vector<LayerConfig>* layers, size_t fewest = 1);

// A model by its name, given in YAML instead of `model.towers`. The last layers lack the logit.
struct ModelShorthand {
  enum class Kind {
    kNone,
    kDlrm,
    kDcnV2,
    kDeepFm,
    kWideDeep,
    kFinalMlp,
    kMaskNet,
    kDin,
    kBst,
    kMmoe,
    kPle,
    kEsmm,
    kTwoTower
  };
  enum class Structure { kStacked, kParallel };
  // The rows of sequences, side by side, are weighed for the queries.
  struct Attention {
    std::vector<std::string> sequences;
    std::vector<std::string> queries;
  };

  Kind kind = Kind::kNone;
  std::string key;                                // YAML key under `model`.
  std::vector<LayerConfig> bottom;                // dlrm
  std::vector<LayerConfig> top;                   // dlrm
  std::vector<LayerConfig> deep;                  // All but dlrm and final_mlp.
  uint32_t cross_layers = 3;                      // dcn_v2
  uint32_t rank = 0;                              // dcn_v2
  Structure structure = Structure::kStacked;      // dcn_v2, mask_net
  std::vector<std::string> first_order_features;  // deepfm, wide_deep
  std::vector<Attention> attention;               // deepfm, din, bst
  LayerConfig pooling = {.kind = LayerConfig::Kind::kAttention, .hidden = {32, 16}};  // The same.

  // final_mlp: layers of each stream, and the features whose embeddings open its gate; none: it has
  // no gate.
  std::vector<LayerConfig> streams[2];
  std::vector<std::string> contexts[2];
  uint32_t heads = 1;  // final_mlp

  // mask_net
  uint32_t blocks = 3;  // bst, too
  uint32_t block_width = 64;
  float mask_ratio = 2.0F;  // Hidden width of a mask over that of its input.

  LayerConfig block = {
      .kind = LayerConfig::Kind::kSelfAttention, .width = 1, .hidden = {64}};  // bst

  // mmoe, ple
  std::vector<LayerConfig> expert;
  uint32_t experts = 4;         // mmoe; ple: experts that all labels share.
  uint32_t task_experts = 2;    // ple: experts of each label.
  uint32_t levels = 1;          // ple
  std::string click = {};       // esmm: label; empty: the first one.
  std::string conversion = {};  // esmm: label; empty: the second one.

  // two_tower: features of each side, and the width of their vectors. `deep` has the hidden layers,
  // unless there are none.
  bool has_no_layers = false;
  std::vector<std::string> user = {};
  std::vector<std::string> item = {};
  uint32_t dim = 32;
  bool normalize = true;
  LossConfig loss = {};
};

// Reads what an item of the loss in_batch_softmax competes with.
void ReadNegatives(MapReader& in, LossConfig* loss);

// Reads the model given instead of `towers`. Reports none and more than one.
void ReadShorthand(MapReader& section, ModelShorthand* shorthand);

// Replaces `model: NAME` by `model: {NAME: }`.
void ExpandModelName(YamlNode* document);

// Adds the features of the first order, and their tables, if a model that has them names none: for
// each feature a `NAME_weight` with a table of dim 1. For another model, removes tables with such
// names that no feature uses, so that one configuration serves several models. Requires all tables.
void AddFirstOrder(ReadContext* context, ModelShorthand* shorthand, ClusterConfig* config,
                   std::vector<std::string>* table_paths);

// Replaces the model by towers. Requires features with table_index.
void ExpandModel(const ModelShorthand& shorthand, ClusterConfig* config, Diagnostics* diagnostics);

}  // namespace simurgh
