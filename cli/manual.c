/* haul manual: the manual page, made from the tables of options and the lists below. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "cli/options/commands.h"
#include "cli/options/help.h"
#include "cli/shared/cli.h"

static const help_entry files[] = {
    {"DIR/config.json", "The options of the run: a flat JSON object. --config reads it."},
    {"DIR/log.jsonl", "What happened, one JSON object per line."},
    {"DIR/checkpoint", "The state of the run, in the safetensors format. --resume continues from it."},
    {"DIR/weights.safetensors", "The weights of the network after the last epoch, or at the time of an interruption."},
    {"DIR/best.safetensors", "The weights of the epoch with the lowest measured loss."},
    {"DIR/ledger.json", "What was copied between devices, by operation, module and tensor."},
    {"DIR/memory.json", "What the device's memory held at the end: every block with its operation, module and age."},
    {"$XDG_RUNTIME_DIR/haul", "What running processes publish for haul top; without that variable /dev/shm/haul-UID."},
    {"~/.cache/haul", "Compiled kernels; see HAUL_CACHE_DIR."},
    {NULL, NULL}};

static const help_entry environment[] = {
    {"HAUL_DATA", "A folder where make demo looks for CIFAR-10."},
    {"HAUL_NUM_THREADS", "Threads that compute on the CPU, from 1 to 1024; by default one for each core. Any other "
                         "value is an error."},
    {"HAUL_CPU_LEVEL", "base, v3 or v4: use only instructions of that level. Any other value is an error."},
    {"HAUL_PUBLISH", "off: haul train publishes nothing for haul top. Otherwise the folder for published pages."},
    {"HAUL_WITHOUT",
     "Implementations of matrix products, convolutions and spectra to disable, separated by commas: "
     "winograd, products, depthwise, onednn, panels, pixels, direct, tiles, cublaslt, cudnn, kernel_teams, "
     "kernel_tiles, lapack, cusolver. Haul uses the next implementation that can compute the call. fusion is one as "
     "well: without it followed steps compute each pointwise operation by itself. Without assembled, fused operations "
     "run their kernels and no machine code. A wrong name is an error."},
    {"HAUL_DEBUG",
     "Words, separated by commas. lifetimes finds every use of an object that has been freed, and says where "
     "it was made and where it ended; the memory of objects is then never reused. dispatch reports to standard error, "
     "once for each new choice, which implementation computes a matrix product or convolution, and why others do "
     "not."},
    {"HAUL_CUDA_LIBRARIES", "The only folder in which Haul looks for NVIDIA's libraries."},
    {"HAUL_CUDA_WITHOUT", "nvml: do not use NVIDIA's management library."},
    {"HAUL_CUDNN", "How cuDNN's plans for convolutions are chosen. autotune measures the most promising ones when a "
                   "shape first occurs, and keeps the choice with the compiled kernels. nondeterministic allows plans "
                   "whose results differ in the last bits from run to run. Separate the words by commas."},
    {"CUDA_HOME",
     "Where to look for NVIDIA's libraries if the system's loader does not find them; by default /usr/local/cuda."},
    {"HAUL_CACHE_DIR, XDG_CACHE_HOME", "Haul keeps compiled kernels and fetched files in $HAUL_CACHE_DIR, else in "
                                       "$XDG_CACHE_HOME/haul, else in ~/.cache/haul."},
    {"HAUL_MPI", "The MPI library to open, for example libmpich.so.12; by default that of the launcher."},
    {"HAUL_GROUP_LIMIT", "How many seconds a collective waits for a rank; 300 unless set. A wrong value is an error."},
    {"HAUL_CURL",
     "The path of libcurl, with which haul train --data fetches files; by default libcurl.so.4 of the system."},
    {"HAUL_LAPACK",
     "The LAPACK library to open, for eigenvalues and singular values of matrices above 64 rows and columns; "
     "by default libopenblas.so.0, libflexiblas.so.3, libmkl_rt.so.2 or liblapack.so.3."},
    {"http_proxy, https_proxy, no_proxy", "The proxies through which files are fetched, as curl has them."},
    {NULL, NULL}};

static const help_entry signals[] = {
    {"SIGINT, SIGTERM, SIGHUP", "haul train saves to the folder of --run and exits with status 130. A second SIGINT or "
                                "SIGTERM ends it at once. SIGHUP "
                                "stays ignored if it is ignored when the program starts, as under nohup."},
    {"SIGPIPE", "If the reader of its output exits, haul train saves and exits with status 1. The other subcommands "
                "exit at once."},
    {"SIGXFSZ", "A file that reaches the limit on file sizes is reported like any other failed write."},
    {NULL, NULL}};

/* ---- roff ---- */

/* A backslash, dashes and quotes as they are; dots and apostrophes at the start of a line not as requests. */
static void put_escaped(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (text[i] == '\\')
            fputs("\\e", stdout);
        else if (text[i] == '-')
            fputs("\\-", stdout);
        else if (text[i] == '\'')
            fputs("\\(aq", stdout);
        else if (text[i] == '~')
            fputs("\\(ti", stdout);
        else if (text[i] == '^')
            fputs("\\(ha", stdout);
        else
            putchar(text[i]);
}

static void put_text(const char *text)
{
    if (*text == '.')
        fputs("\\&", stdout);
    put_escaped(text, strlen(text));
}

/* A paragraph, with the names of options in bold. */
static void put_paragraph(const char *text)
{
    while (*text) {
        size_t word = strcspn(text, " "), name = 0;
        if (!strncmp(text, "--", 2))
            for (name = 2; name < word && (isalnum((unsigned char)text[name]) || text[name] == '-'); name++)
                ;
        if (name > 2) {
            fputs("\\fB", stdout);
            put_escaped(text, name);
            fputs("\\fR", stdout);
        } else {
            name = 0;
        }
        put_escaped(text + name, word - name);
        text += word;
        if (*text)
            putchar(' ');
        text += strspn(text, " ");
    }
    putchar('\n');
}

static void put_heading(const char *title)
{
    printf(".SH ");
    for (; *title; title++)
        putchar(toupper((unsigned char)*title));
    putchar('\n');
}

static void put_entry(const char *term, const char *text)
{
    printf(".TP\n.B ");
    put_text(term);
    putchar('\n');
    put_paragraph(text);
}

static void put_entries(const char *title, const help_entry *e)
{
    put_heading(title);
    for (; e->term; e++)
        put_entry(e->term, e->text);
}

/* ---- the page ---- */

/* The name of an option in bold and its argument in italics. */
static void put_option(const option *row)
{
    char text[1000];
    printf(".TP\n");
    if (row->letter)
        printf("\\fB\\-%c\\fR, ", row->letter);
    printf("\\fB\\-\\-");
    put_text(row->name);
    printf("\\fR");
    if (row->argument) {
        printf(" \\fI");
        put_text(row->argument);
        printf("\\fR");
    }
    putchar('\n');
    put_paragraph(help_text(row, text, sizeof text));
}

static void put_command(const command *c)
{
    const char *group = "";
    char        title[80];
    snprintf(title, sizeof title, "haul %s", c->name);
    put_heading(title);
    printf("\\fBhaul ");
    put_text(c->name);
    printf("\\fR ");
    put_text(c->usage);
    printf("\n.PP\n");
    put_paragraph(c->description);
    if (c->operand.name)
        put_entry(c->operand.name, c->operand.help);
    for (int i = 0; i < c->option_count; i++) {
        if (c->option_count > 3 && strcmp(c->options[i].group, group) != 0) {
            group = c->options[i].group;
            printf(".SS %s\n", group);
        }
        put_option(&c->options[i]);
    }
}

static void put_examples(void)
{
    put_heading("examples");
    printf(".nf\n");
    for (int i = 0; i < command_count; i++)
        for (const help_example *e = commands[i]->examples; e && e->line; e++) {
            put_text(e->line);
            putchar('\n');
        }
    printf(".fi\n");
}

static void put_synopsis(void)
{
    put_heading("synopsis");
    for (int i = 0; i < command_count; i++) {
        printf("%s\\fBhaul ", i ? ".br\n" : "");
        put_text(commands[i]->name);
        printf("\\fR ");
        put_text(commands[i]->usage);
        putchar('\n');
    }
    printf(".br\n\\fBhaul \\-\\-help\\fR | \\fB\\-\\-version\\fR\n");
}

static void put_page(void)
{
    printf(".TH HAUL 1 \"\" \"haul %s\" \"User commands\"\n.nh\n.ad l\n", haul_version());
    put_heading("name");
    printf("haul \\- train networks on CPUs and GPUs, and show where every byte went\n");
    put_synopsis();
    put_heading("description");
    printf("haul is the command of libhaul, a library for tensors on CPUs and GPUs.\n");
    put_paragraph("Every subcommand explains its options with --help or -h. haul --version or -V prints the version, "
                  "its commit, and what it was built with.");
    for (int i = 0; i < command_count; i++)
        put_command(commands[i]);
    put_entries("files", files);
    put_entries("environment", environment);
    put_entries("signals", signals);
    put_entries("exit status", exit_codes);
    put_examples();
}

/* ---- the command ---- */

static int manual_main(int argc, char **argv)
{
    option_values values;
    int           code = options_parse(&values, &manual_command, NULL, argc, argv);
    if (code >= 0)
        return code;
    put_page();
    return output_works() ? EXIT_OK : EXIT_FAILED;
}

static const help_example manual_lines[] = {{"haul manual | man -l -", NULL}, {NULL, NULL}};

const command manual_command = {
    .name = "manual",
    .summary = "Print the manual page, for man",
    .usage = "",
    .description = "Prints the manual page of haul in the format of man(1).",
    .examples = manual_lines,
    .run = manual_main,
};
