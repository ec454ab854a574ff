# Torch::cpu, one target however LibTorch got here.
#
# 1. -DTORCH_SITE=DIR, or .deps/libtorch when scripts/bootstrap put it there: a folder that holds the
#    wheel's torch/ and nvidia/ (find_package(Torch) of a wheel needs a CUDA toolkit, so it is not asked).
# 2. A LibTorch, or the torch of an installed wheel, in CMAKE_PREFIX_PATH (variable or environment): its
#    folder torch/, or torch/share/cmake as torch.utils.cmake_prefix_path gives it.
# 3. Otherwise the usual find_package(Torch).
include_guard(GLOBAL)

string(REPLACE ":" ";" torch_prefixes "$ENV{CMAKE_PREFIX_PATH}")
foreach(prefix IN LISTS CMAKE_PREFIX_PATH torch_prefixes)
  foreach(root "${prefix}" "${prefix}/../.." "${prefix}/torch")
    if(NOT TORCH_ROOT AND EXISTS "${root}/lib/libtorch_cpu.so")
      get_filename_component(TORCH_ROOT "${root}" ABSOLUTE)
    endif()
  endforeach()
endforeach()

if(NOT TORCH_SITE AND NOT TORCH_ROOT AND EXISTS "${CMAKE_SOURCE_DIR}/.deps/libtorch/torch")
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
elseif(TORCH_ROOT)
  message(STATUS "LibTorch: ${TORCH_ROOT}")
  # A wheel for CUDA needs two of NVIDIA's libraries to load, also without a GPU.
  file(GLOB torch_others "${TORCH_ROOT}/lib/libgomp*.so*" "${TORCH_ROOT}/../nvidia/*/lib/libcudart.so.*"
    "${TORCH_ROOT}/../nvidia/*/lib/libcupti.so.*")
  target_include_directories(Torch::cpu SYSTEM INTERFACE
    "${TORCH_ROOT}/include" "${TORCH_ROOT}/include/torch/csrc/api/include")
  target_link_libraries(Torch::cpu INTERFACE "${TORCH_ROOT}/lib/libtorch_cpu.so"
    "${TORCH_ROOT}/lib/libc10.so" ${torch_others} Threads::Threads)
  set(torch_folders "${TORCH_ROOT}/lib")
  foreach(file IN LISTS torch_others)
    get_filename_component(folder "${file}" DIRECTORY)
    list(APPEND torch_folders "${folder}")
  endforeach()
  list(REMOVE_DUPLICATES torch_folders)
  list(JOIN torch_folders ":" torch_folders)
  target_link_options(Torch::cpu INTERFACE "-Wl,-rpath-link,${torch_folders}" "-Wl,-rpath,${torch_folders}")
else()
  find_package(Torch REQUIRED)
  target_include_directories(Torch::cpu SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
  target_link_libraries(Torch::cpu INTERFACE ${TORCH_LIBRARIES} Threads::Threads)
endif()
