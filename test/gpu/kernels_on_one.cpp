#include "kernels_on_one.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <random>
#include <stdexcept>
#include <vector>

#include "base/shape.hpp"
#include "cases.hpp"
#include "device/context.hpp"
#include "device/inventory.hpp"
#include "device_block.hpp"
#include "direct/channel.hpp"
#include "direct/description.hpp"
#include "direct/image.hpp"
#include "direct/kernels.hpp"
#include "direct/memory.hpp"
#include "problem.hpp"

namespace tutti::gpu_test {
namespace {

using device::DeviceAddress;
using device::DeviceBlock;
namespace direct_path = device::direct;
using direct_path::Protocol;

constexpr std::size_t window_bytes = std::size_t{8} << 20;
constexpr std::size_t buffer_alignment = 256;

/// What one rank has on the GPU.
struct OnGpu {
  OnGpu(const std::shared_ptr<const device::Context>& context, int ranks)
      : staging(context, direct_path::Layout{ranks}.bytes()),
        window(context, window_bytes),
        stream(context) {}

  DeviceBlock staging;
  DeviceBlock window;  ///< number 0
  direct_path::OwnStream stream;
};

/// A call as one rank makes it, with its buffers in the rank's window.
struct Made {
  Problem problem;
  std::size_t send_at = 0;
  std::size_t recv_at = 0;
  std::size_t elements = 0;  ///< of the receive buffer
  CheckedCollective call;
};

class Machine {
 public:
  Machine(std::shared_ptr<const device::Context> context, const direct_path::Kernels& kernels,
          int ranks)
      : context_(std::move(context)), kernels_(kernels) {
    for (int rank = 0; rank < ranks; ++rank) {
      ranks_.push_back(std::make_unique<OnGpu>(context_, ranks));
    }
    std::vector<DeviceAddress> row;
    for (const auto& rank : ranks_) row.push_back(device::device_address(rank->window.data()));
    for (const auto& rank : ranks_) {
      upload(*rank, rank->staging.data() + direct_path::Layout{ranks}.windows(), row.data(),
             row.size() * sizeof row.front());
    }
    require(cuda().allocate_pinned(&flag_, sizeof(std::uint32_t), 0), "allocating a flag");
    *static_cast<std::uint32_t*>(flag_) = 0;
  }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;
  ~Machine() { cuda().free_pinned(flag_); }

  [[nodiscard]] std::string run(const Case& one, Protocol protocol, std::uint64_t seed,
                                std::mt19937_64& random) {
    std::vector<Made> made;
    std::vector<std::vector<std::byte>> images;
    for (int rank = 0; rank < size(); ++rank) {
      images.emplace_back(window_bytes, poison_value);
      made.push_back(place(one, rank, seed, images.back(), random));
      upload(of(rank), of(rank).window.data(), images.back().data(), window_bytes);
    }
    for (int rank = 0; rank < size(); ++rank) launch(made[index(rank)], protocol, rank);
    for (int rank = 0; rank < size(); ++rank) {
      require(cuda().synchronize_stream(of(rank).stream.handle()), "running a kernel");
    }
    for (int rank = 0; rank < size(); ++rank) {
      auto wrong = judge(made[index(rank)], one, rank, std::move(images[index(rank)]));
      if (!wrong.empty()) {
        return fmt::format("{}, protocol {}, {} ranks, rank {}: {}", one.text(),
                           static_cast<int>(protocol), size(), rank, wrong);
      }
    }
    return {};
  }

 private:
  [[nodiscard]] const device::CudaCalls& cuda() const { return context_->cuda(); }
  [[nodiscard]] int size() const { return static_cast<int>(ranks_.size()); }
  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }
  [[nodiscard]] const OnGpu& of(int rank) const { return *ranks_[index(rank)]; }

  void require(device::CudaResult result, const char* doing) const {
    if (result == device::cuda_success) return;
    throw std::runtime_error(
        fmt::format("{} failed: {}", doing, device::cuda_error_text(cuda(), result)));
  }
  void upload(const OnGpu& rank, void* to, const void* from, std::size_t bytes) const {
    const auto stream = rank.stream.handle();
    require(cuda().copy_to_device(device::device_address(to), from, bytes, stream), "copying");
    require(cuda().synchronize_stream(stream), "copying");
  }

  /// Random places in the window, and the input.
  Made place(const Case& one, int rank, std::uint64_t seed, std::vector<std::byte>& image,
             std::mt19937_64& random) const {
    Made made{.problem = Problem(one, rank, size(), seed), .call = {}};
    const auto& problem = made.problem;
    const auto element = size_of(one.type);
    std::size_t end = 0;
    const auto reserve = [&](std::size_t elements) {
      const auto offset = random() % 2 == 0 ? 0 : random() % 20 * element;
      const auto at = (end + buffer_alignment - 1) / buffer_alignment * buffer_alignment + offset;
      end = at + elements * element + 16;
      return at;
    };
    const auto write = [&](std::size_t at, const std::vector<std::byte>& bytes) {
      std::copy(bytes.begin(), bytes.end(), image.begin() + static_cast<std::ptrdiff_t>(at));
    };
    auto* const base = of(rank).window.data();
    auto& call = made.call;
    call = {.operation = one.operation,
            .type = one.type,
            .op = one.op,
            .root = one.root,
            .count = one.count,
            .in_place = problem.in_place_here()};
    const auto sent = problem.has_send() ? problem.send_elements() : 0;
    if (call.in_place) {
      made.elements = std::max(problem.send_elements(), problem.recv_elements());
      const auto at = reserve(made.elements);
      made.send_at = at + problem.own_offset() * element;
      const auto first = made.elements > problem.recv_elements() ? index(rank) * one.count : 0;
      made.recv_at = at + first * element;
      made.elements = problem.recv_elements();
      write(made.send_at, problem.own_input());
      if (one.operation == Operation::reduce_scatter) made.send_at = at;
    } else {
      made.send_at = reserve(sent);
      made.elements = problem.recv_elements();
      made.recv_at = reserve(made.elements);
      if (problem.has_send()) write(made.send_at, problem.own_input());
      if (!problem.has_send() && rank == one.root) write(made.recv_at, problem.root_input());
    }
    call.send = problem.has_send() ? base + made.send_at : nullptr;
    call.recv = base + made.recv_at;
    return made;
  }

  void launch(const Made& made, Protocol protocol, int rank) const {
    auto described = direct_path::describe(made.call, rank, size());
    if (described.block_bytes == 0) return;
    for (int other = 0; other < size(); ++other)
      described.staging[other] = of(other).staging.data();
    described.abort_flag = static_cast<const std::uint32_t*>(flag_);
    const auto buffers = direct_path::accessed(made.call, size());
    const auto* const base = of(rank).window.data();
    const auto place_of = [&](const void* buffer) -> std::uint64_t {
      if (buffer == nullptr) return 0;
      const auto offset = static_cast<const std::byte*>(buffer) - base;
      return direct_path::Place{.window = 0, .offset = static_cast<std::uint64_t>(offset)}
          .in_one_word();
    };
    described.places[direct_path::send_buffer] = place_of(buffers.send);
    described.places[direct_path::recv_buffer] = place_of(buffers.recv);
    const auto shape = direct_path::launch_shape(protocol, made.call.operation, described);
    described.share = shape.share;
    const auto name =
        *direct_path::kernel_name(protocol, made.call.operation, made.call.type, made.call.op);
    void* arguments[] = {&described};
    require(cuda().launch(kernels_.at(name), shape.channels, 1, 1, shape.threads, 1, 1, 0,
                          of(rank).stream.handle(), arguments, nullptr),
            "launching a kernel");
  }

  /// `image` is what the window had before.
  [[nodiscard]] std::string judge(const Made& made, const Case& one, int rank,
                                  std::vector<std::byte> image) const {
    std::vector<std::byte> found(window_bytes);
    const auto stream = of(rank).stream.handle();
    require(cuda().copy_to_host(found.data(), device::device_address(of(rank).window.data()),
                                window_bytes, stream),
            "copying");
    require(cuda().synchronize_stream(stream), "copying");
    const auto at = static_cast<std::ptrdiff_t>(made.recv_at);
    const auto end = at + static_cast<std::ptrdiff_t>(made.elements * size_of(one.type));
    auto wrong = made.problem.judge({found.begin() + at, found.begin() + end});
    if (!wrong.empty()) return wrong;
    std::copy(image.begin() + at, image.begin() + end, found.begin() + at);
    const auto changed = std::mismatch(found.begin(), found.end(), image.begin());
    if (changed.first == found.end()) return {};
    return fmt::format("byte {} of its window has changed; the result is at {} to {}",
                       changed.first - found.begin(), at, end);
  }

  std::shared_ptr<const device::Context> context_;
  const direct_path::Kernels& kernels_;
  std::vector<std::unique_ptr<OnGpu>> ranks_;
  void* flag_ = nullptr;
};

}  // namespace

std::string check_kernels_on_one_gpu(int calls, int types, std::uint64_t seed) {
  if (direct_path::kernel_image() == nullptr) {
    fmt::print("skipped: tutti was built without nvcc, so it has no kernels\n");
    return {};
  }
  const auto cuda = std::make_shared<const device::Library<device::CudaCalls>>(device::load_cuda());
  if (!cuda->usable()) return cuda->missing;
  cuda->calls.init(0);
  const auto context = std::make_shared<const device::Context>(cuda, 0);
  const device::CurrentContext current(*context);
  const direct_path::Kernels kernels(context);
  std::mt19937_64 random(seed);
  for (int ranks = 2; ranks <= 4; ++ranks) {
    Machine machine(context, kernels, ranks);
    for (int call = 0; call < calls; ++call) {
      // All blocks of both buffers of a rank have to fit into its window.
      auto one = random_direct_case(random, ranks, types, std::size_t{1} << 20);
      const auto protocol = static_cast<Protocol>(random() % direct_path::protocol_count);
      if (shape_of(one.operation).reduces && protocol != Protocol::packets) {
        constexpr std::array floats{Type::f32, Type::f64, Type::f16, Type::bf16};
        const auto bytes = one.count * size_of(one.type);
        one.type = floats[random() % (types > 6 ? 4 : 2)];
        one.op = Operator::sum;
        one.count = bytes / size_of(one.type);
      }
      if (!direct_path::has_kernel(protocol, one.operation, one.type, one.op)) continue;
      auto wrong = machine.run(one, protocol, random(), random);
      if (!wrong.empty()) return wrong;
    }
  }
  return {};
}

}  // namespace tutti::gpu_test
