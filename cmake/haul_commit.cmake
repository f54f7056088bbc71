# cmake -DOUT=FILE -DSOURCE=FOLDER -P haul_commit.cmake: writes the header that has the commit which is built, "" if it is
# not known. The header is written only if it changes, so that a new commit compiles one file.

cmake_policy(VERSION 3.18)

# In the archive of `make dist`, git has put the commit into this file.
file(READ ${SOURCE}/cmake/archived_commit archived)
string(STRIP "${archived}" archived)
set(commit "")
if(archived MATCHES "^[0-9a-f]+$")
    string(SUBSTRING ${archived} 0 12 commit)
else()
    # Not of a repository around a copy of the files: its commits are others.
    execute_process(COMMAND git -C ${SOURCE} rev-parse --show-cdup
        OUTPUT_VARIABLE up ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
    if(NOT failed AND up STREQUAL "")
        execute_process(COMMAND git -C ${SOURCE} describe --always --exclude=* --abbrev=12 --dirty=-modified
            OUTPUT_VARIABLE commit ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
    endif()
endif()
file(CONFIGURE OUTPUT ${OUT} CONTENT "#define HAUL_COMMIT \"@commit@\"\n" @ONLY)
