/* A network and what it is asked to do with a dataset: its loss, and what counts as right. */
#ifndef CLI_MODEL_NETWORK_H
#define CLI_MODEL_NETWORK_H

#include <haul/haul.h>

#include "cli/model/source.h"

/* The network that is an ONNX model. */
#define NETWORK_ONNX "onnx"

/* The names of all networks. */
#define NETWORK_CHOICES                                                                                                \
    OPTION_CHOICES("simplecnn", "resnet18", "resnet18_imagenet", "resnet50", "mobilenet_v2", "vit_tiny", "dense",      \
                   "mlp", "char_gpt", "unet", NETWORK_ONNX)

/* "char_gpt" for texts, "unet" for pictures with masks, "simplecnn" for pictures that are large enough, else "dense".
 */
const char *network_default(const data_spec *spec);

/* What the network is for. */
data_task network_task(const char *model);

/* The built-in source of data that the network is trained on unless another one is named. */
const char *network_data(const char *model);

/* The path of its last layer, "fc"; NULL if this layer has no weights of its own. */
const char *network_head(const char *model);

/* How many values a network gives for an example of this data, or for each pixel or token: the number of classes. */
int64_t network_outputs(const data_spec *spec);

/* True if the network is one for this data. Otherwise complains, and names data for it and a network for the data. */
bool network_suits(const char *model, const data_spec *spec, const char *data);

/* Sizes of char_gpt; 0: the usual ones. And the file of the network "onnx". */
typedef struct network_sizes {
    int64_t     layers, features, heads;
    const char *file;
} network_sizes;

/* True if the file's name is that of an ONNX model. */
bool network_is_onnx(const char *path);

/* The model fitted to the data's shape and number of classes. NULL with the library's error. */
haul_module *network_new(const char *model, const network_sizes *sizes, const data_spec *spec);

/* Cross entropy for classes, binary cross entropy for other targets: the mean over the batch and all its answers. */
haul_tensor *network_loss(const data_spec *spec, haul_tensor *logits, haul_tensor *y);

/* The class with the highest logit: of each example, pixel or token. */
haul_tensor *network_classes(const data_spec *spec, haul_tensor *logits);

/* How many of the predictions are right, i64; of network_answers(y) there are. Nothing is recorded for a gradient. */
haul_tensor *network_hits(const data_spec *spec, haul_tensor *logits, haul_tensor *y);
int64_t      network_answers(const haul_tensor *y);

/* Brings a batch's logits and targets to the device on which loss and right answers are computed; NULL: they stay. */
void network_bring(haul_device *metrics, haul_tensor **logits, haul_tensor **y);

/* Sums on that device, of losses and of right answers; errors are those of the tensors. */
void network_sums(haul_device *metrics, haul_tensor **loss, haul_tensor **hits);

/* Means over a dataset, in evaluation mode and without a graph. Both functions of a watch may be NULL: `go_on` is
 * called with the number of batches that are done, after each and before the first; false ends the evaluation. `see` is
 * called with the logits of each batch. */
typedef struct network_score {
    double  loss, accuracy;
    int64_t answers;
} network_score;
/* What the means are made of. */
typedef struct network_totals {
    double  loss; /* the sum */
    int64_t hits, answers, examples;
} network_totals;
typedef struct network_watch {
    bool (*go_on)(int64_t batches, void *context);
    haul_status (*see)(haul_tensor *logits, haul_tensor *y, void *context);
    void        *context;
    haul_device *metrics; /* where loss and right answers are computed; NULL: where the logits are */
    /* With `join`, the loader gives one batch in `ranks`: its loss goes to the element of `losses` with the number of
     * the batch among those of all, and `join` turns the totals into those of all. */
    haul_tensor *losses;
    int          ranks;
    haul_status (*join)(network_totals *totals, void *context);
    haul_parallel *parallel;  /* calls the network; NULL: the caller's thread does */
    bool           passes_on; /* the results of its calls are another rank's */
} network_watch;
haul_status network_evaluate(haul_module *net, const data_spec *spec, haul_loader *loader, const network_watch *watch,
                             network_score *out);

/* The same for the first mini-batch only, twice, without reading a value: for dry runs. */
haul_status network_try(haul_module *net, const data_spec *spec, haul_loader *loader, haul_device *metrics);

#endif
