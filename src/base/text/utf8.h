/* UTF-8. */
#ifndef HAUL_BASE_TEXT_UTF8_H
#define HAUL_BASE_TEXT_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The length of the sequence at `p`, where `left` bytes of the text remain; 0 if it is invalid (RFC 3629: no overlong
 * forms, no surrogates, nothing above U+10FFFF). */
size_t haul__utf8_length(const uint8_t *p, size_t left);

/* The code point of a sequence that is valid and has this length. */
uint32_t haul__utf8_code(const uint8_t *p, size_t length);

/* True if the whole text is UTF-8. */
bool haul__is_utf8(const uint8_t *text, size_t size);

/* Copies a text into a buffer of `size` bytes. One that is too long is cut between two characters. */
void haul__utf8_copy(char *out, size_t size, const char *text);

#endif
