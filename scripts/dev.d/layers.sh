#!/usr/bin/env bash
# Checks that includes follow the permitted dependencies between modules

if [[ ${1-} == --help ]]; then
  cat <<'TEXT'
Usage: scripts/dev layers [FILE...]

Checks the quoted and angled includes of the files, or of all C++ files:
  - a module includes only modules that it may depend on (the first table in this script);
  - a module includes only those headers of another one that it offers (the second table);
  - an offered header includes only offered ones, and no Boost, CUDA, FlatBuffers, Prometheus or spdlog. Only base/log.h
    includes spdlog;
  - include/simurgh, for programs outside, includes nothing of the project but itself;
  - nothing includes ../; tests include only tests and bench/datagen in addition, all others neither tests nor bench;
  - a daemon includes no other one, except nn-worker for --standalone, and simurgh.
Without FILE, another module includes each offered header, or an offered header that another module includes shows it.
TEXT
  exit 0
fi

# module: the other modules that it may include. The last one that fits a path is its module.
ARROWS='
simurgh:
base:
tensor: base
config: base
telemetry: base
objects: base config
rpc: base
data/batch: base tensor
data/processing: simurgh base tensor config data/batch
data/reading: simurgh base tensor config telemetry data/batch data/processing
data/guess: base config data/batch data/processing data/reading
kafka: base config telemetry data/batch data/reading
model: base tensor config telemetry objects
table: base tensor config telemetry model
embedding: base tensor config telemetry data/batch table
nn: base tensor config telemetry data/batch embedding
collective: base tensor
train: base tensor config telemetry data/batch data/reading model embedding nn collective
predict: base tensor config telemetry data/batch data/reading model table embedding nn train
retrieval: base tensor config data/batch data/reading nn collective train predict
report: base tensor config data/batch data/reading model nn train predict
services: simurgh base tensor config telemetry objects data/batch data/processing data/reading data/guess kafka model table embedding nn collective train predict retrieval report rpc
'

# module: the headers that it offers to other modules. rpc and services offer all.
OFFERS='
base: aligned_buffer check cpu_isa file_descriptor hash invalid log mutex random status step_id system_library text thread version
tensor: finite half half-inl matrix_view
config: calibration cluster_config data_config defaults embedding_form feature_config layer_shape model_config nearest retrieval service_config serving_config statistics table_config tower_shape training_config uri
telemetry: event_file logging metrics timeline
objects: object_store s3_store
data/batch: batch batch_builder data_position encoded_batch
data/processing: feature_consumer numbers times
data/reading: arrow_source arrow_vectors bad_row_file batch_reader csv_cells encoding file_identity file_writer json_events line_cells record_stream remote_file replay_reader row_batcher row_lines row_parser row_source row_text
data/guess: data_guess label_texts retrieval_guess retrieval_label retrieval_time row_split telling_column
kafka: kafka_stream
model: file_system manifest model_directory model_report row_files table_export tensor_file
table: cold_disk distinct_counter encoded_matrix memory_budget partition table
embedding: argmax_wire batch_calls batch_plan batch_pool batch_pooling bucket_map forward_buffer pooling rank_row_cache raw_masks row_cache row_codec row_groups row_wire vector_codec vector_number
nn: batch_block calibration cpu/compute_threads cpu/matmul dense_model dense_network dense_optimizer device_sums item_frequency metrics model onnx two_towers
collective: collective nccl_library
train: batch_pipeline checkpoint_port checkpoint_schedule dense_weights evaluator hosted_network item_pool learning_rates nccl_sums ports program_state rank_monitor trainer
predict: model_version predictor program_network remote_rows scorer served_versions
retrieval: item_catalog item_columns item_index item_vectors ranked_users ranking_metrics tower_data training_ranking version_ranking
report: bootstrap curves drift findings history importance input_scan interval label_report labelled_rows page ranking_report permutation report report_json reservoir segments shown_columns table_report
'

files=("$@")
((${#files[@]} > 0)) || mapfile -t files < <(sources 'include/*.h' 'src/*.h' 'src/*.cc' 'src/*.cu' 'src/*.cuh' 'rpc/*.h' 'rpc/*.cc' 'services/*.h' 'services/*.cc' 'tests/*.h' 'tests/*.cc')

awk -v arrows="$ARROWS" -v offers="$OFFERS" -v all_files="$((${#@} == 0))" '
  function complain(what) {
    print FILENAME ":" FNR ": " what
    failed = 1
  }
  # The module of a path from the root of the repository, or of an include: "table/arena.h", "rpc/client.h".
  function module_of(path,   parts) {
    sub(/^(src|include)\//, "", path)
    split(path, parts, "/")
    return (parts[1] "/" parts[2]) in known ? parts[1] "/" parts[2] : parts[1]
  }
  function name_of(path) {
    sub(/^(src|include)\//, "", path)
    return path
  }
  BEGIN {
    count = split(arrows, lines, "\n")
    for (i = 1; i <= count; ++i) {
      if (lines[i] == "") continue
      words = split(lines[i], word, /[: ]+/)
      known[word[1]] = 1
      for (w = 1; w <= words; ++w) if (word[w] != "") allowed[word[1], word[w]] = 1
    }
    count = split(offers, lines, "\n")
    for (i = 1; i <= count; ++i) {
      words = split(lines[i], word, /[: ]+/)
      for (w = 2; w <= words; ++w) if (word[w] != "") offered[word[1] "/" word[w] ".h"] = 1
    }
  }
  FNR == 1 {
    here = module_of(FILENAME)
    is_offered = name_of(FILENAME) in offered
    if (!(here in known) && here != "tests") complain("module " here " is not in the table of scripts/dev.d/layers.sh")
  }
  !/^[ \t]*#[ \t]*include[ \t]*[<"]/ { next }
  {
    included = $0
    sub(/^[^<"]*[<"]/, "", included)
    sub(/[>"].*/, "", included)
    there = module_of(included)
    if (included ~ /^\.\./ || (included ~ /^tests\// && here != "tests") ||
        (included ~ /^bench\// && (here != "tests" || included !~ /^bench\/datagen\//))) complain("must not include " included)
    if (here == "tests") next
    daemon = "^services/(embedding_ps|embedding_worker|loader|nn_worker|row_server|simurgh)/"
    if (FILENAME ~ daemon && match(included, daemon) && index(FILENAME, substr(included, 1, RLENGTH)) != 1 &&
        FILENAME included !~ /nn_worker.*embedding|services\/simurgh.*(embedding|nn_worker)/) complain("includes another daemon: " included)
    if (is_offered && FILENAME !~ /base\/log.h$/ && included ~ /^(boost|cuda|cublas|nccl|flatbuffers|prometheus|spdlog)/) {
      complain("an offered header shows " included)
    }
    if (!(there in known)) next
    if (is_offered) shows[name_of(FILENAME)] = shows[name_of(FILENAME)] " " included
    if (here != there) needed[included] = 1
    if (!((here, there) in allowed)) {
      complain(here " must not include " there ": " included)
    } else if (there ~ /^(simurgh|rpc|services)$/) {
      next
    } else if (here != there && !(included in offered)) {
      complain(included " is private to " there)
    } else if (is_offered && !(included in offered)) {
      complain("an offered header includes a private one: " included)
    }
  }
  END {
    if (all_files) {
      do {
        grown = 0
        for (header in needed) {
          count = split(shows[header], shown, " ")
          for (i = 1; i <= count; ++i) if (!(shown[i] in needed)) { needed[shown[i]] = 1; grown = 1 }
        }
      } while (grown)
      for (header in offered) if (!(header in needed)) { print header ": offered, but no other module includes it"; failed = 1 }
    }
    exit failed
  }
' "${files[@]}" || { echo "layers: src/README.md lists what each module may include" >&2; exit 1; }
