/* JPEG files from a folder of classes, resized, in shuffled batches of 32; compared with nothing but decoding the same
 * files by libjpeg on all cores. Both read files that are in the system's cache. The peer discards each row of pixels;
 * Haul also lists the folder, resizes, puts the colours into planes, keeps all pictures in memory, copies them into
 * batches, and starts and ends the loader's threads. The files are written when the first case is opened. */
#include "haul_config.h"
#include "support/bench.h"

#if HAUL_HAVE_JPEG
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* after stdio.h, which it needs */
#include <jpeglib.h>

enum { PICTURES = 256, SIDE = 256, CLASSES = 2, BATCH = 32 };

static char folder[64]; /* empty until the files are there */

/* ---- files ---- */

static void path_of(int picture, char *out, size_t size)
{
    snprintf(out, size, "%s/class%d/%d.jpg", folder, picture % CLASSES, picture);
}

static void remove_files(void)
{
    char path[128];
    for (int i = 0; i < PICTURES; i++) {
        path_of(i, path, sizeof path);
        unlink(path);
    }
    for (int i = 0; i < CLASSES; i++) {
        snprintf(path, sizeof path, "%s/class%d", folder, i);
        rmdir(path);
    }
    rmdir(folder);
}

/* Slopes with some noise, about 20 kB. */
static void draw(int picture, int row, JSAMPLE *pixels)
{
    unsigned noise = (unsigned)(picture * SIDE + row) * 2654435761u;
    for (int i = 0; i < SIDE * 3; i++) {
        noise = noise * 1664525u + 1013904223u;
        pixels[i] = (JSAMPLE)((row * (picture % 7 + 1) / 4 + i * (picture % 5 + 1) / 8 + (int)(noise >> 28)) & 255);
    }
}

static bool write_picture(int picture)
{
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr       errors;
    JSAMPLE                     pixels[SIDE * 3];
    JSAMPROW                    row = pixels;
    char                        path[128];
    path_of(picture, path, sizeof path);
    FILE *file = fopen(path, "wb");
    if (!file)
        return false;
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&jpeg);
    jpeg_stdio_dest(&jpeg, file);
    jpeg.image_width = jpeg.image_height = SIDE;
    jpeg.input_components = 3;
    jpeg.in_color_space = JCS_RGB;
    jpeg_set_defaults(&jpeg);
    jpeg_start_compress(&jpeg, TRUE);
    for (int r = 0; r < SIDE; r++) {
        draw(picture, r, pixels);
        jpeg_write_scanlines(&jpeg, &row, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    return fclose(file) == 0;
}

static bool have_files(void)
{
    char path[128];
    if (folder[0])
        return true;
    snprintf(folder, sizeof folder, "/tmp/haul-bench.XXXXXX");
    if (!mkdtemp(folder)) {
        folder[0] = 0;
        return bench_out("a folder for pictures cannot be made in /tmp");
    }
    atexit(remove_files);
    for (int i = 0; i < CLASSES; i++) {
        snprintf(path, sizeof path, "%s/class%d", folder, i);
        if (mkdir(path, 0700))
            return bench_out("a folder for pictures cannot be made in /tmp");
    }
    for (int i = 0; i < PICTURES; i++)
        if (!write_picture(i))
            return bench_out("a picture cannot be written in /tmp");
    return true;
}

/* ---- Haul ---- */

static bool open_loader(const bench_case *c)
{
    (void)c;
    return have_files();
}

/* A data set of its own for each pass, as it keeps what was decoded. */
static bool run_loader(const bench_case *c, int64_t times)
{
    for (int64_t i = 0; i < times; i++) {
        haul_scope   *scope = haul_scope_push();
        haul_dataset *pictures = haul_image_folder(folder, .size = {c->size, c->size}, .draft = c->context != NULL);
        haul_loader *loader = haul_loader_new(pictures, .batch = BATCH, .shuffle = true, .workers = haul_num_threads());
        if (haul_loader_start(loader, 1) == HAUL_OK)
            while (haul_loader_next(loader)) {}
        haul_scope_pop(scope);
        if (haul_error_status())
            return false;
    }
    return true;
}

/* ---- libjpeg ---- */

static bool decode(const char *path)
{
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr         errors;
    JSAMPLE                       pixels[SIDE * 3];
    JSAMPROW                      row = pixels;
    FILE                         *file = fopen(path, "rb");
    if (!file)
        return false;
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&jpeg);
    jpeg_stdio_src(&jpeg, file);
    jpeg_read_header(&jpeg, TRUE);
    jpeg_start_decompress(&jpeg);
    while (jpeg.output_scanline < jpeg.output_height)
        jpeg_read_scanlines(&jpeg, &row, 1);
    jpeg_finish_decompress(&jpeg);
    jpeg_destroy_decompress(&jpeg);
    return fclose(file) == 0;
}

static atomic_int next_picture;

static void *decode_some(void *failed)
{
    char path[128];
    for (int i = atomic_fetch_add(&next_picture, 1); i < PICTURES; i = atomic_fetch_add(&next_picture, 1)) {
        path_of(i, path, sizeof path);
        if (!decode(path))
            atomic_store((atomic_bool *)failed, true);
    }
    return NULL;
}

static bool open_decoding(const bench_case *c)
{
    (void)c;
    return have_files();
}

static bool run_decoding(const bench_case *c, int64_t times)
{
    atomic_bool failed = false;
    (void)c;
    for (int64_t i = 0; i < times; i++) {
        pthread_t threads[64];
        int       count = haul_num_threads() < 64 ? haul_num_threads() : 64, started = 0;
        atomic_store(&next_picture, 0);
        while (started < count && pthread_create(&threads[started], NULL, decode_some, &failed) == 0)
            started++;
        for (int t = 0; t < started; t++)
            pthread_join(threads[t], NULL);
        if (!started)
            return bench_out("no thread can be started");
    }
    return atomic_load(&failed) ? bench_out("a picture cannot be read") : true;
}

#define FOLDER(label, side, draft)                                                                                     \
    {                                                                                                                  \
        .name = label, .unit = "k images/s", .amount = PICTURES * 1e-3, .peers = "decode JPEG 256x256 on all cores",   \
        .open = open_loader, .run = run_loader, .size = side, .context = draft                                         \
    }

static const bench_case cases[] = {
    FOLDER("loader, JPEG 256x256", 256, NULL),
    FOLDER("loader, JPEG 256x256 to 64x64", 64, NULL),
    FOLDER("loader, JPEG to 64x64, draft", 64, "draft"),
    {.name = "decode JPEG 256x256 on all cores",
     .unit = "k images/s",
     .amount = PICTURES * 1e-3,
     .open = open_decoding,
     .run = run_decoding},
};
#else
static bool left_out(const bench_case *c)
{
    (void)c;
    return bench_out("this build has no libjpeg");
}

static const bench_case cases[] = {{.name = "loader, JPEG 256x256", .unit = "k images/s", .open = left_out}};
#endif

int main(int argc, char **argv)
{
    return bench_main(argc, argv, cases, (int)(sizeof cases / sizeof cases[0]));
}
