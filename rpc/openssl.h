#pragma once

// Owning pointers to OpenSSL objects.

#include <memory>
#include <string>

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>

namespace simurgh::rpc {

struct OpenSslDeleter {
  void operator()(BIO* object) const { BIO_free_all(object); }
  void operator()(EVP_PKEY* object) const { EVP_PKEY_free(object); }
  void operator()(X509* object) const { X509_free(object); }
  void operator()(X509_STORE* object) const { X509_STORE_free(object); }
  void operator()(X509_STORE_CTX* object) const { X509_STORE_CTX_free(object); }
  void operator()(STACK_OF(X509) * object) const { sk_X509_free(object); }
};

template <typename T>
using OpenSslPointer = std::unique_ptr<T, OpenSslDeleter>;

// The bytes written to a memory BIO.
inline std::string TextOf(BIO* memory) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(memory, &data);
  return {data, static_cast<size_t>(size)};
}

}  // namespace simurgh::rpc
