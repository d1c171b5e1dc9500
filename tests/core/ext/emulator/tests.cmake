# Tests of CUDA kernels on CPUs.
foreach(subject
    hostcuda fibre spread block check check_blocks check_memory check_messages hostlaunch print unwritten guard race
    hostdriver range fences shadow libdevice)
  kb_add_test(test_${subject} kb_testing)
endforeach()
kb_add_test(test_target_host kb_testing_cuda)

kb_add_object_test(cuda_code CUDA_CODE_SAMPLE)
if(KB_CLANG)
  kb_add_clang_test(cuda_code CUDA_CODE_SAMPLE)
endif()
kb_add_test(test_torture_blocks kb_testing_cuda_code)

# Asks for the lines of its own code, and of the library's.
kb_add_test(test_sites kb_testing)
target_compile_options(test_sites PRIVATE -g)
target_compile_definitions(test_sites PRIVATE LIBRARY_SAMPLE="$<TARGET_FILE:library_sample>")
add_dependencies(test_sites library_sample)

# Libraries of CUDA C++ for the CPU, two of them of another version.
kb_add_test(test_cuda_library kb_testing_library)
target_link_libraries(test_cuda_library PRIVATE kb_testing_cuda)
target_compile_definitions(test_cuda_library PRIVATE LIBRARY_SAMPLE="$<TARGET_FILE:library_sample>")
foreach(name SAMPLE SAMPLE_OF_ANOTHER_SLOT SAMPLE_OF_ANOTHER_KERNEL)
  add_library(cuda_library_${name} MODULE ${KB_FOLDER}cuda_library_sample.c)
  target_include_directories(cuda_library_${name}
    PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/include/ext/emulator)
  target_compile_definitions(cuda_library_${name} PRIVATE ${name})
  target_compile_definitions(test_cuda_library PRIVATE ${name}="$<TARGET_FILE:cuda_library_${name}>")
  add_dependencies(test_cuda_library cuda_library_${name})
endforeach()

# Libraries with variables, and without.
kb_add_test(test_variables kb_testing_cuda)
foreach(name SAMPLE SAMPLE_WITHOUT)
  add_library(variables_${name} MODULE ${KB_FOLDER}variables_sample.c)
  target_include_directories(variables_${name}
    PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/include/ext/emulator)
  target_compile_definitions(variables_${name} PRIVATE VARIABLES_${name})
  target_compile_definitions(test_variables PRIVATE ${name}="$<TARGET_FILE:variables_${name}>")
  add_dependencies(test_variables variables_${name})
endforeach()

set_tests_properties(test_hostcuda test_block test_check test_check_blocks PROPERTIES COST 10)
list(APPEND threaded test_block test_fibre test_hostcuda test_cuda_library test_variables)

kb_add_fuzzer(hostcuda kb_testing_cuda)
kb_add_fuzzer(cuda_code kb_testing_cuda_code)
