# CUDA, where there is a compiler for it. Sets MOLSPEC_BUILD_CUDA and defines molspec_torch_cuda: what
# the CUDA operators link against.
#
# MOLSPEC_CUDA=AUTO builds them where nvcc compiles a test program, ON insists, OFF leaves them out.
# No GPU is needed to build, and no CUDA build of torch: a stub stands in for its library.

set(MOLSPEC_BUILD_CUDA OFF)
if(NOT MOLSPEC_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "MOLSPEC_CUDA is '${MOLSPEC_CUDA}': expected AUTO, ON or OFF")
endif()
if(MOLSPEC_CUDA STREQUAL "OFF")
  return()
endif()

# Machine code for Ampere and Hopper, and PTX that later chips translate, where nothing else is asked
# for.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS})
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90a-real 90-virtual)
endif()
include(CheckLanguage)
check_language(CUDA)
find_package(CUDAToolkit 12.4 QUIET)
if(NOT CMAKE_CUDA_COMPILER OR NOT CUDAToolkit_FOUND)
  if(MOLSPEC_CUDA STREQUAL "ON")
    message(FATAL_ERROR "MOLSPEC_CUDA is ON: expected an nvcc of CUDA 12.4 or later that compiles")
  endif()
  message(STATUS "molspec: no CUDA compiler, so no CUDA operators")
  return()
endif()
enable_language(CUDA)
set(CMAKE_CUDA_STANDARD 17)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(MOLSPEC_BUILD_CUDA ON)

# -fmad=false: as on the CPU, a multiplication and an addition are fused only where the code says so.
add_library(molspec_cuda_flags INTERFACE)
foreach(flag "-fmad=false" "-Xcompiler -Wall" "-Xcompiler -Wextra")
  target_compile_options(molspec_cuda_flags INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:${flag}>")
endforeach()

add_library(molspec_torch_cuda INTERFACE)
target_compile_definitions(molspec_torch_cuda INTERFACE USE_CUDA)
target_link_libraries(molspec_torch_cuda INTERFACE
  molspec_torch molspec_cuda_flags CUDA::cudart_static)
if(EXISTS "${torch_folder}/lib/libtorch_cuda.so")
  target_link_libraries(molspec_torch_cuda INTERFACE "${torch_folder}/lib/libtorch_cuda.so")
else()
  # Only the name and the symbol count: at run time torch has long loaded the real one.
  add_library(torch_cuda SHARED cmake/torch_cuda_stub.cpp)
  set_target_properties(torch_cuda PROPERTIES CXX_VISIBILITY_PRESET default)
  target_link_libraries(molspec_torch_cuda INTERFACE torch_cuda)
endif()
# torch loads libtorch_cuda.so with local scope: our library must name it, needed or not.
target_link_options(molspec_torch_cuda INTERFACE -Wl,--no-as-needed -Wl,--exclude-libs,ALL)
