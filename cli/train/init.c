#include "cli/train/init.h"

#include <stdlib.h>
#include <string.h>

#include "base/text/list.h"
#include "cli/model/network.h"
#include "cli/shared/cli.h"
#include "files/file.h"
#include "onnx/load.h"

bool init_is_consistent(const train_options *o)
{
    if (o->init || (!o->head && !o->freeze))
        return true;
    if (o->freeze)
        complain("--freeze keeps the weights of a trained network; give --init FILE, or leave --freeze out");
    else
        complain("--head replaces the last layer of a trained network; give --init FILE, or leave --head out: the last "
                 "layer of a new network has as many outputs as the data has classes");
    return false;
}

bool init_choose_model(const trainer *t)
{
    train_options *o = t->options;
    const bool     given = network_is_onnx(o->init);
    if (given && o->model && strcmp(o->model, NETWORK_ONNX) != 0) {
        complain("--init %s is the network, and --model %s another one; leave --model out", o->init, o->model);
        return false;
    }
    if (given && (o->head || o->freeze)) {
        complain("--%s: an ONNX model does not say which layer is its last; train all of %s, or replace the layer in "
                 "the program that exported it",
                 o->head ? "head" : "freeze", o->init);
        return false;
    }
    if (given)
        o->model = NETWORK_ONNX;
    if (o->model && !strcmp(o->model, NETWORK_ONNX))
        o->sizes.file = given && !o->resume ? o->init : t->run.model;
    return true;
}

/* The memory of the open file gets all elements, and is written to another one. */
static haul_status copy_file(const haul__onnx_file *from, const char *to)
{
    const size_t size = (size_t)from->file.size;
    haul_status  status = haul__file_read(&from->file, 0, from->data, size);
    return status ? status : haul__file_write_all(to, "haul train", from->data, size);
}

bool init_keep_model(const trainer *t)
{
    const char     *from = t->options->sizes.file;
    haul__onnx_file file;
    haul_status     status = HAUL_OK;
    bool            whole = true;
    if (!t->run.path || !from || !strcmp(from, t->run.model))
        return true;
    if (haul__onnx_read_file(from, "haul train", &file)) {
        complain_error();
        return false;
    }
    for (size_t i = 0; i < file.model.graph.tensor_count; i++)
        whole = whole && !file.model.graph.tensors[i].location;
    if (whole)
        status = copy_file(&file, t->run.model);
    else
        complain("--init %s has its weights in another file, and the run keeps one file only; leave --run out, or save "
                 "the model without external data",
                 from);
    haul__onnx_close_file(&file);
    return whole && (!status || !complain_error());
}

/* The first input that has no initialiser; NULL: all have one. */
static const haul__onnx_value *first_input(const haul__onnx_graph *g)
{
    for (size_t i = 0; i < g->input_count; i++) {
        bool given = false;
        for (size_t k = 0; k < g->tensor_count && !given; k++)
            given = !strcmp(g->tensors[k].name, g->inputs[i].name);
        if (!given)
            return &g->inputs[i];
    }
    return NULL;
}

/* The sizes of an example as the model declares them. False if one is not known, or they are those of the data. */
static bool takes_others(const haul__onnx_value *input, const haul_shape *example, haul_shape *out)
{
    *out = (haul_shape){.ndim = input->ndim - 1};
    bool differs = out->ndim != example->ndim;
    for (int d = 0; d < out->ndim; d++) {
        out->dims[d] = input->dims[d + 1];
        if (out->dims[d] < 0)
            return false;
        differs = differs || out->dims[d] != example->dims[d];
    }
    return differs;
}

/* Of an ONNX model: batches of any size, of examples that the data has. */
static bool input_suits(const trainer *t)
{
    const train_options *o = t->options;
    haul__onnx_file      file;
    haul_shape           example;
    bool                 suits = false;
    if (!o->model || strcmp(o->model, NETWORK_ONNX) != 0 || !o->sizes.file)
        return true; /* without a file the network is refused later */
    if (haul__onnx_read_file(o->sizes.file, "haul train", &file)) {
        complain_error();
        return false;
    }
    const haul__onnx_value *input = first_input(&file.model.graph);
    if (input && input->ndim > 0 && input->dims[0] >= 0)
        complain("%s takes %s example%s at a time, and only models that take any number can be trained; export it with "
                 "a batch of any size",
                 o->sizes.file, text_count(input->dims[0]), input->dims[0] == 1 ? "" : "s");
    else if (input && input->ndim > 0 && takes_others(input, &t->data.spec.x.shape, &example))
        complain("%s takes examples %s, and those of --data %s are %s; give other data, or another model",
                 o->sizes.file, text_shape(&example), o->data, text_shape(&t->data.spec.x.shape));
    else
        suits = true;
    haul__onnx_close_file(&file);
    return suits;
}

bool init_suits(const trainer *t)
{
    const train_options *o = t->options;
    const int64_t        outputs = network_outputs(&t->data.spec);
    if (!input_suits(t))
        return false;
    if ((o->head || o->freeze) && !network_head(o->model)) {
        complain("--%s: the last layer of %s shares its weights with another one, and cannot be trained by itself",
                 o->head ? "head" : "freeze", o->model);
        return false;
    }
    if (!o->head || o->head == outputs)
        return true;
    complain("--head %lld is a last layer for %lld classes, and --data %s %s %lld %s; give --head %lld, or other data",
             (long long)o->head, (long long)o->head, o->data,
             t->data.spec.y.dtype == HAUL_I64 ? "has" : "needs outputs:", (long long)outputs,
             t->data.spec.y.dtype == HAUL_I64 ? "classes" : "for each example", (long long)outputs);
    return false;
}

/* ---- the file ---- */

/* The part of a name in the file from the last layer's path on, "fc.weight" of "state_dict.fc.weight"; NULL: it is not
 * of the last layer. */
static const char *part_of_head(const char *name, const char *head)
{
    const size_t length = strlen(head);
    const char  *found = name;
    while ((found = strstr(found, head))) {
        const bool begins = found == name || found[-1] == '.';
        if (begins && found[length] == '.' && !strchr(found + length + 1, '.'))
            return found;
        found++;
    }
    return NULL;
}

void init_left_out(const trainer *t, char *out, size_t size)
{
    const train_options *o = t->options;
    haul_safetensors    *file = o->head && !network_is_onnx(o->init) ? haul_open_safetensors(o->init) : NULL;
    const int            count = file ? haul_safetensors_count(file) : 0;
    *out = 0;
    for (int i = 0; i < count; i++) {
        haul_file_tensor entry;
        const char      *name =
            haul_safetensors_entry(file, i, &entry) ? NULL : part_of_head(entry.name, network_head(o->model));
        if (name)
            haul__list_add(out, size, "%s %s", name, text_shape(&entry.shape));
    }
}

/* The library's error without its advice for programs, and with what to do where only the last layer does not fit. */
static haul_status explain(const trainer *t, const char *head)
{
    char              quoted[96], below[96], message[1200], advice[200] = "";
    const haul_status status = haul_error_status();
    snprintf(quoted, sizeof quoted, "'%s.", head ? head : "");
    snprintf(below, sizeof below, ".%s.", head ? head : "");
    if (status == HAUL_SHAPE && !t->options->head && head &&
        (strstr(haul_error_message(), quoted) || strstr(haul_error_message(), below)))
        snprintf(advice, sizeof advice, "; --head %lld begins with a new %s instead",
                 (long long)network_outputs(&t->data.spec), head);
    const char *text = error_text(), *end = strstr(text, "; .partial = true");
    snprintf(message, sizeof message, "%.*s%s", end ? (int)(end - text) : (int)strlen(text), text, advice);
    return haul_error_set(status, NULL, NULL, "%s", message);
}

haul_status init_load(const trainer *t)
{
    const train_options *o = t->options;
    const char          *head = network_head(o->model);
    char                 without[96] = "";
    if (!o->init || o->resume || network_is_onnx(o->init))
        return HAUL_OK;
    if (o->head)
        snprintf(without, sizeof without, "%s.", head);
    return haul_load_weights(o->init, t->net, .without = without) ? explain(t, head) : HAUL_OK;
}

/* ---- the network ---- */

static bool is_of_head(const haul_named_tensor *n, const char *head)
{
    const size_t length = strlen(head);
    return !strncmp(n->name, head, length) && n->name[length] == '.';
}

/* The network's tensors, for free; NULL on failure. */
static haul_named_tensor *list_tensors(const trainer *t, int *count)
{
    *count = haul_module_tensors(t->net, NULL, 0);
    haul_named_tensor *all = *count < 0 ? NULL : calloc((size_t)*count + 1, sizeof *all);
    if (*count >= 0 && !all)
        haul_error_set(HAUL_OUT_OF_MEMORY, NULL, NULL, "memory is exhausted");
    if (all && haul_module_tensors(t->net, all, *count) < 0) {
        free(all);
        return NULL;
    }
    return all;
}

/* The modes stay: batch normalisations go on computing and keeping their statistics, as in PyTorch. */
haul_status init_freeze(const trainer *t)
{
    int                count;
    const char        *head = network_head(t->options->model);
    haul_named_tensor *all = t->options->freeze ? list_tensors(t, &count) : NULL;
    haul_status        status = all || !t->options->freeze ? HAUL_OK : haul_error_status();
    for (int i = 0; all && i < count && !status; i++)
        if (!all[i].is_buffer && !is_of_head(&all[i], head))
            status = haul_tensor_check(haul_set_requires_grad(all[i].tensor, false));
    free(all);
    return status;
}

int64_t init_trained(const trainer *t)
{
    int                count;
    int64_t            sum = 0;
    haul_named_tensor *all = list_tensors(t, &count);
    for (int i = 0; all && i < count; i++)
        if (!all[i].is_buffer && haul_requires_grad(all[i].tensor))
            sum += haul_tensor_count(all[i].tensor);
    free(all);
    return sum;
}
