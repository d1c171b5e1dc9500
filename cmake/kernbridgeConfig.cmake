# find_package(kernbridge CONFIG): what programs and kernels in C and C++ need of the installed package.
#
#   kernbridge::headers   the folder of headers, for kernels: kernbridge/kernbridge.h and kernbridge.hpp
#   kernbridge::host      libkernbridge.so and kernbridge/host.h, for programs that run bundles without Python
get_filename_component(kernbridge_ROOT_DIR "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET kernbridge::headers)
  add_library(kernbridge::headers INTERFACE IMPORTED)
  set_target_properties(kernbridge::headers PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${kernbridge_ROOT_DIR}/include")
endif()
if(NOT TARGET kernbridge::host AND EXISTS "${kernbridge_ROOT_DIR}/lib/libkernbridge.so")
  add_library(kernbridge::host SHARED IMPORTED)
  set_target_properties(kernbridge::host PROPERTIES
    IMPORTED_LOCATION "${kernbridge_ROOT_DIR}/lib/libkernbridge.so"
    INTERFACE_LINK_LIBRARIES kernbridge::headers)
endif()
