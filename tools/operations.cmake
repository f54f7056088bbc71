# Collects the list of all operations at build time:
#
#   cmake "-DSOURCES=FILE;..." -DROWS=FILE "-DHEADERS=FILE;..." -DOUT=FILE -P operations.cmake
#
# An operation is a line of SOURCES that begins with HAUL__OPERATION(id), or a row of ROWS (pointwise.def); rows with
# two operands make `id` and `id_scalar`. OUT gets one line X(id, into) for each, sorted by id. `into` is 1 where one of
# HEADERS declares haul_id_into or haul_id_into_with. OUT is not touched if its content would not change.

cmake_policy(VERSION 3.18)

set(ids "")
set(pointwise "")
foreach(source IN LISTS SOURCES)
    file(STRINGS ${source} lines REGEX "^HAUL__OPERATION\\(")
    foreach(line IN LISTS lines)
        if(NOT line MATCHES "^HAUL__OPERATION\\(([a-z][a-z0-9_]*)\\)")
            message(FATAL_ERROR "${source}: HAUL__OPERATION takes one id: ${line}")
        endif()
        list(APPEND ids ${CMAKE_MATCH_1})
    endforeach()
endforeach()

file(STRINGS ${ROWS} lines REGEX "^HAUL_")
foreach(line IN LISTS lines)
    if(line MATCHES "^HAUL_(UNARY|UNARY1|UNARY2|UNARY_TO_BOOL) *\\( *([a-z][a-z0-9_]*)")
        list(APPEND ids ${CMAKE_MATCH_2})
        list(APPEND pointwise ${CMAKE_MATCH_2})
    elseif(line MATCHES "^HAUL_INTERNAL *\\( *([a-z][a-z0-9_]*)")
        list(APPEND ids ${CMAKE_MATCH_1})
    elseif(line MATCHES "^HAUL_(BINARY|COMPARE) *\\( *([a-z][a-z0-9_]*)")
        list(APPEND ids ${CMAKE_MATCH_2} ${CMAKE_MATCH_2}_scalar)
        list(APPEND pointwise ${CMAKE_MATCH_2} ${CMAKE_MATCH_2}_scalar)
    else()
        message(FATAL_ERROR "${ROWS}: a row of a kind that is not known: ${line}")
    endif()
endforeach()

set(declarations "")
foreach(header IN LISTS HEADERS)
    file(READ ${header} text)
    string(APPEND declarations "${text}")
endforeach()

list(SORT ids)
list(REMOVE_DUPLICATES ids)
set(out "/* Written by tools/operations.cmake: X(id, has an _into form), sorted by id. */\n")
foreach(id IN LISTS ids)
    set(into 0)
    if(id IN_LIST pointwise OR declarations MATCHES "haul_${id}_into(_with)?\\(")
        set(into 1)
    endif()
    string(APPEND out "X(${id}, ${into})\n")
endforeach()

set(old "")
if(EXISTS ${OUT})
    file(READ ${OUT} old)
endif()
if(NOT old STREQUAL out)
    file(WRITE ${OUT} "${out}")
endif()
