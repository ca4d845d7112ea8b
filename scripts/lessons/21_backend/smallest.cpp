// The smallest backend: all-reduce alone, and as slow as it is short.
//
// The ranks exchange their bytes through the store, the table in which they met.

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/utils/pybind.h>

#include <pybind11/chrono.h>

using Tensors = std::vector<at::Tensor>;
using WorkPointer = c10::intrusive_ptr<c10d::Work>;

// What a collective returns. This one is over when it is made: the call has waited.
struct Done : c10d::Work {
  Done() {
    finish();
  }
};

// The same, and DDP accepts it: it asks for a future, which holds the tensors when they are ready.
struct DoneWithFuture : Done {
  c10::intrusive_ptr<c10::ivalue::Future> future;

  explicit DoneWithFuture(const Tensors& tensors) {
    auto type = c10::ListType::create(c10::TensorType::get());
    future = c10::make_intrusive<c10::ivalue::Future>(type);
    future->markCompleted(tensors);
  }

  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    return future;
  }
};

class Smallest : public c10d::Backend {
  c10::intrusive_ptr<c10d::Store> store;
  bool with_future;
  int64_t turn = 0;

 public:
  Smallest(c10::intrusive_ptr<c10d::Store> store, int rank, int size, bool with_future)
      : Backend(rank, size), store(std::move(store)), with_future(with_future) {}

  const std::string getBackendName() const override {
    return "smallest";
  }

  // Everybody puts a tensor into the store, takes all of them out, and adds them in rank order.
  WorkPointer allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    TORCH_CHECK(options.reduceOp == c10d::ReduceOp::SUM, "smallest can add, and nothing else");
    for (at::Tensor& tensor : tensors) {
      bool plain = tensor.device().is_cpu() && tensor.is_contiguous();
      TORCH_CHECK(plain, "smallest takes contiguous tensors on the CPU");
      turn++;
      auto* first = static_cast<uint8_t*>(tensor.data_ptr());
      std::vector<uint8_t> mine(first, first + tensor.nbytes());
      store->set(key(turn, rank_), mine);
      for (int rank = 0; rank < size_; rank++) {
        std::vector<uint8_t> bytes = store->get(key(turn, rank));  // waits until it is there
        TORCH_CHECK(bytes.size() == mine.size(), "rank ", rank, " adds a tensor of another size");
        at::Tensor part = at::from_blob(bytes.data(), tensor.sizes(), tensor.options());
        rank == 0 ? tensor.copy_(part) : tensor.add_(part);
      }
      store->deleteKey(key(turn - 1, rank_));  // all have come to this turn, so all have read it
    }
    if (with_future) {
      return c10::make_intrusive<DoneWithFuture>(tensors);
    }
    return c10::make_intrusive<Done>();
  }

 private:
  static std::string key(int64_t turn, int rank) {
    return std::to_string(turn) + "/" + std::to_string(rank);
  }
};

PYBIND11_MODULE(smallest, module) {
  using StorePointer = c10::intrusive_ptr<c10d::Store>;
  using Limit = std::chrono::milliseconds;
  auto make = [](bool with_future) {
    return [with_future](const StorePointer& store, int rank, int size, Limit) {
      return c10::intrusive_ptr<c10d::Backend>(
          c10::make_intrusive<Smallest>(store, rank, size, with_future));
    };
  };
  py::call_guard<py::gil_scoped_release> without_lock;
  module.def("create", make(true), without_lock);
  module.def("create_without_future", make(false), without_lock);
}
