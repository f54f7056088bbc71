/* libcurl, opened at run time. Numbers have the names of its headers, without the prefix CURL. */
#ifndef HAUL_FETCH_CURL_H
#define HAUL_FETCH_CURL_H

#include <stdint.h>

typedef struct haul__curl_functions {
#define X(name, result, arguments) result(*name) arguments;
#include "fetch/curl.def"
#undef X
} haul__curl_functions;

/* The library; NULL if there is none, and *reason is then a text that names the package. $HAUL_CURL is another path of
 * it. */
const haul__curl_functions *haul__curl(const char **reason);

/* Options that are long, pointers, functions and 64-bit numbers. */
enum {
    HAUL__CURL_LOW_SPEED_LIMIT = 19,
    HAUL__CURL_LOW_SPEED_TIME = 20,
    HAUL__CURL_NOPROGRESS = 43,
    HAUL__CURL_FAILONERROR = 45,
    HAUL__CURL_NETRC = 51,
    HAUL__CURL_FOLLOWLOCATION = 52,
    HAUL__CURL_MAXREDIRS = 68,
    HAUL__CURL_CONNECTTIMEOUT = 78,
    HAUL__CURL_NOSIGNAL = 99,
    HAUL__CURL_PROTOCOLS = 181,
    HAUL__CURL_REDIR_PROTOCOLS = 182,
    HAUL__CURL_WRITEDATA = 10001,
    HAUL__CURL_URL = 10002,
    HAUL__CURL_ERRORBUFFER = 10010,
    HAUL__CURL_USERAGENT = 10018,
    HAUL__CURL_XFERINFODATA = 10057,
    HAUL__CURL_WRITEFUNCTION = 20011,
    HAUL__CURL_XFERINFOFUNCTION = 20219,
    HAUL__CURL_RESUME_FROM_LARGE = 30116,
    HAUL__CURL_MAXFILESIZE_LARGE = 30117
};
enum {
    HAUL__CURL_NETRC_OPTIONAL = 1,
    HAUL__CURL_PROTO_HTTP = 1,
    HAUL__CURL_PROTO_HTTPS = 2,
    HAUL__CURL_GLOBAL_ALL = 3
};
enum { HAUL__CURL_RESPONSE_CODE = 0x200000 + 2, HAUL__CURL_ERROR_SIZE = 256 };

/* Results of a transfer. */
enum {
    HAUL__CURLE_OK = 0,
    HAUL__CURLE_PARTIAL_FILE = 18,
    HAUL__CURLE_HTTP_RETURNED_ERROR = 22,
    HAUL__CURLE_WRITE_ERROR = 23,
    HAUL__CURLE_RANGE_ERROR = 33,
    HAUL__CURLE_ABORTED_BY_CALLBACK = 42,
    HAUL__CURLE_RECV_ERROR = 56,
    HAUL__CURLE_FILESIZE_EXCEEDED = 63
};

#endif
