/* The wire format of protobuf: a message is a sequence of fields, each a number and a value. A cursor goes through the
 * fields of a message in memory. It allocates nothing, and what it gives is within the message. */
#ifndef HAUL_FORMATS_ONNX_PROTOBUF_H
#define HAUL_FORMATS_ONNX_PROTOBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct haul__bytes {
    const uint8_t *at;
    size_t         size;
} haul__bytes;

/* The wire types that proto3 has; the numbers are those of the format. */
typedef enum haul__wire { HAUL__VARINT = 0, HAUL__FIXED64 = 1, HAUL__LENGTH = 2, HAUL__FIXED32 = 5 } haul__wire;

typedef struct haul__field {
    uint32_t       number;
    haul__wire     wire;
    uint64_t       value; /* of a number */
    haul__bytes    bytes; /* of the wire type LENGTH */
    const uint8_t *place; /* where the field begins, for messages */
} haul__field;

typedef struct haul__cursor {
    const uint8_t *at, *end;
    const char    *fault; /* the fault at `at`; NULL: none so far */
} haul__cursor;

haul__cursor haul__cursor_of(haul__bytes message);
/* The next field. False at the end, and after a fault. */
bool haul__next_field(haul__cursor *cursor, haul__field *field);
/* The next number of a packed list. False at the end, and after a fault. */
bool haul__next_varint(haul__cursor *cursor, uint64_t *value);

uint32_t haul__little_32(const uint8_t *at);
uint64_t haul__little_64(const uint8_t *at);

#endif
