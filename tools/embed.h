/* What the parts of tools/embed.c share: texts, and the list of the kernels in them. */
#ifndef HAUL_TOOLS_EMBED_H
#define HAUL_TOOLS_EMBED_H

#include <stdbool.h>
#include <stddef.h>

/* ---- embed_files.c ---- */

/* A growing string, which ends with a zero byte as soon as something was appended. */
typedef struct buffer {
    char  *data;
    size_t size;
    size_t room;
} buffer;

_Noreturn void fail(const char *format, ...); /* with the program's name before it and a newline behind */

void append(buffer *b, const char *data, size_t size);
void appendf(buffer *b, const char *format, ...);

bool read_file(const char *path, buffer *b); /* false if the file does not exist */

/* Leave the file alone if its content would stay the same. With `moved`, lines that begin with #line do not count:
 * text that only moved keeps the numbers that it was compiled with. True if the file did not exist. */
bool write_file(const char *path, const buffer *b, bool moved);
void make_folder(const char *path);

/* ---- embed_pack.c ---- */

/* Appends a text in the packed form of src/kernels/text.h. */
void pack(buffer *out, const char *text, size_t size);

/* ---- embed.c ---- */

/* A text: the regions of a C file, a header, or a row of pointwise operations. */
typedef struct unit {
    const char *path;
    char       *name;
    bool        whole; /* a header: no .k.h of its own */
    bool        empty;
    int         group; /* rows: the number of the CPU units that have it; else -1 */
    buffer      text;
} unit;

typedef struct unit_list {
    unit  *units;
    size_t count, room;
} unit_list;

unit *add_unit(unit_list *list, const char *path);

/* ---- embed_rows.c ---- */

enum { ROW_GROUPS = 8 }; /* CPU units of pointwise rows for each dtype */

/* Adds a unit for each row of a .def file. */
void take_rows(unit_list *list, const char *path, const buffer *source);

/* ---- embed_functions.c ---- */

/* True for a header of functions, of which a unit has those that it uses. */
bool has_functions(const buffer *source);
/* Adds the functions of a header, whose text must stay. */
void take_functions(const unit *u);

/* Which functions are used: at first none, then also those of a text. */
void use_nothing(void);
void use_functions_of(const char *text, size_t size);
void append_used(buffer *out);

/* ---- embed_templates.c ---- */

/* Takes the templates out of all texts and puts their expansions in. */
void expand_templates(unit_list *units);

/* ---- embed_kernels.c ---- */

/* The dtypes that a kernel is compiled for, by the conditions around it; of two conditions the later one here counts.
 */
typedef enum dtype_class { ANY, NUMBER, FLOAT, WHOLE, BITWISE, INTEGER, SUM, BITS, UNSIGNED, ONCE } dtype_class;

extern const char *const class_words[];

typedef struct kernel {
    const unit *unit;
    const char *name;
    int         name_size;
    dtype_class dtypes;
    int         buffers;
    bool        lanes;
} kernel;

typedef struct kernel_list {
    kernel *kernels;
    size_t  count, room;
} kernel_list;

/* The kernel NAME_form of a kernel NAME, or the kernel itself where there is none. */
const kernel *form_of(const kernel_list *list, const kernel *k, const char *form);

/* The kernels of all units, in their order. */
void list_kernels(kernel_list *list, const unit_list *units);

#endif
