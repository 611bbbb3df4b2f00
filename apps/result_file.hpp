#pragma once

#include <string>

#include "tutti/communicator.hpp"

namespace tutti::app {

/// A file for results. The constructor checks that it is writable, before any work is done.
class ResultFile {
 public:
  /// `path` is empty for no file, "-" for standard output. Rank 0 opens it. Collective: throws the
  /// same Error{usage} on all ranks if it can't be written.
  ResultFile(Communicator& communicator, std::string path, const char* option);
  ResultFile(const ResultFile&) = delete;
  ResultFile& operator=(const ResultFile&) = delete;
  /// Removes the file if nothing was written to it.
  ~ResultFile();

  [[nodiscard]] bool wanted() const { return !path_.empty(); }
  [[nodiscard]] bool is_standard_output() const { return path_ == "-"; }
  /// Replaces the content. Only on rank 0. Throws Error{system}.
  void write(const std::string& text);

 private:
  std::string path_;
  bool made_here_ = false;
};

}  // namespace tutti::app
