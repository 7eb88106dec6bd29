#include "cpu/workers.h"

#include <pthread.h>
#include <signal.h>
#include <torch/csrc/stable/library.h>

#include <chrono>
#include <thread>
#include <utility>

#include "ops/refuse.h"

namespace molspec::cpu {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

// The steps of a decode loop are tens of microseconds apart.
constexpr microseconds kSpin{60}, kYield{2000};
// Items are alike: if the caller waits longer than it has worked, and than this, a worker has lost
// its core. The caller then works alone for so many times the wait.
constexpr microseconds kLost{400};
constexpr int kAloneFor = 50;

constexpr int kItemBits = 20;
constexpr uint64_t kItemMask = (uint64_t{1} << kItemBits) - 1;

int next_item(uint64_t ticket) { return static_cast<int>(ticket & kItemMask); }
int item_count(uint64_t ticket) { return static_cast<int>(ticket >> kItemBits & kItemMask); }
uint64_t run_number(uint64_t ticket) { return ticket >> 2 * kItemBits; }

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

// Spins, then yields. Returns false if `done` did not hold after kSpin + kYield.
template <typename Done>
bool wait_briefly(const Done& done) {
  for (int i = 0; i < 64; ++i) {
    if (done()) return true;
    relax();
  }
  const auto begin = Clock::now();
  for (auto waited = Clock::duration::zero(); waited < kSpin + kYield;
       waited = Clock::now() - begin) {
    for (int i = 0; i < 16; ++i) {
      if (done()) return true;
      waited < kSpin ? relax() : std::this_thread::yield();
    }
  }
  return done();
}

// Never deleted: the threads may outlive all static objects.
Workers*& instance() {
  static Workers* workers = [] {
    // A forked child has no threads, and their locks stay locked: it gets new workers.
    pthread_atfork(nullptr, nullptr, [] {
      Workers* fresh = new Workers;
      fresh->resize(instance()->size());
      instance() = fresh;
    });
    return new Workers;
  }();
  return workers;
}

}  // namespace

Workers& Workers::get() { return *instance(); }

void Workers::run(int count, Call call, const void* work) {
  std::unique_lock<std::mutex> running(running_, std::defer_lock);
  const auto alone = [&] {
    for (int item = 0; item < count; ++item) call(work, item);
  };
  if (count == 1 || size() == 1 || !running.try_lock()) return alone();
  hire();
  const auto begin = Clock::now();
  if (begin < alone_until_) return alone();
  call_ = call;
  work_ = work;
  failed_.store(false, std::memory_order_relaxed);
  unfinished_.store(count, std::memory_order_relaxed);
  const uint64_t number = run_number(ticket_.load(std::memory_order_relaxed)) + 1;
  ticket_.store(number << 2 * kItemBits | static_cast<uint64_t>(count) << kItemBits);
  if (sleeping_.load() > 0) {
    {
      std::lock_guard<std::mutex> lock(sleep_);
    }
    wake_.notify_all();
  }
  work_off();
  const auto worked = Clock::now();
  const auto done = [this] { return unfinished_.load(std::memory_order_acquire) == 0; };
  while (!wait_briefly(done)) {
  }
  const auto now = Clock::now();
  const auto waited = now - worked;
  if (waited > worked - begin + kLost) alone_until_ = now + kAloneFor * waited;
  if (failed_.load(std::memory_order_relaxed)) std::rethrow_exception(std::move(failure_));
}

// Starts the missing workers, as far as the system has threads. They block signals, which go to the
// earlier threads.
void Workers::hire() {
  if (hired_ >= size() - 1) return;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    for (; hired_ < size() - 1; ++hired_) std::thread(&Workers::help, this, hired_).detach();
  } catch (const std::exception&) {  // of threads or memory; fewer workers do
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

bool Workers::claim(uint64_t* ticket, int* item) {
  *ticket = ticket_.load(std::memory_order_acquire);
  while (next_item(*ticket) < item_count(*ticket)) {
    *item = next_item(*ticket);
    if (ticket_.compare_exchange_weak(*ticket, *ticket + 1, std::memory_order_acq_rel)) return true;
  }
  return false;
}

void Workers::work_off() {
  uint64_t ticket;
  int item;
  while (claim(&ticket, &item)) {
    try {
      call_(work_, item);
    } catch (...) {
      if (!failed_.exchange(true, std::memory_order_relaxed)) failure_ = std::current_exception();
    }
    unfinished_.fetch_sub(1, std::memory_order_release);
  }
}

void Workers::help(int worker) {
  for (;;) {
    const uint64_t seen = ticket_.load(std::memory_order_acquire);
    if (worker < size() - 1) work_off();
    wait_for_work(run_number(seen), worker);
  }
}

void Workers::wait_for_work(uint64_t seen, int worker) {
  const auto there_is_some = [&] {
    return run_number(ticket_.load()) != seen && worker < size() - 1;
  };
  if (worker < size() - 1 && wait_briefly(there_is_some)) return;
  std::unique_lock<std::mutex> lock(sleep_);
  sleeping_.fetch_add(1);
  wake_.wait(lock, there_is_some);
  sleeping_.fetch_sub(1);
}

void set_num_threads_op(int64_t threads) {
  check(threads >= 1 && threads <= kMostThreads, "threads is ", threads, ": expected 1 to ",
        kMostThreads);
  Workers::get().resize(static_cast<int>(threads));
}

int64_t get_num_threads_op() { return Workers::get().size(); }

STABLE_TORCH_LIBRARY_IMPL(molspec, CompositeExplicitAutograd, library) {
  library.impl("set_num_threads", TORCH_BOX(&set_num_threads_op));
  library.impl("get_num_threads", TORCH_BOX(&get_num_threads_op));
}

}  // namespace molspec::cpu
