/* haul completion: scripts for shells, made from the tables of options. Names of devices are asked of haul when they
 * are needed, since they belong to the machine. */
#include <stdio.h>
#include <string.h>

#include "cli/model/source.h"
#include "cli/options/commands.h"
#include "cli/shared/cli.h"

/* The help of a row up to its first clause, without what the shells' own notations use. */
static const char *brief(const char *help, char *out, size_t size)
{
    size_t length = strcspn(help, ".;:(,");
    size_t used = 0;
    for (size_t i = 0; i < length && used + 1 < size; i++)
        if (!strchr("[]'\"\\$`", help[i]))
            out[used++] = help[i];
    while (used && out[used - 1] == ' ')
        used--;
    out[used] = 0;
    return out;
}

static const char *const on_off[] = {"on", "off", NULL};

/* What a shell offers for the value: a list, or NULL where the row's kind of completion decides. */
static const char *const *offers_of(const option *row)
{
    return row->kind == OPTION_ON_OFF ? on_off : row->choices ? row->choices : row->offers;
}

static void print_words(const char *const *words)
{
    for (int i = 0; words[i]; i++)
        printf("%s%s", i ? " " : "", words[i]);
}

/* "cifar10: images: shapes blobs": a colon where a folder or a file follows. */
static void print_sources(void)
{
    const char *name, *needs;
    for (int i = 0; (name = source_name(i, &needs)); i++)
        printf("%s%s%s", i ? " " : "", name, needs ? ":" : "");
}

/* "text:*", with `between` between two: what a source begins with that a file follows. */
static void print_file_sources(const char *between)
{
    const char *name, *needs, *before = "";
    for (int i = 0; (name = source_name(i, &needs)); i++)
        if (needs && !strcmp(needs, "FILE")) {
            printf("%s%s:*", before, name);
            before = between;
        }
}

/* ---- bash ---- */

static const char bash_head[] =
    "# Completion of haul for bash. Made by: haul completion bash\n"
    "_haul() {\n"
    "    local cur= prev= command= key= list= kind= i word last=${COMP_WORDS[COMP_CWORD]} program=${COMP_WORDS[0]}\n"
    "    local -a words=()\n"
    "    # Readline splits words at : and =. Together they are what the user typed.\n"
    "    for ((i = 1; i <= COMP_CWORD; i++)); do\n"
    "        word=${COMP_WORDS[i]}\n"
    "        if [[ ${#words[@]} -gt 0 && ( $word == [:=]* || ${words[${#words[@]} - 1]} == *[:=] ) &&\n"
    "            ${COMP_WORDS[i - 1]} != -- ]]; then\n"
    "            words[${#words[@]} - 1]+=$word\n"
    "        else\n"
    "            words+=(\"$word\")\n"
    "        fi\n"
    "    done\n"
    "    [[ $last == [:=] ]] && last=\n"
    "    cur=${words[${#words[@]} - 1]}\n"
    "    [[ ${#words[@]} -gt 1 ]] && command=${words[0]} prev=${words[${#words[@]} - 2]}\n"
    "    if [[ $cur == --*=* ]]; then\n"
    "        prev=${cur%%=*}\n"
    "        cur=${cur#*=}\n"
    "        [[ $last == --*=* ]] && last=${last#*=}\n"
    "    fi\n"
    "    COMPREPLY=()\n"
    "    case $command:$prev in\n";

static const char bash_kinds[] = "    case $key in\n"
                                 "        words) ;;\n"
                                 "        devices) list=\"auto gpu $(\"$program\" devices --names 2>/dev/null)\" ;;\n"
                                 "        operations) list=$(\"$program\" ops --names 2>/dev/null) ;;\n"
                                 "        files)\n"
                                 "            compopt -o filenames 2>/dev/null\n"
                                 "            mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
                                 "            return\n"
                                 "            ;;\n"
                                 "        folders)\n"
                                 "            compopt -o filenames 2>/dev/null\n"
                                 "            mapfile -t COMPREPLY < <(compgen -d -- \"$cur\")\n"
                                 "            return\n"
                                 "            ;;\n"
                                 "        sources)\n"
                                 "            if [[ $cur == *:* ]]; then\n"
                                 "                compopt -o filenames 2>/dev/null\n"
                                 "                kind=-d\n"
                                 "                case $cur in ";

static const char bash_tail[] =
    ") kind=-f ;; esac\n"
    "                mapfile -t COMPREPLY < <(compgen $kind -P \"${cur%%:*}:\" -- \"${cur#*:}\")\n"
    "                COMPREPLY=(\"${COMPREPLY[@]#\"${cur%\"$last\"}\"}\")\n"
    "                return\n"
    "            fi\n"
    "            compopt -o nospace 2>/dev/null\n"
    "            ;;\n"
    "    esac\n"
    "    mapfile -t COMPREPLY < <(compgen -W \"$list\" -- \"$cur\")\n"
    "    # Readline replaces only what comes after the last : or =.\n"
    "    COMPREPLY=(\"${COMPREPLY[@]#\"${cur%\"$last\"}\"}\")\n"
    "}\n"
    "complete -F _haul haul\n";

static const char *const kind_keys[] = {
    [COMPLETE_NOTHING] = "none",   [COMPLETE_FILE] = "files",     [COMPLETE_FOLDER] = "folders",
    [COMPLETE_DEVICE] = "devices", [COMPLETE_SOURCE] = "sources", [COMPLETE_OPERATION] = "operations"};

/* key=... list=... of a value. */
static void bash_value(const char *const *offers, option_completion kind)
{
    printf("key=%s", offers ? "words" : kind_keys[kind]);
    if (!offers && kind != COMPLETE_SOURCE)
        return;
    printf(" list='");
    if (offers)
        print_words(offers);
    else
        print_sources();
    printf("'");
}

static void bash_command(const command *c)
{
    for (int i = 0; i < c->option_count; i++)
        if (c->options[i].kind != OPTION_FLAG) {
            printf("        %s:--%s) ", c->name, c->options[i].name);
            bash_value(offers_of(&c->options[i]), c->options[i].complete);
            printf(" ;;\n");
        }
    printf("        %s:*)\n            if [[ $cur == -* ]]; then\n                key=words list='", c->name);
    for (int i = 0; i < c->option_count; i++)
        printf("--%s ", c->options[i].name);
    printf("--help'\n            else\n                ");
    bash_value(c->operand.choices, c->operand.complete);
    printf("\n            fi\n            ;;\n");
}

static void print_bash(void)
{
    fputs(bash_head, stdout);
    for (int i = 0; i < command_count; i++)
        bash_command(commands[i]);
    printf("        *) key=words list='");
    for (int i = 0; i < command_count; i++)
        printf("%s ", commands[i]->name);
    printf("help --help --version' ;;\n    esac\n");
    fputs(bash_kinds, stdout);
    print_file_sources("|");
    fputs(bash_tail, stdout);
}

/* ---- zsh ---- */

static const char zsh_head[] =
    "#compdef haul\n"
    "# Completion of haul for zsh. Made by: haul completion zsh\n"
    "_haul_devices() {\n"
    "    local -a names\n"
    "    names=(auto gpu ${(f)\"$(_call_program devices haul devices --names 2>/dev/null)\"})\n"
    "    compadd -a names\n"
    "}\n"
    "_haul_operations() {\n"
    "    local -a names\n"
    "    names=(${(f)\"$(_call_program operations haul ops --names 2>/dev/null)\"})\n"
    "    compadd -a names\n"
    "}\n"
    "_haul_sources() {\n"
    "    local kind=-/\n"
    "    case $PREFIX in ";

static const char zsh_sources[] = ") kind=-g\\* ;; esac\n"
                                  "    if compset -P '*:'; then\n"
                                  "        _files $kind\n"
                                  "    else\n"
                                  "        compadd -S '' -- ";

static const char zsh_commands[] = "_haul() {\n"
                                   "    local context state state_descr line\n"
                                   "    typeset -A opt_args\n"
                                   "    _arguments -C '(- *)'{-h,--help}'[Show help]' \\\n"
                                   "        '(- *)'{-V,--version}'[Show the version]' \\\n"
                                   "        '1:command:->command' '*::argument:->argument'\n"
                                   "    case $state in\n"
                                   "        command)\n"
                                   "            local -a commands\n"
                                   "            commands=(\n";

static const char zsh_tail[] = "    esac\n"
                               "}\n"
                               "if [[ $funcstack[1] == _haul ]]; then\n"
                               "    _haul \"$@\"\n"
                               "else\n"
                               "    compdef _haul haul\n"
                               "fi\n";

static const char *const zsh_kinds[] = {[COMPLETE_NOTHING] = " ",
                                        [COMPLETE_FILE] = "_files",
                                        [COMPLETE_FOLDER] = "_files -/",
                                        [COMPLETE_DEVICE] = "_haul_devices",
                                        [COMPLETE_SOURCE] = "_haul_sources",
                                        [COMPLETE_OPERATION] = "_haul_operations"};

/* A colon separates the parts of a row. */
static void zsh_text(const char *text)
{
    for (; *text; text++)
        printf(*text == ':' ? "\\%c" : "%c", *text);
}

/* ":NAME:(sgd adam)" */
static void zsh_value(const char *name, const char *const *offers, option_completion kind)
{
    putchar(':');
    zsh_text(name);
    putchar(':');
    if (!offers) {
        fputs(zsh_kinds[kind], stdout);
        return;
    }
    for (int i = 0; offers[i]; i++) {
        putchar(i ? ' ' : '(');
        zsh_text(offers[i]);
    }
    putchar(')');
}

static void zsh_option(const option *row)
{
    char text[160];
    printf(" \\\n                '");
    if (row->letter)
        printf("(-%c --%s)'{-%c,--%s}'", row->letter, row->name, row->letter, row->name);
    else
        printf("--%s%s", row->name, row->kind == OPTION_FLAG ? "" : "=");
    printf("[%s]", brief(row->help, text, sizeof text));
    if (row->kind != OPTION_FLAG)
        zsh_value(row->argument, offers_of(row), row->complete);
    putchar('\'');
}

static void zsh_command(const command *c)
{
    printf("                %s)\n                    _arguments '(- *)'{-h,--help}'[Show help]'", c->name);
    for (int i = 0; i < c->option_count; i++)
        zsh_option(&c->options[i]);
    if (c->operand.name) {
        printf(" \\\n                '%s", c->operand.several ? "*" : "1");
        zsh_value(c->operand.name, c->operand.choices, c->operand.complete);
        putchar('\'');
    }
    printf("\n                    ;;\n");
}

static void print_zsh(void)
{
    char text[160];
    fputs(zsh_head, stdout);
    print_file_sources("|");
    fputs(zsh_sources, stdout);
    print_sources();
    printf("\n    fi\n}\n");
    fputs(zsh_commands, stdout);
    for (int i = 0; i < command_count; i++)
        printf("                '%s:%s'\n", commands[i]->name, brief(commands[i]->summary, text, sizeof text));
    printf("                'help:Show help'\n            )\n            _describe command commands\n            ;;\n"
           "        argument)\n            case $words[1] in\n");
    for (int i = 0; i < command_count; i++)
        zsh_command(commands[i]);
    printf("            esac\n            ;;\n");
    fputs(zsh_tail, stdout);
}

/* ---- fish ---- */

static const char fish_head[] = "# Completion of haul for fish. Made by: haul completion fish\n"
                                "function __haul_sources\n"
                                "    set -l token (commandline -ct)\n"
                                "    if string match -q -- '*:*' $token\n"
                                "        set -l parts (string split -m 1 -- : $token)\n"
                                "        set -l paths (__fish_complete_directories $parts[2] '')\n"
                                "        switch $token\n"
                                "            case '";

static const char fish_sources[] = "'\n"
                                   "                set paths (__fish_complete_path $parts[2])\n"
                                   "        end\n"
                                   "        for path in $paths\n"
                                   "            echo $parts[1]:$path\n"
                                   "        end\n"
                                   "    else\n"
                                   "        string split ' ' -- '";

static const char *const fish_kinds[] = {
    [COMPLETE_NOTHING] = " -x",
    [COMPLETE_FILE] = " -r -F",
    [COMPLETE_FOLDER] = " -x -a '(__fish_complete_directories)'",
    [COMPLETE_DEVICE] = " -x -a 'auto gpu (haul devices --names 2>/dev/null)'",
    [COMPLETE_SOURCE] = " -x -a '(__haul_sources)'",
    [COMPLETE_OPERATION] = " -x -a '(haul ops --names 2>/dev/null)'",
};

static void fish_value(const char *const *offers, option_completion kind)
{
    if (!offers) {
        fputs(fish_kinds[kind], stdout);
        return;
    }
    printf(" -x -a '");
    print_words(offers);
    putchar('\'');
}

static void fish_command(const command *c)
{
    char text[160];
    printf("complete -c haul -n __fish_use_subcommand -a %s -d '%s'\n", c->name, brief(c->summary, text, sizeof text));
    for (int i = 0; i < c->option_count; i++) {
        const option *row = &c->options[i];
        printf("complete -c haul -n '__fish_seen_subcommand_from %s' -l %s", c->name, row->name);
        if (row->letter)
            printf(" -s %c", row->letter);
        if (row->kind != OPTION_FLAG)
            fish_value(offers_of(row), row->complete);
        printf(" -d '%s'\n", brief(row->help, text, sizeof text));
    }
    if (!c->operand.name)
        return;
    printf("complete -c haul -n '__fish_seen_subcommand_from %s'", c->name);
    fish_value(c->operand.choices, c->operand.complete);
    putchar('\n');
}

static void print_fish(void)
{
    fputs(fish_head, stdout);
    print_file_sources("' '");
    fputs(fish_sources, stdout);
    print_sources();
    printf("'\n    end\nend\n"
           "complete -c haul -f\n"
           "complete -c haul -s h -l help -d 'Show help'\n"
           "complete -c haul -n __fish_use_subcommand -s V -l version -d 'Show the version'\n");
    for (int i = 0; i < command_count; i++)
        fish_command(commands[i]);
}

/* ---- the command ---- */

typedef struct completion_options {
    const char *shell;
} completion_options;

static const struct {
    const char *name;
    void (*print)(void);
} shells[] = {{"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}};

static int completion_main(int argc, char **argv)
{
    completion_options o = {0};
    option_values      values;
    int                code = options_parse(&values, &completion_command, &o, argc, argv);
    if (code >= 0)
        return code;
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++)
        if (!strcmp(shells[i].name, o.shell))
            shells[i].print();
    return output_works() ? EXIT_OK : EXIT_FAILED;
}

static const help_example completion_lines[] = {
    {"source <(haul completion bash)", "for this session, or in ~/.bashrc"},
    {"haul completion zsh > \"${fpath[1]}/_haul\"", "for zsh"},
    {"haul completion fish > ~/.config/fish/completions/haul.fish", "for fish"},
    {NULL, NULL}};

const command completion_command = {
    .name = "completion",
    .summary = "Print a completion script for bash, zsh or fish",
    .usage = "bash|zsh|fish",
    .description = "Prints a script that completes commands, options and their values in a shell: names of models, "
                   "optimizers, devices and operations, sources of data, files and folders. Packages of Haul install "
                   "these scripts.",
    .operand = {.name = "SHELL",
                .help = "The shell: bash, zsh or fish",
                .offset = offsetof(completion_options, shell),
                .required = true,
                .choices = OPTION_CHOICES("bash", "zsh", "fish")},
    .examples = completion_lines,
    .run = completion_main,
};
