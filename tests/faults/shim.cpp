// Loaded before everything else (LD_PRELOAD): counts a process's changes of files below a folder,
// and the operators' requests for memory, and fails the one with a given number.

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <new>

namespace {

enum Fault { kNone, kKill, kTorn, kFull, kMemory };

std::atomic<long> count{0};
long fails_at = 0;
Fault fault = kNone;
char root[PATH_MAX];

template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

bool below_root(const char* path) {
  char whole[PATH_MAX];
  if (path[0] != '/') {
    if (getcwd(whole, sizeof(whole)) == nullptr) return false;
    strncat(whole, "/", sizeof(whole) - strlen(whole) - 1);
    strncat(whole, path, sizeof(whole) - strlen(whole) - 1);
    path = whole;
  }
  return root[0] != 0 && strncmp(path, root, strlen(root)) == 0;
}

bool below_root(int file) {
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", file);
  const ssize_t length = readlink(link, path, sizeof(path) - 1);
  if (length < 0) return false;
  path[length] = 0;
  return below_root(path);
}

[[noreturn]] void die() {
  raise(SIGKILL);
  abort();
}

// Called before a change of a file or folder.
void change() {
  if (++count == fails_at && (fault == kKill || fault == kTorn)) die();
}

// Called before a write: false if the disk is full. A torn write writes half of its bytes.
template <typename Half>
bool may_write(const Half& half) {
  const long number = ++count;
  if (fails_at == 0 || number < fails_at) return true;
  if (fault == kFull) {
    errno = ENOSPC;
    return false;
  }
  if (number > fails_at) return true;
  if (fault == kTorn) half();
  if (fault == kKill || fault == kTorn) die();
  return true;
}

bool from_operators(void* caller) {
  Dl_info info;
  if (dladdr(caller, &info) == 0 || info.dli_fname == nullptr) return false;
  // Not in _native: an exception in the bookkeeping of pybind11 ends the process.
  return strstr(info.dli_fname, "molspec_ops") != nullptr;
}

void* allocate(size_t size, void* caller) {
  if (fault == kMemory && from_operators(caller) && ++count == fails_at) throw std::bad_alloc();
  void* memory = malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

extern "C" {

void molspec_faults_arm(const char* folder, int kind, long at) {
  snprintf(root, sizeof(root), "%s", folder);
  count = 0;
  fails_at = at;
  fault = static_cast<Fault>(kind);
}

long molspec_faults_count() { return count; }

ssize_t write(int file, const void* data, size_t size) {
  static const auto real = next<decltype(write)>("write");
  if (root[0] != 0 && below_root(file) && !may_write([&] { real(file, data, size / 2); }))
    return -1;
  return real(file, data, size);
}

ssize_t writev(int file, const struct iovec* parts, int part_count) {
  static const auto real = next<decltype(writev)>("writev");
  if (root[0] != 0 && below_root(file) && !may_write([&] { real(file, parts, 1); })) return -1;
  return real(file, parts, part_count);
}

int fsync(int file) {
  static const auto real = next<decltype(fsync)>("fsync");
  if (root[0] != 0 && below_root(file)) change();
  return real(file);
}

int ftruncate64(int file, off64_t size) {
  static const auto real = next<decltype(ftruncate64)>("ftruncate64");
  if (root[0] != 0 && below_root(file)) change();
  return real(file, size);
}

int ftruncate(int file, off_t size) { return ftruncate64(file, size); }

int rename(const char* from, const char* to) {
  static const auto real = next<decltype(rename)>("rename");
  if (below_root(to)) change();
  return real(from, to);
}

int mkdir(const char* path, mode_t mode) {
  static const auto real = next<int(const char*, mode_t)>("mkdir");
  if (below_root(path)) change();
  return real(path, mode);
}

int unlink(const char* path) {
  static const auto real = next<decltype(unlink)>("unlink");
  if (below_root(path)) change();
  return real(path);
}

int unlinkat(int folder, const char* path, int flags) {
  static const auto real = next<decltype(unlinkat)>("unlinkat");
  if (root[0] != 0 && below_root(folder)) change();
  return real(folder, path, flags);
}

int rmdir(const char* path) {
  static const auto real = next<decltype(rmdir)>("rmdir");
  if (below_root(path)) change();
  return real(path);
}

}  // extern "C"

void* operator new(size_t size) { return allocate(size, __builtin_return_address(0)); }
void* operator new[](size_t size) { return allocate(size, __builtin_return_address(0)); }
void operator delete(void* memory) noexcept { free(memory); }
void operator delete[](void* memory) noexcept { free(memory); }
void operator delete(void* memory, size_t) noexcept { free(memory); }
void operator delete[](void* memory, size_t) noexcept { free(memory); }
