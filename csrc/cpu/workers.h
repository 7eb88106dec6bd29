// Threads that share the rows of a step.
//
// Threads claim items one by one: a worker that loses its core delays only its current item, and
// the caller does all items if no worker helps. After such a delay the caller works alone for some
// time. A waiting thread spins for some microseconds, then yields its core; an idle worker then
// sleeps.

#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>

#include "common/limits.h"

namespace molspec::cpu {

class Workers {
 public:
  // The workers of this process. They start with the first work; a forked child has its own.
  static Workers& get();

  int size() const { return size_.load(std::memory_order_relaxed); }
  void resize(int size) { size_.store(size, std::memory_order_relaxed); }

  // Calls function(item) once for every item of [0, count), on this thread and on workers, and
  // returns when all are done. Throws the first exception. The function must not call `run` itself.
  // While one thread uses the workers, other callers work alone.
  template <typename Function>
  void run(int count, const Function& function) {
    const auto call = [](const void* work, int item) {
      (*static_cast<const Function*>(work))(item);
    };
    run(count, call, &function);
  }

 private:
  using Call = void (*)(const void* work, int item);

  void run(int count, Call call, const void* work);
  void hire();
  void help(int worker);
  bool claim(uint64_t* ticket, int* item);
  void work_off();
  void wait_for_work(uint64_t seen, int worker);

  std::atomic<int> size_{1};
  std::mutex running_;  // guards all up to work_
  int hired_ = 0;
  std::chrono::steady_clock::time_point alone_until_{};

  // The current work: written before its ticket, and not again before its last item is done, so a
  // thread that has claimed an item may read it.
  Call call_ = nullptr;
  const void* work_ = nullptr;
  std::atomic<bool> failed_{false};
  std::exception_ptr failure_;  // written by the thread that set `failed_`
  // The number of the run, its items, and the first unclaimed item.
  alignas(64) std::atomic<uint64_t> ticket_{0};
  alignas(64) std::atomic<int> unfinished_{0};

  std::mutex sleep_;
  std::condition_variable wake_;
  std::atomic<int> sleeping_{0};
};

// Calls function(first, rows) for blocks of rows that cover [0, rows): one block of one thread.
template <typename Function>
void for_row_blocks(int rows, const Function& function) {
  Workers& workers = Workers::get();
  const int threads = workers.size();
  // A block reads all weights, so there are only as many blocks as load the threads evenly. With
  // few rows every thread gets some, but at least two: one row costs as much as two.
  constexpr int kBlockRows = 32;
  const int even = ((rows + kBlockRows - 1) / kBlockRows + threads - 1) / threads * threads;
  const int most = rows / 2 > 1 ? rows / 2 : 1;
  const int count = threads == 1 ? 1 : even < most ? even : most;
  workers.run(count, [&](int block) {
    const auto begin = [&](int64_t of) { return static_cast<int>(of * rows / count); };
    function(begin(block), begin(block + 1) - begin(block));
  });
}

}  // namespace molspec::cpu
