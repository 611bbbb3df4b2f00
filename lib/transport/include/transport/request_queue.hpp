#pragma once

namespace tutti::transport {

/// Posted requests in order, linked by their own `next`: short messages leave no time for an
/// allocation. A request is in at most one queue.
template <class Request>
class RequestQueue {
 public:
  [[nodiscard]] bool empty() const { return first_ == nullptr; }
  [[nodiscard]] Request* front() const { return first_; }

  void push_back(Request& request) {
    request.next = nullptr;
    (first_ == nullptr ? first_ : last_->next) = &request;
    last_ = &request;
  }
  void pop_front() { first_ = first_->next; }

 private:
  Request* first_ = nullptr;
  Request* last_ = nullptr;  ///< valid only if there is a first
};

}  // namespace tutti::transport
