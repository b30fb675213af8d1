#include "tests/support/kafka_broker.h"

#include <array>
#include <utility>

#include "base/check.h"

namespace simurgh::testing {
namespace {

constexpr int kBroker = 1;
constexpr int kFetch = 1;  // Key of the request in Kafka's protocol.
constexpr int kFlushMilliseconds = 20'000;

rd_kafka_t* NewProducer(const std::string& brokers) {
  char error[512];
  rd_kafka_conf_t* const conf = rd_kafka_conf_new();
  rd_kafka_conf_set_log_cb(conf, nullptr);
  if (!brokers.empty()) {
    for (const auto& [name, value] :
         {std::pair("bootstrap.servers", brokers.c_str()), std::pair("linger.ms", "1"),
          std::pair("reconnect.backoff.max.ms", "200")}) {
      SIMURGH_CHECK_EQ(rd_kafka_conf_set(conf, name, value, error, sizeof(error)),
                       RD_KAFKA_CONF_OK);
    }
  }
  rd_kafka_t* const producer = rd_kafka_new(RD_KAFKA_PRODUCER, conf, error, sizeof(error));
  SIMURGH_CHECK(producer != nullptr) << error;
  return producer;
}

}  // namespace

KafkaBroker::KafkaBroker()
    : kafka_(NewProducer("")),
      cluster_(rd_kafka_mock_cluster_new(kafka_, kBroker)),
      producer_(NewProducer(address())) {}

KafkaBroker::~KafkaBroker() {
  rd_kafka_destroy(producer_);
  rd_kafka_mock_cluster_destroy(cluster_);
  rd_kafka_destroy(kafka_);
}

std::string KafkaBroker::address() const { return rd_kafka_mock_cluster_bootstraps(cluster_); }

void KafkaBroker::Create(const std::string& topic, int partitions) {
  SIMURGH_CHECK_EQ(rd_kafka_mock_topic_create(cluster_, topic.c_str(), partitions, 1),
                   RD_KAFKA_RESP_ERR_NO_ERROR);
}

void KafkaBroker::Append(const std::string& topic, int partition, const std::string* value) {
  const char* const bytes = value == nullptr ? nullptr : value->data();
  const size_t size = value == nullptr ? 0 : value->size();
  while (true) {
    std::array<rd_kafka_vu_t, 4> record{};
    record[0].vtype = RD_KAFKA_VTYPE_TOPIC;
    record[0].u.cstr = topic.c_str();
    record[1].vtype = RD_KAFKA_VTYPE_PARTITION;
    record[1].u.i32 = partition;
    record[2].vtype = RD_KAFKA_VTYPE_MSGFLAGS;
    record[2].u.i = RD_KAFKA_MSG_F_COPY;
    record[3].vtype = RD_KAFKA_VTYPE_VALUE;
    record[3].u.mem.ptr = const_cast<char*>(bytes);
    record[3].u.mem.size = size;
    rd_kafka_error_t* const refused = rd_kafka_produceva(producer_, record.data(), record.size());
    const rd_kafka_resp_err_t error = rd_kafka_error_code(refused);
    rd_kafka_error_destroy(refused);
    if (error != RD_KAFKA_RESP_ERR__QUEUE_FULL) {
      SIMURGH_CHECK_EQ(error, RD_KAFKA_RESP_ERR_NO_ERROR);
      return;
    }
    rd_kafka_poll(producer_, 100);
  }
}

void KafkaBroker::Flush() {
  SIMURGH_CHECK_EQ(rd_kafka_flush(producer_, kFlushMilliseconds), RD_KAFKA_RESP_ERR_NO_ERROR);
}

void KafkaBroker::Produce(const std::string& topic, int partition,
                          const std::vector<std::string>& values) {
  for (const std::string& value : values) Append(topic, partition, &value);
  Flush();
}

void KafkaBroker::ProduceTombstone(const std::string& topic, int partition) {
  Append(topic, partition, nullptr);
  Flush();
}

void KafkaBroker::SetDown(bool down) {
  SIMURGH_CHECK_EQ(down ? rd_kafka_mock_broker_set_down(cluster_, kBroker)
                        : rd_kafka_mock_broker_set_up(cluster_, kBroker),
                   RD_KAFKA_RESP_ERR_NO_ERROR);
  if (down) return;
  rd_kafka_destroy(producer_);  // It may not try to connect for long.
  producer_ = NewProducer(address());
}

void KafkaBroker::Hide(const std::string& topic) {
  rd_kafka_mock_topic_set_error(cluster_, topic.c_str(), RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART);
}

void KafkaBroker::CutFetches(int count) {
  for (int i = 0; i < count; ++i) {
    rd_kafka_mock_push_request_errors(cluster_, kFetch, 1, RD_KAFKA_RESP_ERR__TRANSPORT);
  }
}

}  // namespace simurgh::testing
