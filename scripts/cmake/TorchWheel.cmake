# Torch::cpu, one target however LibTorch got here.
#
# 1. -DTORCH_SITE=DIR, or .deps/libtorch when scripts/bootstrap put it there: a folder that holds the
#    wheel's torch/ and nvidia/ (find_package(Torch) of a wheel needs a CUDA toolkit, so it is not asked).
# 2. Otherwise the usual find_package(Torch), which finds a LibTorch under CMAKE_PREFIX_PATH.
include_guard(GLOBAL)

if(NOT TORCH_SITE AND NOT CMAKE_PREFIX_PATH AND EXISTS "${CMAKE_SOURCE_DIR}/.deps/libtorch/torch")
  set(default_site "${CMAKE_SOURCE_DIR}/.deps/libtorch")
endif()
set(TORCH_SITE "${default_site}" CACHE PATH "folder that holds torch/ and nvidia/ of the wheels")

function(torch_import name file)
  if(NOT EXISTS "${file}")
    message(FATAL_ERROR "LibTorch is incomplete: ${file} is missing. Run scripts/bootstrap, or pass "
                        "-DCMAKE_PREFIX_PATH=<your libtorch>.")
  endif()
  get_filename_component(soname "${file}" NAME)
  add_library(${name} SHARED IMPORTED GLOBAL)
  set_target_properties(${name} PROPERTIES IMPORTED_LOCATION "${file}" IMPORTED_SONAME "${soname}")
endfunction()

add_library(Torch::cpu INTERFACE IMPORTED GLOBAL)
if(TORCH_SITE)
  torch_import(Torch::c10 "${TORCH_SITE}/torch/lib/libc10.so")
  torch_import(Torch::torch_cpu "${TORCH_SITE}/torch/lib/libtorch_cpu.so")
  torch_import(Torch::gomp "${TORCH_SITE}/torch/lib/libgomp.so.1")
  torch_import(Torch::cudart "${TORCH_SITE}/nvidia/cu13/lib/libcudart.so.13")
  torch_import(Torch::cupti "${TORCH_SITE}/nvidia/cu13/lib/libcupti.so.13")
  target_include_directories(Torch::cpu SYSTEM INTERFACE
    "${TORCH_SITE}/torch/include" "${TORCH_SITE}/torch/include/torch/csrc/api/include")
  target_link_libraries(Torch::cpu INTERFACE Torch::torch_cpu Torch::c10 Threads::Threads)
  target_link_options(Torch::cpu INTERFACE
    "-Wl,-rpath-link,${TORCH_SITE}/torch/lib:${TORCH_SITE}/nvidia/cu13/lib"
    "-Wl,-rpath,${TORCH_SITE}/torch/lib:${TORCH_SITE}/nvidia/cu13/lib")
else()
  find_package(Torch REQUIRED)
  target_include_directories(Torch::cpu SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
  target_link_libraries(Torch::cpu INTERFACE ${TORCH_LIBRARIES} Threads::Threads)
endif()
