/* Made sentences, for networks that predict the next character: words of a small vocabulary, in the order of a small
 * grammar. A good network knows a word after its first letters, and cannot know the next one. */
#include <string.h>

#include "base/assert.h"
#include "data/synthetic/synthetic.h"

#define NEW     "haul_sentences"
#define CONTEXT 64

/* ---- sentences ---- */

#define WORDS 8
static const char *const adjectives[WORDS] = {"old", "quick", "small", "brave", "white", "happy", "quiet", "lazy"};
static const char *const nouns[WORDS] = {"fox", "horse", "rider", "king", "bird", "smith", "judge", "cat"};
static const char *const verbs[WORDS] = {"sees", "finds", "loves", "follows", "helps", "meets", "hears", "knows"};

/* "the old fox sees a bird. ", where a word in brackets may be missing: the (old) fox sees a (quiet) bird. */
static const struct place {
    const char *const *words; /* NULL: it has the one of `word` */
    const char        *word;
    bool               optional; /* it is missing in one of two */
} sentence[] = {
    {.word = "the"}, {.words = adjectives, .optional = true}, {.words = nouns}, {.words = verbs},
    {.word = "a"},   {.words = adjectives, .optional = true}, {.words = nouns},
};
enum { PLACES = sizeof sentence / sizeof *sentence, LONGEST = 96 };

static const char *draw_word(haul_draws *d, const struct place *p)
{
    if (p->optional && haul_draw_below(d, 2))
        return NULL;
    return p->words ? p->words[haul_draw_below(d, WORDS)] : p->word;
}

/* A sentence and a blank; its length. */
static size_t draw_sentence(haul_draws *d, char out[LONGEST])
{
    size_t length = 0;
    for (int i = 0; i < PLACES; i++) {
        const char *word = draw_word(d, &sentence[i]);
        if (!word)
            continue;
        HAUL__ASSERT(length + strlen(word) + 2 <= LONGEST);
        memcpy(out + length, word, strlen(word));
        length += strlen(word);
        out[length++] = ' ';
    }
    memcpy(out + length - 1, ". ", 2);
    return length + 1;
}

/* ---- examples ---- */

static const char characters[] = " .abcdefghijklmnopqrstuvwxyz";
enum { CLASSES = sizeof characters - 1 };

static int64_t number_of(char c)
{
    HAUL__ASSERT(c == ' ' || c == '.' || (c >= 'a' && c <= 'z'));
    return c == ' ' ? 0 : c == '.' ? 1 : c - 'a' + 2;
}

/* The example begins anywhere in its first sentence. */
static haul_status read_stretch(void *context, haul_example *e)
{
    haul_draws d = haul__synthetic_draws(context, e);
    char       text[LONGEST];
    int64_t   *x = e->fields[0].data, *y = e->fields[1].data;
    size_t     length = draw_sentence(&d, text), at = haul_draw_below(&d, length);
    for (int i = 0; i <= CONTEXT; i++, at++) {
        if (at == length) {
            length = draw_sentence(&d, text);
            at = 0;
        }
        HAUL__ASSERT(at < length && length <= LONGEST);
        if (i < CONTEXT)
            x[i] = number_of(text[at]);
        if (i)
            y[i - 1] = number_of(text[at]);
    }
    return HAUL_OK;
}

haul_dataset *haul_sentences_with(const haul_synthetic_options *options)
{
    char        texts[CLASSES][2];
    const char *names[CLASSES];
    for (int i = 0; i < CLASSES; i++) {
        texts[i][0] = characters[i];
        texts[i][1] = 0;
        names[i] = texts[i];
    }
    const haul_field field = {
        .dtype = HAUL_I64, .shape = HAUL_SHAPE(CONTEXT), .classes = CLASSES, .class_names = names};
    haul_dataset_source source = {
        .fields = {field, field},
        .name = "sentences",
        .read = read_stretch,
    };
    source.fields[0].name = "x";
    source.fields[1].name = "y";
    return haul__synthetic_make(options, HAUL__FOR_SENTENCES, &source, NEW);
}
