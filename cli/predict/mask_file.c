#include "cli/predict/mask_file.h"

#include <stdlib.h>
#include <string.h>

#include "cli/model/network.h"
#include "cli/shared/cli.h"
#include "cli/shared/png.h"
#include "files/file.h"

/* FOLDER/NAME.png, to free; NULL if memory is exhausted. */
static char *path_of(const char *folder, const char *picture)
{
    const char  *slash = strrchr(picture, '/'), *name = slash ? slash + 1 : picture, *ending = strrchr(name, '.');
    const size_t stem = ending ? (size_t)(ending - name) : strlen(name), size = strlen(folder) + stem + 6;
    char        *path = malloc(size);
    if (path)
        snprintf(path, size, "%s/%.*s.png", folder, (int)stem, name);
    return path;
}

/* A byte for each pixel, to free. */
static unsigned char *read_pixels(const predictor *p, haul_tensor *logits, size_t count)
{
    unsigned char *pixels = calloc(count, 1);
    haul_scope    *scope = haul_scope_push();
    if (!pixels)
        haul_error_set(HAUL_OUT_OF_MEMORY, NULL, NULL, "memory is exhausted");
    if (!pixels || !scope || haul_read(haul_cast(network_classes(&p->spec, logits), HAUL_U8), pixels, count)) {
        free(pixels);
        pixels = NULL;
    }
    haul_scope_pop(scope);
    return pixels;
}

bool mask_file_write(const predictor *p, const char *picture, haul_tensor *logits)
{
    const haul_shape *shape = &p->spec.y.shape;
    const int64_t     height = shape->dims[0], width = shape->dims[1];
    size_t            size = 0;
    unsigned char    *pixels = read_pixels(p, logits, (size_t)(height * width));
    unsigned char    *png = pixels ? png_encode(pixels, (int)width, (int)height, 1, &size) : NULL;
    char             *path = png ? path_of(p->options->masks, picture) : NULL;
    bool              done = path && !haul__file_write_all(path, "haul", png, size);
    if (!done)
        haul_error_status() ? complain_error() : complain("memory is exhausted");
    free(path);
    free(png);
    free(pixels);
    return done;
}
