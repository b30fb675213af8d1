// nn-worker: reads the data, computes the dense network, drives training.

#include <cstdio>
#include <string>

#include "services/nn_worker/nn_worker.h"

int main(int argc, char** argv) {
  simurgh::NnWorkerOptions options{
      .on_result = [](const std::string& text) { std::fputs(text.c_str(), stdout); }};
  simurgh::DaemonDescription description = simurgh::DescribeNnWorker(/*is_hosted=*/false);
  description.usage.own_options.add_options()(
      "standalone", boost::program_options::bool_switch(&options.standalone),
      "run the servers and the embedding worker in this process, without sockets")(
      "resume",
      boost::program_options::value(&options.resume)->default_value("auto", "")->value_name("WHAT"),
      "continue a model: auto (the default): the newest in checkpoint.directory, if any; never; or "
      "the path of a model or checkpoint")(
      "update", boost::program_options::value(&options.update)->value_name("ID"),
      "update the model in checkpoint.directory, as simurgh update; an interrupted update "
      "continues "
      "with the same ID")(
      "fail-if-stopped", boost::program_options::bool_switch(&description.fails_if_stopped),
      "end with 4, not 0, if a signal to any nn-worker stops training with checkpoint.directory; "
      "for Jobs of Kubernetes");
  return simurgh::RunDaemon(description, argc, argv, [&](simurgh::DaemonContext& context) {
    options.fails_if_stopped = description.fails_if_stopped;
    return simurgh::StartNnWorker(context, options);
  });
}
