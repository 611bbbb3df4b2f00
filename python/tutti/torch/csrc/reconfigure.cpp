#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <optional>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "process_group.hpp"

namespace tutti::torch_backend {

const std::shared_ptr<Channel>& ProcessGroupTutti::channel() const {
  if (!channel_) {
    C10_THROW_ERROR(DistBackendError,
                    "process group " + settings_.name +
                        " of tutti has no communicator: call torch.distributed._reconfigure() "
                        "first, or again with another uuid if it has failed");
  }
  return channel_;
}

void ProcessGroupTutti::join(Membership members, Milliseconds timeout) {
  auto failures = std::make_shared<Failures>();
  auto channel = connect(members, {.timeout = timeout, .backend = BackendChoice::host},
                         "process group " + settings_.name, failures);
  device_path_ = std::make_unique<DevicePath>(members, failures);
  completer_ = std::make_shared<Completer>();
  failures_ = std::move(failures);
  channel_ = std::move(channel);
  members_ = std::move(members);
  sequence_ = 0;
  monitored_barriers_ = 0;
}

#ifdef C10D_BACKEND_HAS_RECONFIGURE
namespace {

/// In the order of the ranks. Those of a set are sorted.
std::vector<std::string> in_order(const c10d::ReconfigureOptions& options) {
  return std::visit(
      [](const auto& handles) {
        std::vector<std::string> result(handles.begin(), handles.end());
        if constexpr (requires { handles.bucket_count(); }) {
          std::sort(result.begin(), result.end());
        }
        return result;
      },
      options.handles);
}

}  // namespace

ProcessGroupTutti::WorkPointer ProcessGroupTutti::reconfigure(
    const c10d::ReconfigureOptions& options) {
  const auto handles = in_order(options);
  const auto mine = std::find(handles.begin(), handles.end(), handle_);
  TORCH_CHECK_VALUE(
      mine != handles.end(), prefix("reconfigure"), "none of the ", handles.size(),
      " handles is this rank's: pass what torch.distributed._get_reconfigure_handle() "
      "returned on each rank that takes part");
  TORCH_CHECK_VALUE(std::count(mine, handles.end(), handle_) == 1, prefix("reconfigure"),
                    "this rank's handle is in the list twice");
  TORCH_CHECK(uuids_.insert(options.uuid).second, prefix("reconfigure"), "uuid ", options.uuid,
              " was already used: pass a new one each time");
  // Other threads may need the GIL while this waits for the other ranks.
  std::optional<pybind11::gil_scoped_release> released;
  if (Py_IsInitialized() != 0 && PyGILState_Check() != 0) released.emplace();
  drop_batch();
  is_coalescing_ = false;
  close();
  channel_ = nullptr;
  latest_split_ranks_.clear();
  latest_split_store_ = c10::weak_intrusive_ptr<c10d::Store>(c10::intrusive_ptr<c10d::Store>());
  std::string name;
  for (const auto& handle : handles) name += handle + "/";
  // Groups of other ranks may use the same uuid.
  name = "tutti_reconfigure/" + std::to_string(options.uuid) + "/" +
         std::to_string(std::hash<std::string>()(name));
  join({.store = c10::make_intrusive<c10d::PrefixStore>(name, store_),
        .rank = static_cast<int>(mine - handles.begin()),
        .size = static_cast<int>(handles.size()),
        .name = settings_.name,
        .global_ranks = {}},
       options.timeout.value_or(settings_.timeout));
  rank_ = members_.rank;
  size_ = members_.size;
  released.reset();
  auto work = c10::make_intrusive<TuttiWork>(getRank(), c10d::OpType::UNKNOWN, "tutti:reconfigure",
                                             Tensors(), sequence_.load(),
                                             std::make_shared<Call>(channel_), completer_);
  work->complete();
  return work;
}
#endif

}  // namespace tutti::torch_backend
