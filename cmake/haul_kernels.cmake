# Kernel text and CPU kernels.
#
# The regions of C files between the two marker lines and the rows of pointwise.def are the kernels of all devices.
# tools/embed.c writes them as generated/kernels/NAME.k.h, for the CPU units below, and as arrays in
# generated/kernels_text.c, for run-time compilers. generated/kernels/kernels.def lists the kernels. A unit,
# generated/kernels/units/NAME_DTYPE.c, has one text for one dtype, and is compiled once for each instruction level.

set(HAUL_GENERATED ${PROJECT_BINARY_DIR}/generated)

if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
    list(REMOVE_ITEM HAUL_CPU_LEVELS v3 v4)
    if(NOT HAUL_CPU_LEVELS)
        set(HAUL_CPU_LEVELS base)
    endif()
endif()

# --- the text ----------------------------------------------------------------------------------------------------------

file(GLOB_RECURSE files CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} src/engine/*.c src/ops/*.c src/optim/*.c)
file(GLOB headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} src/backends/*/prelude.h src/backends/*/text/*.h)
file(GLOB_RECURSE included CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/ops/*_kernel.h
    ${PROJECT_SOURCE_DIR}/src/optim/*_kernel.h)
list(APPEND included ${PROJECT_SOURCE_DIR}/src/kernels/element.h)
list(APPEND headers src/kernels/constants.h src/kernels/common.h src/kernels/functions.h src/kernels/elementary.h
    src/kernels/shared.h
    src/kernels/custom.h src/kernels/pointwise.h src/kernels/rows.h src/kernels/near.def include/haul/pointwise.def)
set(HAUL_KERNEL_TEXTS ${HAUL_GENERATED}/kernels_text.c)

# The tool is compiled and run when the build is configured, because which units there are depends on the text.
file(GLOB tool CONFIGURE_DEPENDS tools/embed*.c)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${tool} ${PROJECT_SOURCE_DIR}/tools/embed.h)
set(embed ${PROJECT_BINARY_DIR}/haul_embed)
set(warnings -Wall -Wextra -Wpedantic -Wshadow)
if(HAUL_WERROR)
    list(APPEND warnings -Werror)
endif()
try_compile(compiled ${PROJECT_BINARY_DIR}/CMakeFiles/haul_embed SOURCES ${tool}
    COMPILE_DEFINITIONS -D_GNU_SOURCE ${warnings}
    C_STANDARD 11 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF
    OUTPUT_VARIABLE output COPY_FILE ${embed})
if(NOT compiled)
    message(FATAL_ERROR "tools/embed.c does not compile:\n${output}")
endif()
file(MAKE_DIRECTORY ${HAUL_GENERATED})
execute_process(COMMAND ${embed} ${HAUL_GENERATED} ${files} ${headers} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
    RESULT_VARIABLE result ERROR_VARIABLE output)
if(NOT result EQUAL 0)
    message(FATAL_ERROR "${output}")
endif()
file(GLOB units CONFIGURE_DEPENDS ${HAUL_GENERATED}/kernels/units/*.c)
if(HAUL_SMALL)
    list(FILTER units EXCLUDE REGEX "(_(f16|bf16|f64)|/unsigned_[a-z0-9]+)\\.c$")
endif()

# The tool leaves files alone whose text stays the same, so a change of host code does not compile the kernels again.
set(stamp ${HAUL_GENERATED}/kernels.stamp)
file(GLOB written ${HAUL_GENERATED}/kernels/*)
list(TRANSFORM files PREPEND ${PROJECT_SOURCE_DIR}/ OUTPUT_VARIABLE inputs)
list(TRANSFORM headers PREPEND ${PROJECT_SOURCE_DIR}/ OUTPUT_VARIABLE more)
add_custom_command(OUTPUT ${stamp} BYPRODUCTS ${HAUL_KERNEL_TEXTS} ${written} ${units}
    COMMAND ${embed} --configured ${HAUL_GENERATED} ${files} ${headers}
    COMMAND ${CMAKE_COMMAND} -E touch ${stamp}
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
    DEPENDS ${embed} ${inputs} ${more} ${included}
    COMMENT "Collecting kernel text" VERBATIM)
add_custom_target(haul_kernel_texts DEPENDS ${stamp})
set_source_files_properties(${HAUL_KERNEL_TEXTS} PROPERTIES GENERATED ON)

# --- the CPU kernels -----------------------------------------------------------------------------------------------------

set(HAUL_KERNEL_OBJECTS "")
set(HAUL_LEVEL_DEFINITIONS "")
# -fwrapv: integer elements wrap around, as on every device.
set(kernel_flags -O3 -fno-math-errno -fno-trapping-math -fwrapv)
if(HAUL_SMALL)
    list(APPEND kernel_flags -O2)
    if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
        list(APPEND kernel_flags -ftree-vectorize -fvect-cost-model=dynamic --param=vect-epilogues-nomask=0)
    endif()
endif()
# gcc copies a kernel's params by `rep movs` and clears lanes by `rep stos`, which take longer to start than a small kernel
# takes to run.
if(CMAKE_C_COMPILER_ID STREQUAL "GNU" AND CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
    list(APPEND kernel_flags "-mmemcpy-strategy=vector_loop:2048:noalign,libcall:-1:noalign"
         "-mmemset-strategy=vector_loop:512:noalign,libcall:-1:noalign")
endif()
# A select becomes two stores under masks where gcc threads jumps, and masks cost dozens of cycles below AVX-512. What it
# copies in parts of 16 bytes cannot be forwarded to loads of whole vectors.
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
    list(APPEND kernel_flags -fno-thread-jumps)
    check_c_compiler_flag(-mmove-max=256 HAUL_HAS_MOVE_MAX)
    check_c_compiler_flag(--param=avoid-fma-max-bits=0 HAUL_HAS_AVOID_FMA)
endif()
# Networks compute in f32: for it gcc makes as many variants of a loop as it likes. The other dtypes do with a vector loop
# and a plain one, which takes half the time to compile. The level for processors from before 2013 calls a function for
# each fused multiply-add, so vector loops would gain little there: it is compiled for f32 without them (-O1), and for the
# other dtypes for size, which halves their code. Line numbers are left out: nobody steps through these loops.
set(lean_flags "")
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
    set(lean_flags -fno-version-loops-for-strides -fno-unswitch-loops --param=vect-epilogues-nomask=0)
endif()
set(lean ${units})
list(FILTER lean EXCLUDE REGEX "_f32\\.c$")
if(HAUL_SMALL) # a step's time goes by in the others: products, convolutions, linear layers, sgd, adam
    set(lean_flags -Os)
    set(small ${units})
    string(JOIN "|" small_units adadelta adagrad amsgrad argreduce batch_norm bluestein cast cholesky class_loss cumsum
        determinant distributions eigh gather gemm grid_sample histogram index layer_norm linalg linspace lion lu
        multinomial nadam pair_loss pass planes pointwise_[0-9] pool2d_avg pool2d_max qr radam random reduce resample rms_norm scaling
        scatter search softmax sort svd three topk transform triangular unfold unique where)
    list(FILTER small INCLUDE REGEX "/(${small_units})_f32\\.c$")
    set_source_files_properties(${small} PROPERTIES COMPILE_OPTIONS -Os)
endif()
set(old_processors FALSE)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$" AND NOT HAUL_SMALL)
    set(old_processors TRUE)
endif()
if(old_processors)
    list(APPEND lean_flags "$<$<STREQUAL:$<TARGET_PROPERTY:HAUL_LEVEL>,base>:-Os>")
endif()
set_source_files_properties(${lean} PROPERTIES COMPILE_OPTIONS "${lean_flags}")
# Dtypes for what other libraries hand over are rare: their code is short.
set(rare ${units})
list(FILTER rare INCLUDE REGEX "/unsigned_[a-z0-9]+\\.c$")
set_source_files_properties(${rare} PROPERTIES COMPILE_DEFINITIONS HAUL_SMALL=1)
# A unit uses some of the functions of common.h. A loop that clang cannot vectorise although a pragma asks for it is no
# reason to fail. (A library, as these must follow the -Wall of another one.)
add_library(haul_kernel_warnings INTERFACE)
target_compile_options(haul_kernel_warnings INTERFACE
    -Wno-unused-function $<$<C_COMPILER_ID:Clang,AppleClang>:-Wno-pass-failed>)
file(GLOB fma CONFIGURE_DEPENDS src/backends/cpu/kernels/*_fma.c)

function(haul_add_kernels name level sources)
    add_library(${name} OBJECT ${sources})
    add_dependencies(${name} haul_kernel_texts)
    target_link_libraries(${name} PRIVATE haul_private haul_kernel_warnings)
    target_compile_definitions(${name} PRIVATE HAUL_KERNEL_LEVEL=${level} $<$<BOOL:${HAUL_SMALL}>:HAUL_SMALL=1>)
    target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-g0>)
    haul_is_library_code(${name})
    set_target_properties(${name} PROPERTIES HAUL_LEVEL ${level})
    if(level STREQUAL "v3")
        target_compile_options(${name} PRIVATE -march=x86-64-v3
            $<$<BOOL:${HAUL_HAS_MOVE_MAX}>:-mmove-max=256;-mstore-max=256>)
    elseif(level STREQUAL "v4")
        target_compile_options(${name} PRIVATE -march=x86-64-v4 -mprefer-vector-width=512
            $<$<BOOL:${HAUL_HAS_MOVE_MAX}>:-mmove-max=512;-mstore-max=512>)
    endif()
    set(HAUL_KERNEL_OBJECTS ${HAUL_KERNEL_OBJECTS} ${name} PARENT_SCOPE)
endfunction()

foreach(level IN LISTS HAUL_CPU_LEVELS)
    if(NOT level MATCHES "^(base|v3|v4)$")
        message(FATAL_ERROR "HAUL_CPU_LEVELS: '${level}' is not a level; known are base, v3 and v4")
    endif()
    list(APPEND HAUL_LEVEL_DEFINITIONS HAUL_HAVE_LEVEL_${level}=1)
endforeach()
if(HAUL_CPU_LEVELS STREQUAL "base")
    list(APPEND HAUL_LEVEL_DEFINITIONS HAUL_ONLY_LEVEL_base=1)
endif()
# With sanitizers -O1 takes a fifth of the time of -O3 to compile the costliest unit. The products of matrices, in which tests
# spend most of their time, need -O2 to keep their tiles in registers.
foreach(level IN LISTS HAUL_CPU_LEVELS)
    haul_add_kernels(haul_kernels_${level} ${level} "${units}")
    target_compile_options(haul_kernels_${level} PRIVATE ${kernel_flags} -ffp-contract=off)
    if((level STREQUAL "base" AND old_processors) OR HAUL_SANITIZE)
        target_compile_options(haul_kernels_${level} PRIVATE -O1)
    endif()
    haul_add_kernels(haul_kernels_fma_${level} ${level} "${fma}")
    # For some processors gcc fuses no multiply-adds of a loop that has one chain of them. A tile of one row would have
    # other bits than the same row in a tile of several.
    target_compile_options(haul_kernels_fma_${level} PRIVATE ${kernel_flags} -ffp-contract=fast
        $<$<BOOL:${HAUL_HAS_AVOID_FMA}>:--param=avoid-fma-max-bits=0> $<$<BOOL:${HAUL_SANITIZE}>:-O2>)
    # gcc before 13.3 aligns what AddressSanitizer moves off the stack too little for vectors of 64 bytes.
    if("address" IN_LIST HAUL_SANITIZE AND CMAKE_C_COMPILER_ID STREQUAL "GNU")
        target_compile_options(haul_kernels_fma_${level} PRIVATE --param=asan-use-after-return=0)
    endif()
endforeach()
