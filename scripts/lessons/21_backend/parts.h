// What the small backends share: what a collective returns, a tensor as bytes, and a creator.

#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/utils/pybind.h>

#include <pybind11/chrono.h>

using Bytes = std::vector<uint8_t>;
using Limit = std::chrono::milliseconds;
using StorePointer = c10::intrusive_ptr<c10d::Store>;
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

inline WorkPointer done(const Tensors& tensors, bool with_future) {
  if (with_future) {
    return c10::make_intrusive<DoneWithFuture>(tensors);
  }
  return c10::make_intrusive<Done>();
}

// A copy of a tensor's bytes, which is what a store can hold.
inline Bytes bytes_of(const at::Tensor& tensor) {
  bool plain = tensor.device().is_cpu() && tensor.is_contiguous();
  TORCH_CHECK(plain, "the small backends take contiguous tensors on the CPU");
  auto* first = static_cast<uint8_t*>(tensor.data_ptr());
  return Bytes(first, first + tensor.nbytes());
}

// These bytes as a tensor of the same shape and type as `like`. It copies nothing.
inline at::Tensor tensor_of(Bytes& bytes, const at::Tensor& like) {
  TORCH_CHECK(bytes.size() == like.nbytes(), "another rank has a tensor of another size");
  return at::from_blob(bytes.data(), like.sizes(), like.options());
}

// What Python calls to make a backend of this kind. `limit` is how long a get from the store waits.
template <typename Kind>
auto creator(bool with_future = true) {
  return [with_future](const StorePointer& store, int rank, int size, Limit limit) {
    store->setTimeout(limit);
    return c10::intrusive_ptr<c10d::Backend>(
        c10::make_intrusive<Kind>(store, rank, size, with_future));
  };
}

using without_lock = py::call_guard<py::gil_scoped_release>;  // other threads of Python may go on
