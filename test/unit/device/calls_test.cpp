// The call tables, filled with fakes.
#include <cstring>

#include "device/inventory.hpp"
#include "device/nccl_numbers.hpp"
#include "instant_calls.hpp"
#include "support/catch.hpp"

namespace tutti::device::test {
namespace {

/// A driver with `count` devices; the UUID of device i has all bytes i.
template <int count>
CudaCalls driver() {
  auto calls = instant_cuda().calls;
  calls.device_count = [](int* out) {
    *out = count;
    return cuda_success;
  };
  calls.device_uuid = [](CudaUuid* uuid, CudaDevice device) {
    uuid->fill(static_cast<char>(device));
    return cuda_success;
  };
  return calls;
}

template <int count>
void require_all_listed() {
  const auto inventory = take_inventory(driver<count>(), "");
  REQUIRE(inventory.devices.size() == std::size_t{count});
  CHECK(inventory.none_because.empty());
  for (int i = 0; i < count; ++i) {
    const auto& device = inventory.devices[static_cast<std::size_t>(i)];
    CHECK(device.bus_id == "0000:18:00.0");
    CHECK(
        device.uuid.substr(0, 2) ==
        (i < 10 ? "0" + std::to_string(i) : "0" + std::string(1, static_cast<char>('a' + i - 10))));
    CHECK(!device.is_slice);
  }
}

}  // namespace

TEST_CASE("all devices of the driver are listed, by index") {
  require_all_listed<1>();
  require_all_listed<2>();
  require_all_listed<3>();
  require_all_listed<4>();
  require_all_listed<5>();
  require_all_listed<6>();
  require_all_listed<7>();
  require_all_listed<8>();
  require_all_listed<16>();
  CHECK(take_inventory(driver<2>(), "").devices[1].uuid == "01010101-0101-0101-0101-010101010101");
}

TEST_CASE("no driver, no device and a failing driver are each reported") {
  CHECK(take_inventory({}, "libcuda.so.1: not found").none_because.find("libcuda.so.1") !=
        std::string::npos);
  CHECK(take_inventory(driver<0>(), "").none_because.find("CUDA_VISIBLE_DEVICES") !=
        std::string::npos);
  auto failing = driver<1>();
  failing.init = [](unsigned) { return 999; };
  CHECK(take_inventory(failing, "").none_because == "CUDA driver: error 999");
  auto broken = driver<1>();
  broken.device_uuid = [](CudaUuid*, CudaDevice) { return 3; };
  const auto inventory = take_inventory(broken, "");
  CHECK(inventory.devices.empty());
  CHECK(inventory.none_because == "device 0: CUDA driver: error 3");
}

TEST_CASE("a MIG slice has another UUID than its GPU") {
  auto calls = driver<1>();
  calls.card_uuid = [](CudaUuid* uuid, CudaDevice) {
    uuid->fill('x');
    return cuda_success;
  };
  CHECK(take_inventory(calls, "").devices.at(0).is_slice);
}

TEST_CASE("every result code of NCCL has a text, known or not") {
  const NcclCalls nothing;
  CHECK(nccl_error_text(nothing, nullptr, 6) == "NCCL: remote error (6)");
  for (int code = 0; code < 100; ++code) {
    const auto text = nccl_error_text(nothing, nullptr, code);
    CHECK(text.find(std::to_string(code)) != std::string::npos);
    CHECK((text.find("unknown result") != std::string::npos) == (code > 7));
  }
  CHECK(nccl_error_text(nothing, nullptr, -1) == "NCCL: unknown result -1");
  NcclCalls calls;
  calls.last_error = [](NcclComm) { return "no route"; };
  int comm = 0;
  CHECK(nccl_error_text(calls, &comm, 2) == "NCCL: system error (2); its last message: no route");
}

TEST_CASE("types, operators and versions have NCCL's numbers") {
  CHECK(nccl_type(Type::i8) == 0);
  CHECK(nccl_type(Type::f16) == 6);
  CHECK(nccl_type(Type::f32) == 7);
  CHECK(nccl_type(Type::f64) == 8);
  CHECK(nccl_type(Type::bf16) == 9);
  CHECK(nccl_type(Type::f8e4m3) == 10);
  CHECK(nccl_type(Type::f8e5m2) == 11);
  CHECK(nccl_moved_type(Type::f8e5m2) == nccl_type(Type::u8));
  CHECK(nccl_moved_type(Type::f16) == 6);
  CHECK(nccl_type(Type::i16) == nccl_type(Type::f16));
  CHECK(nccl_type(Type::boolean) == nccl_type(Type::u8));
  CHECK(nccl_type(Type::c64) == nccl_type(Type::f32));
  CHECK(nccl_type(Type::c128) == nccl_type(Type::f64));
  CHECK(!nccl_operator(Type::u8, Operator::bit_or));
  CHECK(!nccl_operator(Type::i16, Operator::sum));
  CHECK(!nccl_operator(Type::f32, Operator::premultiplied_sum));
  CHECK(nccl_operator(Type::boolean, Operator::sum) == 2);
  CHECK(nccl_operator(Type::boolean, Operator::product) == 3);
  CHECK(nccl_operator(Type::boolean, Operator::logical_or) == 2);
  CHECK(nccl_operator(Type::boolean, Operator::bit_and) == 3);
  CHECK(!nccl_operator(Type::boolean, Operator::logical_xor));
  CHECK(nccl_operator(Type::f32, Operator::max) == 2);
  CHECK(nccl_operator(Type::f32, Operator::min) == 3);
  CHECK(nccl_operator(Type::f32, Operator::average) == 4);
  CHECK(nccl_version_text(22803) == "2.28.3");
}

}  // namespace tutti::device::test
