#pragma once

#include <string>
#include <vector>

#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>

namespace simurgh::testing {

// A broker of Kafka in this process: librdkafka's mock, on a free port of the loopback interface.
//
// Threads: one owner.
class KafkaBroker {
 public:
  KafkaBroker();
  ~KafkaBroker();
  KafkaBroker(const KafkaBroker&) = delete;
  KafkaBroker& operator=(const KafkaBroker&) = delete;

  std::string address() const;
  void Create(const std::string& topic, int partitions);
  // Appends records. Returns when the broker has them.
  void Produce(const std::string& topic, int partition, const std::vector<std::string>& values);
  // Without a value.
  void ProduceTombstone(const std::string& topic, int partition);
  // Down: connections are closed and refused.
  void SetDown(bool down);
  // The broker says that there is no such topic.
  void Hide(const std::string& topic);
  // The next fetches close the connection, so that the client asks again.
  void CutFetches(int count);

 private:
  void Append(const std::string& topic, int partition, const std::string* value);
  void Flush();

  rd_kafka_t* kafka_;
  rd_kafka_mock_cluster_t* cluster_;
  rd_kafka_t* producer_;
};

}  // namespace simurgh::testing
