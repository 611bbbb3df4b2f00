#pragma once

#include <string>
#include <utility>

#include "tutti/error.hpp"

namespace tutti {

/// Adds to an Error what only the library knows of it.
class ErrorBuilder {
 public:
  explicit ErrorBuilder(Error error) : error_(std::move(error)) {}

  /// The rank that throws it, and its host.
  ErrorBuilder& at(int rank, std::string host) {
    error_.rank_ = rank;
    error_.host_ = std::move(host);
    return *this;
  }
  /// The call that throws it.
  ErrorBuilder& in(std::string operation, std::uint64_t sequence) {
    error_.operation_ = std::move(operation);
    error_.sequence_ = sequence;
    return *this;
  }
  ErrorBuilder& speaks_for_job(bool speaks) {
    error_.speaks_for_job_ = speaks;
    return *this;
  }

  [[nodiscard]] Error error() const { return error_; }

 private:
  Error error_;
};

}  // namespace tutti
