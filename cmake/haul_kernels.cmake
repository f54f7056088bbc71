# Kernel text and CPU kernels.
#
# The regions of C files between the two marker lines are the kernels of all devices: tools/embed.c writes them as
# generated/kernels/NAME.k.h, for the CPU units below, and as arrays in generated/kernels_text.c, for run-time
# compilers. generated/kernels/kernels.def lists the kernels. src/backends/cpu/kernels/unit.c is compiled once per dtype
# and instruction level.

set(HAUL_KERNEL_DTYPES bool u8 i8 i16 i32 i64 f16 bf16 f32 f64)
set(HAUL_GENERATED ${PROJECT_BINARY_DIR}/generated)

if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
    list(REMOVE_ITEM HAUL_CPU_LEVELS v3 v4)
endif()

# --- the text ----------------------------------------------------------------------------------------------------------

add_executable(haul_embed tools/embed.c)
target_link_libraries(haul_embed PRIVATE haul_warnings)

file(GLOB files CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} src/engine/*.c src/ops/*.c src/optim/*.c)
file(GLOB headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} src/backends/*/prelude.h)
list(APPEND headers src/kernels/common.h src/kernels/pointwise.h)
set(HAUL_KERNEL_TEXTS ${HAUL_GENERATED}/kernels_text.c)
set(stamp ${HAUL_GENERATED}/kernels.stamp)
set(written ${HAUL_KERNEL_TEXTS} ${HAUL_GENERATED}/kernels/all.k.h ${HAUL_GENERATED}/kernels/kernels.def)
foreach(file IN LISTS files)
    get_filename_component(name ${file} NAME_WE)
    list(APPEND written ${HAUL_GENERATED}/kernels/${name}.k.h)
endforeach()

# The tool leaves files alone whose text stays the same, so a change of host code does not compile the kernels again.
list(TRANSFORM files PREPEND ${PROJECT_SOURCE_DIR}/ OUTPUT_VARIABLE inputs)
list(TRANSFORM headers PREPEND ${PROJECT_SOURCE_DIR}/ OUTPUT_VARIABLE more)
add_custom_command(OUTPUT ${stamp} BYPRODUCTS ${written}
    COMMAND haul_embed ${HAUL_GENERATED} ${files} ${headers}
    COMMAND ${CMAKE_COMMAND} -E touch ${stamp}
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
    DEPENDS haul_embed ${inputs} ${more}
    COMMENT "Collecting kernel text" VERBATIM)
add_custom_target(haul_kernel_texts DEPENDS ${stamp})
set_source_files_properties(${HAUL_KERNEL_TEXTS} PROPERTIES GENERATED ON)

# --- the CPU kernels -----------------------------------------------------------------------------------------------------

set(HAUL_KERNEL_OBJECTS "")
set(HAUL_LEVEL_DEFINITIONS "")
# -fwrapv: integer elements wrap around, as on every device.
set(kernel_flags -O3 -fno-math-errno -fno-trapping-math -fwrapv)
# gcc copies a kernel's params by `rep movs`, which takes longer to start than a small kernel takes to run.
if(CMAKE_C_COMPILER_ID STREQUAL "GNU" AND CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
    list(APPEND kernel_flags "-mmemcpy-strategy=vector_loop:2048:noalign,libcall:-1:noalign")
endif()
# Kernels are written for all dtypes; a unit uses those that its table lists. A loop that clang cannot vectorise although
# a pragma asks for it is no reason to fail. (A library, as these must follow the -Wall of another one.)
add_library(haul_kernel_warnings INTERFACE)
target_compile_options(haul_kernel_warnings INTERFACE
    -Wno-unused-function $<$<C_COMPILER_ID:Clang,AppleClang>:-Wno-pass-failed>)
set(unit ${PROJECT_SOURCE_DIR}/src/backends/cpu/kernels/unit.c)
file(GLOB fma CONFIGURE_DEPENDS src/backends/cpu/kernels/*_fma.c)

function(haul_add_kernels name level sources)
    add_library(${name} OBJECT ${sources})
    add_dependencies(${name} haul_kernel_texts)
    target_link_libraries(${name} PRIVATE haul_private haul_kernel_warnings)
    target_compile_definitions(${name} PRIVATE HAUL_KERNEL_LEVEL=${level} ${HAUL_LEVEL_DEFINITIONS})
    haul_is_library_code(${name})
    if(level STREQUAL "v3")
        target_compile_options(${name} PRIVATE -march=x86-64-v3)
    elseif(level STREQUAL "v4")
        target_compile_options(${name} PRIVATE -march=x86-64-v4 -mprefer-vector-width=512)
    endif()
    set(HAUL_KERNEL_OBJECTS ${HAUL_KERNEL_OBJECTS} ${name} PARENT_SCOPE)
endfunction()

foreach(level IN LISTS HAUL_CPU_LEVELS)
    if(NOT level MATCHES "^(base|v3|v4)$")
        message(FATAL_ERROR "HAUL_CPU_LEVELS: '${level}' is not a level; known are base, v3 and v4")
    endif()
    list(APPEND HAUL_LEVEL_DEFINITIONS HAUL_HAVE_LEVEL_${level}=1)
endforeach()
foreach(level IN LISTS HAUL_CPU_LEVELS)
    # Wider vectors than those of v3 pay in register tiles, and hardly in loops that wait for memory.
    if(NOT level STREQUAL "v4")
        foreach(dtype IN LISTS HAUL_KERNEL_DTYPES)
            haul_add_kernels(haul_kernels_${dtype}_${level} ${level} ${unit})
            target_compile_definitions(haul_kernels_${dtype}_${level} PRIVATE
                HAUL_KERNEL_DTYPE_${dtype}=1 HAUL_KERNEL_SUFFIX=${dtype})
            target_compile_options(haul_kernels_${dtype}_${level} PRIVATE ${kernel_flags} -ffp-contract=off)
        endforeach()
    endif()
    haul_add_kernels(haul_kernels_fma_${level} ${level} "${fma}")
    target_compile_options(haul_kernels_fma_${level} PRIVATE ${kernel_flags} -ffp-contract=fast)
    # gcc before 13.3 aligns what AddressSanitizer moves off the stack too little for vectors of 64 bytes.
    if("address" IN_LIST HAUL_SANITIZE AND CMAKE_C_COMPILER_ID STREQUAL "GNU")
        target_compile_options(haul_kernels_fma_${level} PRIVATE --param=asan-use-after-return=0)
    endif()
endforeach()
