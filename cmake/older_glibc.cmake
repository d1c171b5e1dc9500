# Lets libraries that are linked on a newer system load with glibc 2.27, the oldest that jaxlib's
# wheels support.
#
# glibc 2.34 moved libpthread and libdl into libc.so.6, and gave their functions a new version, which
# the linker would pick. Here it finds them first in libraries like those of older systems, which
# exist for the linker alone. glibc 2.33 gave `stat` a symbol; cmake/stat.c calls what `stat` was
# before. glibc 2.34 gave the start of programs a new version, too; cmake/start.c calls the old one.
# auditwheel refuses the wheel if a newer symbol is needed (tests/release/build.py).

# The first version that glibc had on a processor.
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
  set(KB_FIRST_GLIBC GLIBC_2.2.5)
elseif(CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")
  set(KB_FIRST_GLIBC GLIBC_2.17)
else()
  message(FATAL_ERROR "KB_OLDER_GLIBC knows the versions of symbols on x86_64 and aarch64 alone")
endif()

# A shared library with functions of that version.
function(kb_add_older_library target name version)
  set(folder "${CMAKE_CURRENT_BINARY_DIR}/older_glibc")
  list(JOIN ARGN ";" functions)
  set(source "")
  foreach(function IN LISTS ARGN)
    string(APPEND source "void ${function}(void);\nvoid ${function}(void) {}\n")
  endforeach()
  file(CONFIGURE OUTPUT "${folder}/${name}.c" CONTENT "${source}" @ONLY)
  file(CONFIGURE OUTPUT "${folder}/${name}.map" CONTENT "${KB_FIRST_GLIBC} { global: ${functions}; };\n" @ONLY)
  add_library(${target} SHARED "${folder}/${name}.c")
  target_compile_options(${target} PRIVATE -fno-builtin -fvisibility=default)
  target_link_options(${target} PRIVATE -nostdlib "-Wl,--version-script=${folder}/${name}.map")
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name} SOVERSION ${version}
    LIBRARY_OUTPUT_DIRECTORY "${folder}" INTERPROCEDURAL_OPTIMIZATION OFF)
endfunction()

kb_add_older_library(kb_older_dl dl 2 dladdr dlerror dlopen dlsym)
kb_add_older_library(kb_older_pthread pthread 0 pthread_create pthread_detach pthread_once)
add_library(kb_older_stat OBJECT "${CMAKE_CURRENT_LIST_DIR}/stat.c")
add_library(kb_older_start OBJECT "${CMAKE_CURRENT_LIST_DIR}/start.c")
set_target_properties(kb_older_start PROPERTIES INTERPROCEDURAL_OPTIMIZATION OFF)
target_compile_definitions(kb_older_start PRIVATE KB_FIRST_GLIBC="${KB_FIRST_GLIBC}")

# The libraries come before libc, so that the linker takes the functions from them. With --as-needed,
# which some compilers pass, it would drop them before link-time optimisation shows who needs them.
function(kb_link_older_glibc target)
  target_link_options(${target} PRIVATE -Wl,--no-as-needed)
  target_link_libraries(${target} PRIVATE kb_older_dl kb_older_pthread)
  # The system's library is to be found when the program runs, not that of the build folder.
  set_target_properties(${target} PROPERTIES SKIP_BUILD_RPATH ON)
endfunction()
