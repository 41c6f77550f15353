// The processes of one run, with ranks 0 … size − 1. All of them make the same calls in the same
// order; only rank 0 writes files. A single process has a communicator too, whose calls do nothing.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "geores/base/refusal.h"
#include "geores/ops/torch.h"

namespace geores {

using torch::Tensor;

// Another process has ended, hangs, or never connected. The run cannot continue; its checkpoint
// remains.
struct LostProcess : Error {
  using Error::Error;
};

class Communicator {
 public:
  Communicator(int64_t rank, int64_t size) : rank_(rank), size_(size) {}
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int64_t rank() const { return rank_; }
  int64_t size() const { return size_; }
  bool is_first() const { return rank_ == 0; }

  // The device of the tensors that are summed or broadcast.
  virtual torch::Device device() const { return torch::kCPU; }

  // False for a single process: a step then has nothing to sum. A group of one process still sums.
  virtual bool is_group() const = 0;

  // All-reduce in place; every process gets the same bits.
  virtual void sum(Tensor& values) const = 0;

  // Broadcasts rank 0's values, in place.
  virtual void broadcast(Tensor& values) const = 0;

  // Returns when all processes have called it.
  virtual void barrier() const = 0;

  // Waits for the collectives above that are still running on a GPU. On a CPU they have ended
  // already.
  virtual void settle() const {}

  // Throws in all processes if these facts differ from rank 0's, and names the first difference.
  // Tensors of different sizes would abort a process inside the library, so this check comes before
  // the first collective.
  virtual void same(const nlohmann::json& facts) const = 0;

 private:
  int64_t rank_, size_;
};

// The communicator of a single process.
const Communicator& one_process();

// The bytes of a contiguous tensor, as a view: exact for every type, −0 and NaN included.
Tensor bytes_of(const Tensor& tensor);

// Broadcasts all these tensors from rank 0, whatever their types.
void broadcast_all(const Communicator& communicator, const std::vector<Tensor>& tensors);

// All-gather: the ranks own the rows of `whole` in equal parts, in order. Afterwards every process
// has all rows.
void gather_rows(const Communicator& communicator, const Tensor& whole);

// Merges numbers of which each process has some, and zeros for the others.
std::vector<double> gather_numbers(const Communicator& communicator,
                                   const std::vector<double>& own);

// Throws in all processes if the values differ between them in any bit. `when` ends the sentence:
// "after step 100".
void require_same_values(const Communicator& communicator, const std::vector<Tensor>& tensors,
                         const std::string& when);

// The checksum that require_equal exchanges: on the tensor's device, (1) int64.
Tensor checksum(const Tensor& tensor);

}  // namespace geores
