# The language, warnings, sanitizers and ccache, for every target of the tree.

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_C_FLAGS_RELEASE "-O2 -g1")

# Usable by everyone who compiles C of ours: examples see only this and the public headers.
add_library(haul_warnings INTERFACE)
target_compile_definitions(haul_warnings INTERFACE _GNU_SOURCE)
target_compile_options(haul_warnings INTERFACE
    -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wvla
    # Descriptors leave out what is zero; clang asks for it where the first field is given without its name.
    $<$<C_COMPILER_ID:Clang,AppleClang>:-Wno-missing-field-initializers>
    $<$<BOOL:${HAUL_WERROR}>:-Werror>)

# Code that may include private headers: the library itself, the command, the tests.
add_library(haul_private INTERFACE)
target_include_directories(haul_private INTERFACE
    ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src ${PROJECT_BINARY_DIR}/generated)
target_link_libraries(haul_private INTERFACE haul_warnings)

# Settings of the targets that end up in libhaul.
function(haul_is_library_code target)
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET hidden)
    set(asserts $<BOOL:$<TARGET_PROPERTY:${target},HAUL_ASSERTS>>)
    target_compile_definitions(${target} PRIVATE $<$<AND:$<CONFIG:Release>,$<NOT:${asserts}>>:NDEBUG>)
    # A static program takes only the functions that it uses, no tables for debuggers, and no bytes that only bring a jump's
    # target to a round address.
    if(HAUL_SMALL)
        target_compile_options(${target} PRIVATE -ffunction-sections -fdata-sections -fno-asynchronous-unwind-tables
            -fno-align-functions -fno-align-jumps -fno-align-loops -fno-align-labels)
    endif()
endfunction()

# gcc clears structs of more than some hundred bytes by `rep stos`, which takes as long to start as all the stores.
include(CheckCCompilerFlag)
set(HAUL_CLEAR_BY_STORES -mmemset-strategy=unrolled_loop:512:noalign,libcall:-1:noalign)
check_c_compiler_flag(${HAUL_CLEAR_BY_STORES} HAUL_HAS_MEMSET_STRATEGY)
function(haul_clears_by_stores target)
    if(HAUL_HAS_MEMSET_STRATEGY)
        target_compile_options(${target} PRIVATE ${HAUL_CLEAR_BY_STORES})
    endif()
endfunction()

# __FILE__ is relative to the tree, whether the compiler sees an absolute path or ccache's relative one.
file(RELATIVE_PATH HAUL_UP ${PROJECT_BINARY_DIR} ${PROJECT_SOURCE_DIR}/)
add_compile_options(-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/= -fmacro-prefix-map=${HAUL_UP}=)

if(HAUL_CCACHE AND NOT CMAKE_C_COMPILER_LAUNCHER)
    find_program(CCACHE_PROGRAM ccache)
    if(CCACHE_PROGRAM)
        # Clones and build folders share results.
        set(CMAKE_C_COMPILER_LAUNCHER env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CCACHE_PROGRAM})
    endif()
endif()

# Everything is compiled with the sanitizers, also the host tool: they must be in the link of every program.
set(HAUL_SANITIZE_FLAGS "")
if(HAUL_SANITIZE)
    string(REPLACE ";" "," sanitizers "${HAUL_SANITIZE}")
    set(HAUL_SANITIZE_FLAGS -fsanitize=${sanitizers} -fno-omit-frame-pointer)
    if("undefined" IN_LIST HAUL_SANITIZE)
        list(APPEND HAUL_SANITIZE_FLAGS -fno-sanitize-recover=undefined)
    endif()
endif()
set(HAUL_SANITIZE_COMPILE ${HAUL_SANITIZE_FLAGS})
if(HAUL_FUZZ)
    list(APPEND HAUL_SANITIZE_COMPILE -fsanitize=fuzzer-no-link)
endif()
add_compile_options(${HAUL_SANITIZE_COMPILE})
add_link_options(${HAUL_SANITIZE_FLAGS})
