// A backend for ranks of one machine: they exchange their bytes in memory that they share.

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/utils/pybind.h>

#include <ATen/Dispatch.h>
#include <pybind11/chrono.h>

#include "fold.h"
#include "lanes.h"
#include "meeting.h"

using c10d::OpType;
using WorkPointer = c10::intrusive_ptr<c10d::Work>;

class Nearby : public c10d::Backend {
  std::unique_ptr<Memory> memory;
  Lanes lanes;
  Limit limit;
  uint64_t calls = 0;
  std::string failed;

  static char* bytes_of(const at::Tensor& tensor) {
    bool plain = tensor.device().is_cpu() && tensor.is_contiguous();
    TORCH_CHECK(plain, "nearby takes contiguous tensors on the CPU");
    return static_cast<char*>(tensor.data_ptr());
  }

  // One collective on a tensor. After an error the ranks no longer agree on what is in the lanes,
  // so this group is over.
  template <typename Act>
  void together(OpType kind, const at::Tensor& tensor, Act act) {
    TORCH_CHECK_WITH(DistBackendError, failed.empty(), "nearby has failed before: ", failed);
    Call call{++calls, tensor.nbytes(), {}};
    auto words = c10d::opTypeToString(kind) + " of " + c10::toString(tensor.scalar_type());
    words.copy(call.kind, sizeof call.kind - 1);
    try {
      act(call, bytes_of(tensor), Clock::now() + limit);
    } catch (const std::runtime_error& error) {
      failed = error.what();
      TORCH_CHECK_WITH(DistBackendError, false, "nearby: ", failed);
    }
  }

 public:
  Nearby(StorePointer store, int rank, int size, Limit limit, Patience patience, bool hasty)
      : Backend(rank, size),
        memory(meet(store, rank, size, limit)),
        lanes(memory->front(), rank, size, patience, hasty),
        limit(limit) {}

  const std::string getBackendName() const override {
    return "nearby";
  }

  WorkPointer allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    TORCH_CHECK(options.reduceOp == c10d::ReduceOp::SUM, "nearby can add, and nothing else");
    for (at::Tensor& tensor : tensors) {
      together(OpType::ALLREDUCE, tensor, [&](const Call& call, char* bytes, auto deadline) {
        AT_DISPATCH_ALL_TYPES_AND2(at::kHalf, at::kBFloat16, tensor.scalar_type(), "nearby", [&] {
          lanes.share(call, bytes, deadline, [&](auto* chunks, size_t at, size_t count) {
            auto* out = reinterpret_cast<scalar_t*>(bytes + at);
            std::vector<const scalar_t*> parts;
            for (int rank = 0; rank < size_; rank++) {
              parts.push_back(reinterpret_cast<const scalar_t*>(chunks[rank]));
            }
            fold(out, parts.data(), size_, count / sizeof(scalar_t), Sum());
          });
        });
      });
    }
    return c10::make_intrusive<Finished>(rank_, OpType::ALLREDUCE, tensors);
  }

  WorkPointer broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    int root = options.rootRank;
    TORCH_CHECK(0 <= root && root < size_, "this group has no rank ", root);
    for (at::Tensor& tensor : tensors) {
      together(OpType::BROADCAST, tensor, [&](const Call& call, char* bytes, auto deadline) {
        lanes.pass(call, root, bytes, deadline);
      });
    }
    return c10::make_intrusive<Finished>(rank_, OpType::BROADCAST, tensors);
  }

  WorkPointer allgather(
      std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions&) override {
    TORCH_CHECK(outputs[0].size() == size_t(size_), "nearby gathers one tensor from each rank");
    for (const at::Tensor& output : outputs[0]) {
      TORCH_CHECK(output.nbytes() == inputs[0].nbytes(), "nearby gathers tensors of one size");
      bytes_of(output);  // refuses it now: later, chunks would be in the lanes already
    }
    together(OpType::ALLGATHER, inputs[0], [&](const Call& call, char* bytes, auto deadline) {
      lanes.share(call, bytes, deadline, [&](auto* chunks, size_t at, size_t count) {
        for (int rank = 0; rank < size_; rank++) {
          std::memcpy(bytes_of(outputs[0][rank]) + at, chunks[rank], count);
        }
      });
    });
    return c10::make_intrusive<Finished>(rank_, OpType::ALLGATHER, outputs[0]);
  }

  WorkPointer barrier(const c10d::BarrierOptions&) override {
    Tensors nothing{at::zeros(1)};
    return allreduce(nothing, {});
  }
};

PYBIND11_MODULE(nearby, module) {
  auto create = [](StorePointer store, int rank, int size, Limit limit, std::string way) {
    bool hasty = way == "hasty";
    auto patience = patience_of(hasty ? BEST : way);
    return c10::intrusive_ptr<c10d::Backend>(
        c10::make_intrusive<Nearby>(store, rank, size, limit, patience, hasty));
  };
  py::call_guard<py::gil_scoped_release> without_lock;  // other threads of Python may go on
  module.def("create", create, py::arg("store"), py::arg("rank"), py::arg("size"),
             py::arg("timeout"), py::arg("way") = BEST, without_lock);
}
