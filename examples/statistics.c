/* A report on the columns of a CSV file: quantiles, a histogram, and correlations. The program writes the file first.
 *
 *     statistics [DEVICE] */
#include <haul/haul.h>
#include <math.h>
#include <stdio.h>

enum { ROWS = 500, COLUMNS = 3, BINS = 6 };
static const char *const names[COLUMNS] = {"height", "weight", "age"};

static void write_people(const char *path)
{
    FILE *file = fopen(path, "w");
    if (!file)
        return;
    fprintf(file, "height,weight,age\n");
    for (int i = 0; i < ROWS; i++) {
        double a = sin(12.9898 * i), b = sin(78.233 * i), c = sin(37.719 * i);
        fprintf(file, "%.1f,%.1f,%d\n", 170 + 12 * a, 70 + 9 * a + 6 * b, 40 + (int)(25 * c));
    }
    fclose(file);
}

/* All rows of the file, [COLUMNS, ROWS]. */
static haul_tensor *read_columns(const char *path)
{
    haul_dataset *table =
        haul_csv_dataset(path, .fields = {{.name = "x", .columns = "height, weight, age", .dtype = HAUL_F64}});
    haul_loader *loader = haul_loader_new(table, .batch = ROWS);
    haul_loader_start(loader, 0);
    const haul_batch *batch = haul_loader_next(loader);
    return batch ? haul_contiguous(haul_transpose(batch->x, 0, 1)) : HAUL_NONE;
}

static void show_quantiles(haul_tensor *x)
{
    static const double at[] = {0, 0.25, 0.5, 0.75, 1};
    double              values[5][COLUMNS] = {{0}}, means[COLUMNS] = {0};
    haul_tensor        *rows[5];
    for (int i = 0; i < 5; i++)
        rows[i] = haul_quantile(x, at[i], HAUL_AXES(1));
    haul_read(haul_stack(rows, 5, 0), values, sizeof values);
    haul_read(haul_mean(x, HAUL_AXES(1)), means, sizeof means);
    printf("%-8s %8s %8s %8s %8s %8s %8s\n", "", "least", "25%", "median", "75%", "most", "mean");
    for (int c = 0; c < COLUMNS; c++)
        printf("%-8s %8.2f %8.2f %8.2f %8.2f %8.2f %8.2f\n", names[c], values[0][c], values[1][c], values[2][c],
               values[3][c], values[4][c], means[c]);
}

static void show_histogram(haul_tensor *x)
{
    int64_t      counts[BINS] = {0};
    double       edges[BINS + 1] = {0};
    haul_tensor *bounds;
    haul_read(haul_histogram(haul_select(x, 0, 0), .bins = BINS, .made_edges = &bounds), counts, sizeof counts);
    haul_read(bounds, edges, sizeof edges);
    for (int i = 0; i < BINS; i++)
        printf("%6.1f to %5.1f: %3lld\n", edges[i], edges[i + 1], (long long)counts[i]);
}

static void show_correlations(haul_tensor *x)
{
    double r[COLUMNS][COLUMNS] = {{0}};
    haul_read(haul_corrcoef(x), r, sizeof r);
    for (int a = 0; a < COLUMNS; a++)
        for (int b = a + 1; b < COLUMNS; b++)
            printf("%s and %s: correlation %.3f\n", names[a], names[b], r[a][b]);
}

int main(int argc, char **argv)
{
    haul_scope *program = haul_scope_push();
    haul_set_device(haul_device_get(argc > 1 ? argv[1] : "auto"));
    write_people("people.csv");
    haul_tensor *x = read_columns("people.csv");
    haul_scope  *report = haul_scope_push();
    /* Five quantiles and a mean of each column, six counts, seven edges, and the correlations. */
    haul_budget(.d2h_bytes = (6 * COLUMNS + BINS + BINS + 1 + COLUMNS * COLUMNS) * 8, .waits = 5);
    if (haul_tensor_is_valid(x)) {
        show_quantiles(x);
        show_histogram(x);
        show_correlations(x);
    }
    haul_scope_pop(report);
    haul_scope_pop(program);
    if (haul_error_status())
        fprintf(stderr, "%s\n", haul_error_message());
    return haul_error_status() != HAUL_OK;
}
