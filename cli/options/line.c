/* Options as words of a shell's command line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/options/options.h"
#include "cli/options/row.h"
#include "cli/shared/cli.h"

/* Bytes that a word takes in single quotes: each quote in it becomes four. */
static size_t room_for(const option *row, const char *text)
{
    return strlen(" --") + strlen(row->name) + strlen(" ''") + 4 * strlen(text) + 8;
}

static void append(const option *row, const char *text, char *out, size_t size)
{
    size_t used = strlen(out);
    used += (size_t)snprintf(out + used, size - used, " --%s", row->name);
    if (row->kind == OPTION_FLAG)
        return;
    out[used++] = ' ';
    shell_text(out + used, size - used, text);
}

static bool is_wanted(const option_values *o, int row, const char *const *without)
{
    for (; *without; without++)
        if (!strcmp(*without, o->command->options[row].name))
            return false;
    return o->given >> row & 1;
}

char *options_line(const option_values *o, const char *const *without)
{
    size_t size = 1;
    for (int i = 0; i < o->command->option_count; i++)
        size += is_wanted(o, i, without) ? room_for(&o->command->options[i], o->texts[i]) : 0;
    char *out = calloc(size, 1);
    for (int i = 0; out && i < o->command->option_count; i++)
        if (is_wanted(o, i, without))
            append(&o->command->options[i], o->texts[i], out, size);
    return out;
}
