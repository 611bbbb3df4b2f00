#pragma once

#include <c10/util/Exception.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "compatibility.hpp"
#include "tutti/bootstrap.hpp"
#include "tutti/error.hpp"

namespace tutti::torch_backend {

/// tutti's bootstrap over the store that torch has given the process group. A rank is a key.
class StoreBootstrap final : public Bootstrap {
 public:
  /// `store` has no keys of another process group. It is not cloned: torch looks up the name of the
  /// peer of each new connection, for 5 s where no name server answers.
  StoreBootstrap(c10::intrusive_ptr<c10d::Store> store, int rank, int size)
      : store_(std::move(store)), rank_(rank), size_(size) {}

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] std::string source() const override { return "torch.distributed's store"; }

  std::vector<Bytes> all_gather(const Bytes& mine, Deadline deadline) override {
    const auto step = next_step();
    std::vector<std::string> keys;
    for (int rank = 0; rank < size_; ++rank) keys.push_back(key(step, rank));
    return guarded([&] {
      put(key(step, rank_), mine);
      wait_for(keys, deadline);
      std::vector<Bytes> result;
      if (store_->hasExtendedApi()) {
        for (const auto& value : store_->multiGet(keys)) result.push_back(bytes(value));
      } else {
        for (const auto& name : keys) result.push_back(bytes(store_->get(name)));
      }
      return result;
    });
  }

  Bytes broadcast(const Bytes& from_root, int root, Deadline deadline) override {
    const auto name = key(next_step(), root);
    return guarded([&] {
      if (rank_ == root) {
        put(name, from_root);
        return from_root;
      }
      wait_for({name}, deadline);
      return bytes(store_->get(name));
    });
  }

  void barrier(Deadline deadline) override { all_gather({}, deadline); }

 private:
  std::string next_step() { return "tutti/" + std::to_string(step_++); }
  static std::string key(const std::string& step, int rank) {
    return step + "/" + std::to_string(rank);
  }

  /// One byte more than the contribution: some stores take no empty value.
  void put(const std::string& name, const Bytes& value) {
    std::vector<std::uint8_t> stored(value.size() + 1);
    if (!value.empty()) std::memcpy(stored.data() + 1, value.data(), value.size());
    store_->set(name, stored);
  }
  static Bytes bytes(const std::vector<std::uint8_t>& stored) {
    Bytes result(stored.empty() ? 0 : stored.size() - 1);
    if (!result.empty()) std::memcpy(result.data(), stored.data() + 1, result.size());
    return result;
  }

  /// Polls: a store whose wait() times out prints warnings. Names the ranks that are missing at the
  /// deadline.
  void wait_for(const std::vector<std::string>& keys, const Deadline& deadline) {
    std::chrono::nanoseconds pause = std::chrono::microseconds(100);
    while (!store_->check(keys)) {
      if (deadline.expired()) fail_missing(keys);
      std::this_thread::sleep_for(std::min(pause, deadline.poll_interval()));
      pause = std::min<std::chrono::nanoseconds>(pause * 3 / 2, std::chrono::milliseconds(10));
    }
  }
  [[noreturn]] void fail_missing(const std::vector<std::string>& keys) {
    std::vector<int> missing;
    std::string names;
    for (const auto& name : keys) {
      if (store_->check({name})) continue;
      missing.push_back(std::stoi(name.substr(name.rfind('/') + 1)));
      names += (names.empty() ? "" : ", ") + std::to_string(missing.back());
    }
    throw Error(ErrorCode::timeout,
                "rank " + std::to_string(rank_) + " waited for rank " + names +
                    " in the set-up of the process group until the timeout: see whether that rank "
                    "runs, and makes the same process groups",
                std::move(missing));
  }

  /// The store's own errors as ours.
  template <class Function>
  auto guarded(Function function) -> decltype(function()) {
    try {
      return function();
    } catch (const c10::Error& error) {
      throw Error(ErrorCode::system, std::string("torch.distributed's store failed: ") +
                                         error.what_without_backtrace());
    }
  }

  c10::intrusive_ptr<c10d::Store> store_;
  int rank_;
  int size_;
  int step_ = 0;
};

}  // namespace tutti::torch_backend
