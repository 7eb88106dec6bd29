# torch, by its folder: find_package(Torch) insists on a CUDA toolkit that matches torch's own.
# Defines the target molspec_torch: headers and libraries of the stable ABI.

execute_process(
  COMMAND "${Python_EXECUTABLE}" -c
    "import importlib.util, pathlib; print(pathlib.Path(importlib.util.find_spec('torch').origin).parent)"
  OUTPUT_VARIABLE torch_folder OUTPUT_STRIP_TRAILING_WHITESPACE
  RESULT_VARIABLE torch_status ERROR_QUIET)
if(NOT torch_status EQUAL 0)
  message(FATAL_ERROR "torch is not installed for ${Python_EXECUTABLE}; molspec builds against torch>=2.11")
endif()

add_library(molspec_torch INTERFACE)
target_include_directories(molspec_torch SYSTEM INTERFACE
  "${torch_folder}/include" "${torch_folder}/include/torch/csrc/api/include")
# The oldest torch whose stable ABI is used: the library loads there and in every later one.
target_compile_definitions(molspec_torch INTERFACE TORCH_TARGET_VERSION=0x020b000000000000)
target_link_libraries(molspec_torch INTERFACE
  "${torch_folder}/lib/libtorch_cpu${CMAKE_SHARED_LIBRARY_SUFFIX}"
  "${torch_folder}/lib/libc10${CMAKE_SHARED_LIBRARY_SUFFIX}")
if(NOT APPLE) # whose linker leaves nothing undefined unless it is asked to
  target_link_options(molspec_torch INTERFACE -Wl,-z,defs)
endif()
