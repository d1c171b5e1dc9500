# Tests of what a host without Python calls.
add_library(kb_testing_host STATIC ${KB_FOLDER}bundle.c)
target_link_libraries(kb_testing_host PUBLIC kb_testing kb_host)
add_custom_command(TARGET kb_testing_host POST_BUILD VERBATIM COMMAND
  ${CMAKE_OBJCOPY} "--redefine-syms=${CMAKE_CURRENT_SOURCE_DIR}/torture_calls.txt" "$<TARGET_FILE:kb_testing_host>")

foreach(subject host_layout manifest bundle plugin torture_embed)
  kb_add_test(test_${subject} kb_testing_host)
endforeach()
list(APPEND threaded test_plugin)

foreach(name manifest bundle)
  kb_add_fuzzer(${name} kb_testing_host)
endforeach()

if(KB_PJRT_INCLUDE)
  kb_add_test(pjrt_check kb_testing_host)
  target_include_directories(pjrt_check SYSTEM PRIVATE "${KB_PJRT_INCLUDE}")
endif()
