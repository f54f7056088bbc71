# The list of all operations: tools/operations.cmake collects it from the files that define them, as
# generated/operations.h, from which src/catalog makes a table.

set(rows include/haul/pointwise.def)
file(GLOB_RECURSE operation_files CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
    src/engine/*.c src/ops/*.c src/optim/*.c)
file(GLOB operation_headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} include/haul/*.h)
set(list ${PROJECT_BINARY_DIR}/generated/operations.h)
set(stamp ${PROJECT_BINARY_DIR}/generated/operations.stamp)
set(inputs ${operation_files} ${operation_headers} ${rows} tools/operations.cmake)
list(TRANSFORM inputs PREPEND ${PROJECT_SOURCE_DIR}/)
# The list stays untouched where no operation comes or goes, so that nothing is compiled again.
add_custom_command(OUTPUT ${stamp} BYPRODUCTS ${list}
    COMMAND ${CMAKE_COMMAND} "-DSOURCES=${operation_files}" -DROWS=${rows} "-DHEADERS=${operation_headers}" -DOUT=${list}
        -P tools/operations.cmake
    COMMAND ${CMAKE_COMMAND} -E touch ${stamp}
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
    DEPENDS ${inputs}
    COMMENT "Collecting operations" VERBATIM)
add_custom_target(haul_operation_list DEPENDS ${stamp})
