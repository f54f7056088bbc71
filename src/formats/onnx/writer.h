/* Messages of protobuf, written into memory. A message that cannot be written, because memory is exhausted or it would
 * have more than 2 GiB, has failed; later additions are ignored. */
#ifndef HAUL_FORMATS_ONNX_WRITER_H
#define HAUL_FORMATS_ONNX_WRITER_H

#include <haul/dtype.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HAUL__MESSAGE_LIMIT ((uint64_t)INT32_MAX) /* protobuf's own */

/* All zero is an empty message. */
typedef struct haul__message {
    uint8_t *bytes;
    size_t   size, room;
    bool     failed;
} haul__message;

void haul__message_free(haul__message *m);

void haul__put_integer(haul__message *m, uint32_t field, uint64_t value);
void haul__put_float(haul__message *m, uint32_t field, float value);
void haul__put_bytes(haul__message *m, uint32_t field, const void *bytes, size_t size);
void haul__put_text(haul__message *m, uint32_t field, const char *text);
void haul__put_message(haul__message *m, uint32_t field, const haul__message *inner);
/* The begin of a field of `size` bytes, which the caller writes after this message. */
void haul__put_head(haul__message *m, uint32_t field, uint64_t size);

/* The number that ONNX has for a dtype. */
int haul__onnx_dtype_number(haul_dtype dtype);

#endif
