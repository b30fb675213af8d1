#include "tests/unit/data/data_files.h"

#include <fstream>
#include <sstream>

#include <zlib.h>
#include <zstd.h>

#include <catch2/catch.hpp>

namespace simurgh {

std::string ReadWholeFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE(file.good());
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

std::string Gzip(std::string_view content) {
  z_stream deflater{};
  constexpr int kGzipWindow = MAX_WBITS + 16;
  REQUIRE(deflateInit2(&deflater, 6, Z_DEFLATED, kGzipWindow, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string packed(deflateBound(&deflater, content.size()) + 32, '\0');
  deflater.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  deflater.avail_in = static_cast<uInt>(content.size());
  deflater.next_out = reinterpret_cast<Bytef*>(packed.data());
  deflater.avail_out = static_cast<uInt>(packed.size());
  REQUIRE(deflate(&deflater, Z_FINISH) == Z_STREAM_END);
  packed.resize(deflater.total_out);
  deflateEnd(&deflater);
  return packed;
}

std::string Zstd(std::string_view content) {
  std::string packed(ZSTD_compressBound(content.size()), '\0');
  const size_t size =
      ZSTD_compress(packed.data(), packed.size(), content.data(), content.size(), 3);
  REQUIRE(ZSTD_isError(size) == 0);
  packed.resize(size);
  return packed;
}

}  // namespace simurgh
