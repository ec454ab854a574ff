// HttpTransport on cpprestsdk: the only file with its headers is cpprest_transport.cpp.
//
// Guarantees: TLS 1.2 at least, against the configured authority only; the authority, the client
// certificate and the token are read again as they rotate; redirects are not followed (they would
// carry the token elsewhere); a 401 is tried once more with new credentials.
#pragma once

#include <memory>

#include "operator/kube/config.h"
#include "operator/kube/transport.h"

namespace muster::kube {

// Call before any other thread starts; `threads` of the library's pool carry the bytes.
void start_http_threads(std::size_t threads);

// Errors: Code::invalid_job when the server's address is none.
Result<std::unique_ptr<HttpTransport>> make_cpprest_transport(const Config& config);

}  // namespace muster::kube
